#include "bindings/torch/watched_op.h"

#include <ATen/Parallel.h>

#include "bindings/torch/session_source.h"

namespace reprise::bindings {

using scheduler::Action;
using scheduler::DeviceKind;

ThreadState* WatchingThread(c10::DispatchKeySet below) {
  using c10::DispatchKey;
  constexpr c10::DispatchKeySet kDenseHost(DispatchKey::CPU);
  constexpr c10::DispatchKeySet kDense({DispatchKey::CPU, DispatchKey::CUDA});
  ThreadState& thread = t_thread_state;
  if (thread.depth != 0 || !thread.Refresh()) return nullptr;
  // What a thread of the host's pool calls belongs to the op that it works for.
  const bool ours = thread.kind == DeviceKind::kHost
                        ? below == kDenseHost && !at::in_parallel_region()
                        : (below.raw_repr() & ~kDense.raw_repr()) == 0 &&
                              below.has_backend(c10::BackendComponent::CUDABit);
  if (!ours) return nullptr;
  if (thread.asleep->load(std::memory_order_relaxed)) [[unlikely]] {
    thread.SkipOp();
    return nullptr;
  }
  return &thread;
}

WatchedOp::~WatchedOp() {
  if (observed_) [[unlikely]] {
    session_->Lock();
    locked_ = true;
    session_->Abandon(call_.view());
  }
  Unlock();
  if (deep_) --thread_.depth;
}

void WatchedOp::Unlock() {
  if (!locked_) return;
  locked_ = false;
  session_->Unlock();
}

WatchedOp::Step WatchedOp::Enter() {
  const std::optional<int> device = call_.Finish();
  if (!device.has_value()) return Step::kPass;
  session_ = thread_.FindSession(*device);
  if (session_ == nullptr) return Step::kPass;
  session_->Lock();
  locked_ = true;
  switch (session_->Enter(call_.view())) {
    case Action::kFollow:
      return Step::kFollow;
    case Action::kObserve:
      observed_ = true;
      wants_call_ = session_->wants_call();
      Unlock();
      return Step::kObserve;
    case Action::kCut:
      Unlock();
      BeforeCut(session_, call_.view(), call_.may_wait());
      break;
    case Action::kEager:
      break;
  }
  return Step::kEager;
}

void WatchedOp::GiveCall(std::unique_ptr<BoxedCall> boxed) {
  boxed_ = std::move(boxed);
}

void WatchedOp::StartEager() {
  Unlock();
  deep_ = true;
  ++thread_.depth;
}

void WatchedOp::Leave(const ResultList& results) {
  // What cannot be described or repeated is left to be abandoned.
  if (!results.describable() || !call_.RefreshWritten()) return;
  if (boxed_ != nullptr) ExpectResults(boxed_->expected(), results.views());
  observed_ = false;
  session_->Lock();
  locked_ = true;
  session_->Leave(call_.view(), results.views(), std::move(boxed_));
  Unlock();
}

}  // namespace reprise::bindings
