// What a runtime is made with.

#ifndef REPRISE_BINDINGS_NATIVE_RUNTIME_OPTIONS_H_
#define REPRISE_BINDINGS_NATIVE_RUNTIME_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "bindings/native/common.h"

namespace reprise {

struct RuntimeOptions {
  // A CUDA device by number, or kHost: kernels are functions of the host
  // (HostKernel), everything else is the same. What a launch may be are the
  // limits of a GPU of compute capability 9.0 then. Memory that no buffer of
  // the runtime holds (any more) is refused where a launch, plan or copy names
  // it, but for the program's own.
  static constexpr int kHost = -1;
  int device = 0;
  // A CUcontext of the caller's, in place of the primary one of `device`; it
  // must outlive the runtime and all that keeps it alive.
  void* context = nullptr;
  // Memory of freed buffers that is kept for the next ones; what is more goes
  // back to the device when a stream is synchronised. What builds hold counts
  // as in use.
  uint64_t pool_bytes = uint64_t{256} << 20;
  // A graph is built once a batch has come so often.
  uint32_t build_after = 2;
  // How graphs are given new arguments.
  Patching patching = Patching::kMeasured;
  // Graphs that a stream holds; the one not used for the longest time goes.
  uint32_t plans_per_stream = 64;
  // Where a tool that shows NVTX ranges is attached, as Nsight Systems, it
  // shows submissions and builds, in the domain reprise; costs nothing without
  // one.
  bool nvtx = true;
  // The folder where compiled kernels outlive the process; "" for none. Unset:
  // $REPRISE_CACHE_DIR, else $XDG_CACHE_HOME/reprise, else ~/.cache/reprise.
  // One that cannot be used, or that others may write to, is none
  // (RuntimeStats::why_no_cache).
  std::optional<std::string> cache_dir = {};
};

}  // namespace reprise

#endif  // REPRISE_BINDINGS_NATIVE_RUNTIME_OPTIONS_H_
