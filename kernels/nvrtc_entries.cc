#include "kernels/nvrtc_entries.h"

#include <string>

namespace reprise::kernels {
namespace {

using base::Code;

Code CodeOfResult(nvrtcResult result) {
  switch (result) {
    case NVRTC_ERROR_INVALID_INPUT:
    case NVRTC_ERROR_INVALID_OPTION:
    case NVRTC_ERROR_COMPILATION:
    case NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID:
      return Code::kInvalidArgument;
    case NVRTC_ERROR_OUT_OF_MEMORY:
      return Code::kResourceExhausted;
    case NVRTC_ERROR_BUILTIN_OPERATION_FAILURE:
      return Code::kUnavailable;  // its builtins library is not to be found
    default:
      return Code::kInternal;
  }
}

}  // namespace

base::Status Check(const NvrtcEntries& nvrtc, nvrtcResult result,
                   const char* call) {
  if (result == NVRTC_SUCCESS) return {};
  return base::Fail(
      CodeOfResult(result),
      std::string(call) + " failed with " + nvrtc.nvrtcGetErrorString(result));
}

}  // namespace reprise::kernels
