#include "bindings/torch/pass_edges.h"

#include <c10/cuda/CUDAFunctions.h>

#include "bindings/torch/thread_state.h"

namespace reprise::bindings {

PassEdges::PassEdges() {
  ThreadState& thread = t_thread_state;
  if (thread.depth > 0 || !thread.Refresh() ||
      thread.asleep->load(std::memory_order_relaxed)) {
    return;
  }
  const int device = thread.kind == scheduler::DeviceKind::kCuda
                         ? c10::cuda::current_device()
                         : 0;
  session_ = thread.FindSession(device);
  if (session_ == nullptr) return;
  epoch_ = thread.epoch;
  session_->Lock();
  session_->BeginPass();
  session_->Unlock();
}

PassEdges::~PassEdges() {
  if (session_ == nullptr) return;
  // Of another runtime: it may be gone.
  ThreadState& thread = t_thread_state;
  if (!thread.Refresh() || thread.epoch != epoch_) return;
  session_->Lock();
  session_->EndPass();
  session_->Unlock();
}

}  // namespace reprise::bindings
