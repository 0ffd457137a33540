// NVRTC's entry points, as a table.

#ifndef REPRISE_KERNELS_NVRTC_ENTRIES_H_
#define REPRISE_KERNELS_NVRTC_ENTRIES_H_

#include <nvrtc.h>

#include "engine/base/status.h"

namespace reprise::kernels {

#define REPRISE_NVRTC_ENTRIES(X) \
  X(nvrtcAddNameExpression)      \
  X(nvrtcCompileProgram)         \
  X(nvrtcCreateProgram)          \
  X(nvrtcDestroyProgram)         \
  X(nvrtcGetCUBIN)               \
  X(nvrtcGetCUBINSize)           \
  X(nvrtcGetErrorString)         \
  X(nvrtcGetLoweredName)         \
  X(nvrtcGetNumSupportedArchs)   \
  X(nvrtcGetProgramLog)          \
  X(nvrtcGetProgramLogSize)      \
  X(nvrtcGetPTX)                 \
  X(nvrtcGetPTXSize)             \
  X(nvrtcGetSupportedArchs)      \
  X(nvrtcVersion)

// A table of entry points, so that tests can put a simulated NVRTC in its
// place. Thread-safe to call.
struct NvrtcEntries {
#define REPRISE_NVRTC_MEMBER(name) decltype(&::name) name = nullptr;
  REPRISE_NVRTC_ENTRIES(REPRISE_NVRTC_MEMBER)
#undef REPRISE_NVRTC_MEMBER
};

// The error of a call that gave `result`, with a code for what the caller can
// do about it: "nvrtcVersion failed with ...".
base::Status Check(const NvrtcEntries& nvrtc, nvrtcResult result,
                   const char* call);

}  // namespace reprise::kernels

#endif  // REPRISE_KERNELS_NVRTC_ENTRIES_H_
