// NVRTC, loaded at run time: CUDA source to machine code.

#ifndef REPRISE_KERNELS_NVRTC_H_
#define REPRISE_KERNELS_NVRTC_H_

#include <span>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "kernels/compiled_code.h"
#include "kernels/kernel_source.h"

namespace reprise::kernels {

// All below are thread-safe, need no device and no context, and fail with
// kUnavailable where libnvrtc.so.13 cannot be loaded (the copy that torch
// brought is tried first). The first call of those that need it loads it, some
// 15 ms with its 110 MB in the page cache.

// Compiles on this thread, 30 ms to seconds; no cache, see Compiler for one.
// NVRTC works on one front end at a time in a process, whoever calls.
//
// kInvalidArgument, with the compiler's log in the message, where the source,
// an option, the architecture or a name expression is at fault.
base::Result<CompiledCode> CompileWithNvrtc(const KernelSource& source);

// The machine code alone, of a source that needs nothing else, for an
// architecture ("sm_90") that this NVRTC knows.
base::Result<std::vector<char>> CompileToCubin(
    const std::string& source, const std::string& name, const std::string& arch,
    std::span<const std::string> options);

// What NVRTC is asked for to make code that runs on `architecture`: itself if
// it is known, else the newest "compute_XX" that is not above it.
// kInvalidArgument if there is none such, or if it is no architecture.
base::Result<std::string> NvrtcTarget(const std::string& architecture);

// kInvalidArgument if it is not written as one. Loads nothing.
base::Status CheckArchitecture(const std::string& architecture);

// Tells one build of NVRTC from another. Loads nothing where the file can be
// found without the loader (device::LocateSharedLibrary); some 100 us, once.
base::Result<std::string> NvrtcIdentity();

}  // namespace reprise::kernels

#endif  // REPRISE_KERNELS_NVRTC_H_
