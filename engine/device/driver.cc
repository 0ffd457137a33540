#include "engine/device/driver.h"

#include <memory>
#include <string>

#include "engine/device/exiting.h"
#include "engine/device/shared_library.h"

namespace reprise::device {
namespace {

using base::Code;
using base::Fail;

Code CodeOf(CUresult result) {
  switch (result) {
    case CUDA_ERROR_OUT_OF_MEMORY:
      return Code::kResourceExhausted;
    case CUDA_ERROR_NO_DEVICE:
    case CUDA_ERROR_NOT_SUPPORTED:
    case CUDA_ERROR_STUB_LIBRARY:
    case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
    case CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE:
      return Code::kUnavailable;
    default:
      return Code::kInternal;
  }
}

constexpr char kNoDriver[] =
    "no NVIDIA driver was found: install driver 580 or newer";

base::Result<const Driver*> LoadDriver() {
  REPRISE_ASSIGN_OR_RETURN(void* library,
                           OpenSharedLibrary("libcuda.so.1", kNoDriver));
  auto driver = std::make_unique<Driver>();
  // The inner macro receives the name after cuda.h's macros have given it its
  // version, so that it is the symbol's own.
#define REPRISE_STRING(name) #name
#define REPRISE_LOAD(name)                                                 \
  driver->name = reinterpret_cast<decltype(&::name)>(                      \
      FindSymbol(library, REPRISE_STRING(name)));                          \
  if (driver->name == nullptr) {                                           \
    return Fail(Code::kUnavailable,                                        \
                "the NVIDIA driver is too old: it has no " REPRISE_STRING( \
                    name) "; install driver 580 or newer");                \
  }
  REPRISE_DRIVER_ENTRIES(REPRISE_LOAD)
#undef REPRISE_LOAD
#undef REPRISE_STRING
  if (const CUresult result = driver->cuInit(0); result != CUDA_SUCCESS) {
    return tl::unexpected(driver->WhyUnusable(result, "cuInit"));
  }
  CUdevice device;
  if (const CUresult result = driver->cuDeviceGet(&device, 0);
      result != CUDA_SUCCESS) {
    return tl::unexpected(driver->WhyUnusable(result, "cuDeviceGet"));
  }
  WatchForExit();
  return driver.release();
}

}  // namespace

base::Result<const Driver*> Driver::Load() {
  // Never destroyed: the table must be there until the very end.
  static const auto* const loaded =
      new base::Result<const Driver*>(LoadDriver());
  return *loaded;
}

base::Error Driver::WhyUnusable(CUresult result, const char* call) const {
  const std::string said = Explain(result, call).message();
  switch (result) {
    case CUDA_ERROR_NO_DEVICE:
    case CUDA_ERROR_INVALID_DEVICE:
      return base::Error(Code::kUnavailable,
                         "the NVIDIA driver shows this process no GPU: look "
                         "at nvidia-smi and CUDA_VISIBLE_DEVICES (" +
                             said + ")");
    case CUDA_ERROR_STUB_LIBRARY:
      return base::Error(Code::kUnavailable,
                         "libcuda.so.1 is the toolkit's stub, no driver: "
                         "install driver 580 or newer, and leave the folder of "
                         "stubs out of LD_LIBRARY_PATH (" +
                             said + ")");
    default:
      return base::Error(Code::kUnavailable,
                         "the NVIDIA driver cannot be used: " + said);
  }
}

base::Error Driver::Explain(CUresult result, const char* call) const {
  const char* name = nullptr;
  const char* meaning = nullptr;
  if (cuGetErrorName != nullptr) cuGetErrorName(result, &name);
  if (cuGetErrorString != nullptr) cuGetErrorString(result, &meaning);
  std::string message = std::string(call) + " failed with ";
  message += name != nullptr ? name : "error " + std::to_string(result);
  if (meaning != nullptr) message.append(" (").append(meaning).append(")");
  if (result == CUDA_ERROR_UNSUPPORTED_PTX_VERSION) {
    message +=
        ": the PTX is of a newer CUDA than the driver; compile for the device "
        "(leave out `architecture`), or update the driver";
  }
  return base::Error(CodeOf(result), std::move(message));
}

base::Status Check(const Driver& driver, CUresult result, const char* call) {
  if (result == CUDA_SUCCESS) return {};
  return tl::unexpected<base::Error>(driver.Explain(result, call));
}

}  // namespace reprise::device
