// NVRTC, loaded at run time: CUDA source to machine code.

#ifndef REPRISE_KERNELS_NVRTC_H_
#define REPRISE_KERNELS_NVRTC_H_

#include <string>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "kernels/compiled_code.h"
#include "kernels/kernel_source.h"
#include "kernels/nvrtc_entries.h"

namespace reprise::kernels {

// One build of NVRTC. Immutable and thread-safe; needs no device and no
// context.
class Nvrtc {
 public:
  // Loads libnvrtc.so.13 once for the process (the copy that torch brought is
  // tried first), some 15 ms with its 110 MB in the page cache. kUnavailable
  // where it cannot be loaded; a failure stays. It lives for ever.
  static base::Result<const Nvrtc*> Load();
  // Of entries of the caller's, which it asks for its version and
  // architectures.
  static base::Result<Nvrtc> Create(const NvrtcEntries& entries);

  // Compiles on this thread, 30 ms to seconds; no cache, see Compiler for one.
  // NVRTC works on one front end at a time in a process, whoever calls.
  //
  // kInvalidArgument, with the compiler's log in the message, where the source,
  // an option, the architecture or a name expression is at fault. A log that
  // cannot be had is an empty one.
  base::Result<CompiledCode> Compile(const KernelSource& source) const;

  // The same for NVRTC's own target, as TargetFor gives it, and no other.
  base::Result<CompiledCode> CompileFor(const std::string& target,
                                        const KernelSource& source) const;

  // What NVRTC is asked for to make code that runs on `architecture`: itself if
  // it is known, else the newest "compute_XX" that is not above it.
  // kInvalidArgument if there is none such, or if it is no architecture.
  base::Result<std::string> TargetFor(const std::string& architecture) const;

  // Of its release: "13.0". See NvrtcIdentity.
  const std::string& version() const { return version_; }

 private:
  explicit Nvrtc(const NvrtcEntries& entries) : entries_(entries) {}

  NvrtcEntries entries_;
  std::string version_;
  std::vector<int> architectures_;  // ascending
};

}  // namespace reprise::kernels

#endif  // REPRISE_KERNELS_NVRTC_H_
