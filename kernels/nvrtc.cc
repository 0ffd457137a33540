#include "kernels/nvrtc.h"

#include <nvrtc.h>

#include <memory>

#include "engine/device/shared_library.h"

namespace reprise::kernels {
namespace {

using base::Code;
using base::Fail;

#define REPRISE_NVRTC_ENTRIES(X) \
  X(nvrtcCreateProgram)          \
  X(nvrtcCompileProgram)         \
  X(nvrtcDestroyProgram)         \
  X(nvrtcGetCUBINSize)           \
  X(nvrtcGetCUBIN)               \
  X(nvrtcGetProgramLogSize)      \
  X(nvrtcGetProgramLog)          \
  X(nvrtcGetErrorString)

struct Nvrtc {
#define REPRISE_NVRTC_MEMBER(name) decltype(&::name) name = nullptr;
  REPRISE_NVRTC_ENTRIES(REPRISE_NVRTC_MEMBER)
#undef REPRISE_NVRTC_MEMBER
};

base::Result<const Nvrtc*> LoadNvrtc() {
  REPRISE_ASSIGN_OR_RETURN(void* library,
                           device::OpenSharedLibrary("libnvrtc.so.13"));
  auto nvrtc = std::make_unique<Nvrtc>();
#define REPRISE_LOAD(name)                                                     \
  nvrtc->name =                                                                \
      reinterpret_cast<decltype(&::name)>(device::FindSymbol(library, #name)); \
  if (nvrtc->name == nullptr) {                                                \
    return Fail(Code::kUnavailable, "libnvrtc.so.13 has no " #name);           \
  }
  REPRISE_NVRTC_ENTRIES(REPRISE_LOAD)
#undef REPRISE_LOAD
  return nvrtc.release();
}

base::Result<const Nvrtc*> TheNvrtc() {
  // Never destroyed: a build may use it until the very end.
  static const auto* const loaded = new base::Result<const Nvrtc*>(LoadNvrtc());
  return *loaded;
}

Code CodeOf(nvrtcResult result) {
  switch (result) {
    case NVRTC_ERROR_INVALID_INPUT:
    case NVRTC_ERROR_INVALID_OPTION:
    case NVRTC_ERROR_COMPILATION:
      return Code::kInvalidArgument;
    case NVRTC_ERROR_OUT_OF_MEMORY:
      return Code::kResourceExhausted;
    case NVRTC_ERROR_BUILTIN_OPERATION_FAILURE:
      return Code::kUnavailable;  // its builtins library is not to be found
    default:
      return Code::kInternal;
  }
}

// One compilation, from creation to destruction of its program.
class Compilation {
 public:
  explicit Compilation(const Nvrtc& nvrtc) : nvrtc_(nvrtc) {}
  ~Compilation() {
    if (program_ != nullptr) nvrtc_.nvrtcDestroyProgram(&program_);
  }
  Compilation(const Compilation&) = delete;
  Compilation& operator=(const Compilation&) = delete;

  base::Result<std::vector<char>> Run(const std::string& source,
                                      const std::string& name,
                                      std::span<const std::string> options) {
    REPRISE_RETURN_IF_ERROR(
        Check(nvrtc_.nvrtcCreateProgram(&program_, source.c_str(), name.c_str(),
                                        0, nullptr, nullptr),
              "nvrtcCreateProgram"));
    std::vector<const char*> arguments;
    for (const std::string& option : options) {
      arguments.push_back(option.c_str());
    }
    const nvrtcResult compiled = nvrtc_.nvrtcCompileProgram(
        program_, static_cast<int>(arguments.size()), arguments.data());
    if (compiled != NVRTC_SUCCESS) {
      return tl::unexpected(base::Error(
          CodeOf(compiled), Explain(compiled, "nvrtcCompileProgram") + " for " +
                                name + "\n" + Log()));
    }
    size_t size_bytes = 0;
    REPRISE_RETURN_IF_ERROR(Check(
        nvrtc_.nvrtcGetCUBINSize(program_, &size_bytes), "nvrtcGetCUBINSize"));
    std::vector<char> cubin(size_bytes);
    REPRISE_RETURN_IF_ERROR(
        Check(nvrtc_.nvrtcGetCUBIN(program_, cubin.data()), "nvrtcGetCUBIN"));
    return cubin;
  }

 private:
  std::string Explain(nvrtcResult result, const char* call) const {
    return std::string(call) + " failed with " +
           nvrtc_.nvrtcGetErrorString(result);
  }

  base::Status Check(nvrtcResult result, const char* call) const {
    if (result == NVRTC_SUCCESS) return {};
    return Fail(CodeOf(result), Explain(result, call));
  }

  std::string Log() const {
    size_t size_bytes = 0;  // with the final zero
    if (nvrtc_.nvrtcGetProgramLogSize(program_, &size_bytes) != NVRTC_SUCCESS ||
        size_bytes == 0) {
      return {};
    }
    std::string log(size_bytes, '\0');
    if (nvrtc_.nvrtcGetProgramLog(program_, log.data()) != NVRTC_SUCCESS) {
      return {};
    }
    log.resize(log.find('\0'));
    return log;
  }

  const Nvrtc& nvrtc_;
  nvrtcProgram program_ = nullptr;
};

}  // namespace

base::Result<std::vector<char>> CompileToCubin(
    const std::string& source, const std::string& name, const std::string& arch,
    std::span<const std::string> options) {
  REPRISE_ASSIGN_OR_RETURN(const Nvrtc* nvrtc, TheNvrtc());
  std::vector<std::string> all = {"--gpu-architecture=" + arch};
  all.insert(all.end(), options.begin(), options.end());
  return Compilation(*nvrtc).Run(source, name, all);
}

}  // namespace reprise::kernels
