// The copy of NVRTC that a process uses.

#ifndef REPRISE_KERNELS_NVRTC_LIBRARY_H_
#define REPRISE_KERNELS_NVRTC_LIBRARY_H_

#include <string>
#include <vector>

#include "engine/base/status.h"

namespace reprise::kernels {

// Which libnvrtc.so.13 that is (the copy that torch brought is tried first) is
// found once, and stays the same. All of this is thread-safe.

// The library, open for ever. kUnavailable where it is not to be found, or was
// replaced on disk since it was: keys name what was found.
struct NvrtcLibrary {
  std::string path;
  void* handle = nullptr;  // for device::FindSymbol
};
base::Result<NvrtcLibrary> OpenNvrtc();

// Tells one build of NVRTC from another; kUnavailable where there is none.
// Loads nothing where the file can be found without the loader
// (device::LocateSharedLibrary); some 250 us, once.
base::Result<std::string> NvrtcIdentity();

// Folders of the headers (cuda_fp16.h, cuda/std/...) of the toolkit or wheel
// that NVRTC lies in; none where it has no headers beside it. Loads nothing
// more than NvrtcIdentity does.
const std::vector<std::string>& ToolkitIncludePaths();

}  // namespace reprise::kernels

#endif  // REPRISE_KERNELS_NVRTC_LIBRARY_H_
