// Memory of torch's caching allocator on a GPU: Reprise's own, and pools of
// which a program allocates while it is recorded.

#ifndef REPRISE_BINDINGS_TORCH_RUNTIME_PRIVATE_POOL_H_
#define REPRISE_BINDINGS_TORCH_RUNTIME_PRIVATE_POOL_H_

#include <c10/core/Allocator.h>
#include <c10/core/Device.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "bindings/torch/runtime/allocator_trace.h"
#include "engine/base/status.h"
#include "engine/trace/block.h"

namespace reprise::bindings {

// This thread is allocating memory for Reprise, on a GPU. Such memory stays out
// of private pools.
bool AllocatingForReprise();

// So many bytes for Reprise, at least one, for that stream. It has the deleter
// that torch's own tensors carry.
base::Result<engine::Block> AllocateFromTorch(c10::DeviceIndex device,
                                              cudaStream_t stream,
                                              size_t size_bytes);

// Of a stream. While it is open all that is allocated for the stream, by any
// thread but for Reprise's own, comes from segments that are new, so that it
// lies elsewhere than before. What was born there stays valid for as long as it
// lives. What is left behind goes back to the device some pools later, or when
// torch runs out of memory. By one thread at a time; the trace is borrowed.
class PrivatePool {
 public:
  PrivatePool(c10::DeviceIndex device, cudaStream_t stream,
              AllocatorTrace* trace)
      : device_(device),
        stream_(stream),
        trace_(trace),
        segments_freed_(trace->segments_freed()) {}
  ~PrivatePool() { Close(); }
  PrivatePool(const PrivatePool&) = delete;
  PrivatePool& operator=(const PrivatePool&) = delete;

  // For a pass that has so many bytes at once. kResourceExhausted where the
  // device has too little free: torch cannot give back other cached memory
  // while a pool is open.
  base::Status Open(uint64_t bytes);
  void Close();

 private:
  bool MakeRoom(uint64_t bytes);
  void TakeAtOnce(uint64_t bytes);
  void TakeFreedPlaces(uint64_t bytes);

  const c10::DeviceIndex device_;
  const cudaStream_t stream_;
  AllocatorTrace* const trace_;
  bool open_ = false;
  uint64_t segments_freed_;  // by others, when a pool was last closed
  std::vector<engine::Block> spacers_;
  c10::MempoolId_t pool_{0, 0};
  std::deque<c10::MempoolId_t> released_;
};

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_RUNTIME_PRIVATE_POOL_H_
