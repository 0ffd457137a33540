#include "kernels/kernel_library.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "engine/device/context_scope.h"
#include "engine/device/exiting.h"
#include "engine/device/relaxed_capture.h"
#include "kernels/kernel_names.h"

namespace reprise::kernels {
namespace {

// The name in the code of a variable of a namespace: "_ZN5space5tableE".
std::string Mangle(std::string_view name) {
  std::string mangled = "_ZN";
  while (!name.empty()) {
    const size_t end = std::min(name.find("::"), name.size());
    const std::string_view part = name.substr(0, end);
    if (!part.empty()) mangled.append(std::to_string(end)).append(part);
    name.remove_prefix(std::min(end + 2, name.size()));
  }
  return mangled + "E";
}

}  // namespace

base::Result<std::shared_ptr<KernelLibrary>> KernelLibrary::Load(
    const device::Driver& driver, CUcontext context,
    std::span<const char> image) {
  const device::ContextScope scope(driver, context);
  REPRISE_RETURN_IF_ERROR(scope.status());
  const device::RelaxedCapture relaxed(driver);
  std::array<char, 4096> log{};
  std::array options = {CU_JIT_ERROR_LOG_BUFFER,
                        CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  // Options are passed in the place of pointers.
  std::array<void*, 2> values = {log.data(),
                                 reinterpret_cast<void*>(log.size() - 1)};
  CUlibrary library = nullptr;
  const CUresult loaded = driver.cuLibraryLoadData(
      &library, image.data(), options.data(), values.data(), options.size(),
      nullptr, nullptr, 0);
  if (loaded != CUDA_SUCCESS) {
    const base::Error error = driver.Explain(loaded, "cuLibraryLoadData");
    const std::string_view said(log.data());
    if (said.empty()) return tl::unexpected(error);
    return base::Fail(error.code(), error.message() + "\n" + std::string(said));
  }
  return std::shared_ptr<KernelLibrary>(new KernelLibrary(
      driver, context, device::UniqueLibrary(driver, library)));
}

KernelLibrary::KernelLibrary(const device::Driver& driver, CUcontext context,
                             device::UniqueLibrary library)
    : driver_(driver), context_(context), library_(std::move(library)) {}

KernelLibrary::~KernelLibrary() {
  if (device::Exiting()) return;
  const device::RelaxedCapture relaxed(driver_);
  library_.Reset();
}

base::Result<CUfunction> KernelLibrary::Find(const std::string& name,
                                             std::string_view source) const {
  const device::ContextScope scope(driver_, context_);
  REPRISE_RETURN_IF_ERROR(scope.status());
  const device::RelaxedCapture relaxed(driver_);
  CUkernel kernel = nullptr;
  const CUresult found =
      driver_.cuLibraryGetKernel(&kernel, library_.get(), name.c_str());
  if (found == CUDA_ERROR_NOT_FOUND) {
    REPRISE_ASSIGN_OR_RETURN(kernel, FindByItsSourceName(name, source));
  } else {
    REPRISE_RETURN_IF_ERROR(
        device::Check(driver_, found, "cuLibraryGetKernel"));
  }
  // The function of this context: patching by it is quicker.
  CUfunction function = nullptr;
  REPRISE_CU(driver_, cuKernelGetFunction(&function, kernel));
  REPRISE_CU(driver_, cuFuncLoad(function));
  return function;
}

base::Result<KernelLibrary::Variable> KernelLibrary::FindVariable(
    const std::string& name) const {
  const device::ContextScope scope(driver_, context_);
  REPRISE_RETURN_IF_ERROR(scope.status());
  const device::RelaxedCapture relaxed(driver_);
  Variable variable;
  const auto find = [&](const std::string& in_code) {
    return driver_.cuLibraryGetGlobal(&variable.address, &variable.size_bytes,
                                      library_.get(), in_code.c_str());
  };
  CUresult found = find(name);
  if (found == CUDA_ERROR_NOT_FOUND && name.find("::") != std::string::npos) {
    found = find(Mangle(name));
  }
  if (found == CUDA_ERROR_NOT_FOUND) {
    return base::Fail(base::Code::kInvalidArgument,
                      "the source has no variable '" + name +
                          "': it is a __device__ or __constant__ one that is "
                          "not static; one that no kernel uses, or of a "
                          "template, is named in KernelSource::instances, as "
                          "in \"&" +
                          name + "\"");
  }
  REPRISE_RETURN_IF_ERROR(device::Check(driver_, found, "cuLibraryGetGlobal"));
  return variable;
}

base::Result<CUkernel> KernelLibrary::FindByItsSourceName(
    const std::string& name, std::string_view source) const {
  REPRISE_ASSIGN_OR_RETURN(const std::vector<Named> kernels, Kernels());
  CUkernel found = nullptr;
  size_t count = 0;
  std::vector<std::string> names;
  for (const Named& kernel : kernels) {
    names.push_back(kernel.name);
    if (!IsCalled(kernel.name, name)) continue;
    found = kernel.kernel;
    ++count;
  }
  if (count == 1) return found;
  return base::Fail(base::Code::kInvalidArgument,
                    "the source " + WhyNoKernel(name, std::move(names),
                                                KernelTemplatesOf(source)));
}

base::Result<std::vector<KernelLibrary::Named>> KernelLibrary::Kernels() const {
  unsigned count = 0;
  REPRISE_CU(driver_, cuLibraryGetKernelCount(&count, library_.get()));
  std::vector<CUkernel> handles(count);
  REPRISE_CU(driver_,
             cuLibraryEnumerateKernels(handles.data(), count, library_.get()));
  std::vector<Named> kernels;
  for (CUkernel kernel : handles) {
    const char* name = nullptr;
    REPRISE_CU(driver_, cuKernelGetName(&name, kernel));
    kernels.push_back({kernel, Demangle(name)});
  }
  return kernels;
}

}  // namespace reprise::kernels
