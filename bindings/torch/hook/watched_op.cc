#include "bindings/torch/hook/watched_op.h"

#include <ATen/Parallel.h>

#include <array>
#include <bit>
#include <cstddef>
#include <cstring>
#include <exception>
#include <utility>

#include "bindings/torch/base/python_lock.h"
#include "bindings/torch/runtime/allocator_trace.h"
#include "bindings/torch/runtime/kernel_state.h"
#include "bindings/torch/runtime/runtime_epoch.h"
#include "bindings/torch/runtime/session_source.h"
#include "engine/base/asymmetric_fence.h"
#include "engine/device/launch_recorder.h"
#include "engine/trace/trace.h"

namespace reprise::bindings {

using scheduler::Action;
using scheduler::DeviceKind;

namespace {

using c10::BackendComponent;
using c10::DispatchKey;
using c10::DispatchKeySet;

constexpr char kForeign[] =
    "memory is used by an op that is not watched (sparse, wrapped, quantized, "
    "of another device)";

// A backend that is watched computes the call on ordinary dense tensors.
bool IsOurs(DispatchKeySet below, DeviceKind kind) {
  constexpr DispatchKeySet kDenseHost(DispatchKey::CPU);
  constexpr DispatchKeySet kDense({DispatchKey::CPU, DispatchKey::CUDA});
  return kind == DeviceKind::kHost
             ? below == kDenseHost
             : (below.raw_repr() & ~kDense.raw_repr()) == 0 &&
                   below.has_backend(BackendComponent::CUDABit);
}

// A tensor of the call is of a device that is watched. Of tensors without
// memory, only the shape is computed, whatever else the call is given.
bool MayUseOurs(DispatchKeySet below, DeviceKind kind) {
  return below.has_backend(kind == DeviceKind::kHost
                               ? BackendComponent::CPUBit
                               : BackendComponent::CUDABit) &&
         !below.has_backend(BackendComponent::MetaBit);
}

// Structs that kernels take have parts that nobody writes: there lies what was
// on the stack, such as the addresses that ops before had. Zeros there are the
// same in each recording.
[[gnu::noinline]] void ClearStackBelow() {
  constexpr size_t kBytes = size_t{32} << 10;  // an op's frames, seldom more
  std::array<std::byte, kBytes> frames;
  std::memset(frames.data(), 0, frames.size());
  asm volatile("" : : "r"(frames.data()) : "memory");  // is not left out
}

// The op is in the book, and then what it is skipped for holds still
// (scheduler::Skipping). So whoever ends that finds the op in the book, or the
// op is shown.
template <typename Holds>
bool Skips(ThreadState& thread, Holds still_holds) {
  const bool noted = !thread.under_way();
  if (noted) thread.Slot().NoteAnything();
  if (still_holds()) {
    thread.skip.noted = noted;
    return true;
  }
  if (noted) thread.EndUnderWay();
  return false;
}

// The op is in the book for a runtime of the other kind, which may become
// active before it has returned.
bool NotesElsewhere(ThreadState& thread) {
  scheduler::OpsUnderWay::Slot& slot = thread.Slot();
  slot.NoteElsewhere(scheduler::OpsUnderWay::SessionsOf(thread.kind));
  if (thread.light_fences) [[likely]] {
    base::LightFence();
  } else {
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }
  if (thread.IsCurrent()) [[likely]]
    return true;
  slot.EndElsewhere();
  return false;
}

}  // namespace

void LockSession(scheduler::Session& session) {
  if (session.TryLock()) [[likely]]
    return;
  const PythonLockGivenUp python;
  session.Lock();
}

void NoteReplacedInside() {
  ThreadState& thread = t_thread_state;
  const bool told = std::exchange(thread.op.ran_replaced_kernel, true);
  if (thread.op.noted) {
    if (told) return;
    thread.Slot().BeginAnything();
    // Of another runtime by now: all sessions are interrupted.
    BeforeUnknownWrites(thread.IsCurrent() ? thread.op.observing : nullptr,
                        thread.op.observed_words);
  }
  // Any other span stands in the book as one that may write anything; without
  // one the thread works for Reprise, or for an op of another thread.
}

namespace {

// As ShowingOf, whatever the call is.
[[gnu::noinline]] Showing ShowingOfAny(ThreadState& thread,
                                       DispatchKeySet below) {
  if (thread.depth != 0) return Showing::kInside;
  if (g_unwatched.on() || !thread.Refresh()) [[unlikely]] {
    const bool skips = Skips(thread, [&thread] {
      return g_unwatched.StillOn() || !thread.Refresh();
    });
    if (skips) {
      thread.skip.while_asleep = false;
      return Showing::kSkip;
    }
  }
  const bool ours = IsOurs(below, thread.kind);
  if (!ours && !MayUseOurs(below, thread.kind)) {
    if (thread.in_book()) return Showing::kNot;
    return NotesElsewhere(thread) ? Showing::kElsewhere
                                  : ShowingOfAny(thread, below);
  }
  // What a thread of the host's pool calls belongs to the op that it works for.
  if (thread.kind == DeviceKind::kHost && at::in_parallel_region()) {
    return Showing::kNot;
  }
  if (thread.asleep->on()) [[unlikely]] {
    const bool skips = Skips(thread, [&thread] {
      return thread.asleep->StillOn() && thread.IsCurrent();
    });
    // It is awake, or another runtime has become active meanwhile.
    if (!skips) return ShowingOfAny(thread, below);
    thread.skip.while_asleep = true;
    if (ours) thread.SkipOp();
    return Showing::kSkip;
  }
  return Showing::kShow;
}

}  // namespace

Showing ShowingOf(ThreadState& thread, DispatchKeySet below) {
  // Most ops of a GPU that is watched: nothing else is asked of them.
  if (thread.depth == 0 && !g_unwatched.on() && thread.IsCurrent() &&
      thread.watched && thread.kind == DeviceKind::kCuda &&
      IsOurs(below, DeviceKind::kCuda) && !thread.asleep->on()) [[likely]] {
    return Showing::kShow;
  }
  return ShowingOfAny(thread, below);
}

WatchedOp::~WatchedOp() {
  if (observed_) [[unlikely]] {
    LockSession(*session_);
    locked_ = true;
    session_->Abandon(call_.view());
  }
  Unlock();
  // Its work is done or enqueued.
  if (noted_) {
    thread_.op.noted = false;
    if (away_) [[unlikely]]
      ThreadState::EndsLate();
    thread_.EndUnderWay(began_);
  }
  if (!deep_) return;
  --thread_.depth;
  thread_.op.observing = nullptr;
  may_have_waited_ |= std::exchange(thread_.op.waited_inside, false);
  if (may_have_waited_ && (OthersAreTold() || !thread_.IsCurrent()))
      [[unlikely]] {
    // It raised: nobody knows what the host has waited for.
    if (std::uncaught_exceptions() > 0) thread_.wait = {};
    HostHasWaited(std::exchange(thread_.wait, {}));
  }
  // Where the session no longer recorded the op when it ended: what was opened
  // for it on this thread is nobody else's to close.
  if (thread_.open_notes != 0) [[unlikely]] {
    AllocatorTrace::Close();
    device::LaunchRecorder::DropOp();
  }
}

WatchedOp::Step WatchedOp::Enter() {
  if (!IsOurs(below_, thread_.kind)) [[unlikely]]
    call_.SetForeign();
  const std::optional<int> device = call_.Finish();
  if (!device.has_value()) {
    return call_.device().index() < 0 ? Step::kPass : Step::kEager;
  }
  session_ = thread_.FindSession(*device);
  if (session_ == nullptr) [[unlikely]] {
    if (!thread_.HasContext(*device)) return Step::kPass;
    // There may be one yet, of a runtime that has become active meanwhile.
    LeaveToOthers();
    return Step::kEager;
  }
  LockSession(*session_);
  locked_ = true;
  Action action = session_->Enter(call_.view());
  if (action == Action::kTell) [[unlikely]] {
    NoteToldOf();
    Unlock();
    const engine::OpView view = call_.view();
    BeforeOp(session_, view, view.by_eager, thread_.wait);
    may_have_waited_ = call_.may_wait();
    LockSession(*session_);
    locked_ = true;
    action = session_->EnterTold(view);
    if (noted_) thread_.Slot().CountForAll();
  }
  switch (action) {
    case Action::kFollow:
      if (session_->followed().bumps_versions) [[unlikely]]
        call_.BumpVersions(session_->followed());
      return Step::kFollow;
    case Action::kObserve:
      observed_ = true;
      wants_call_ = session_->wants_call();
      NoteUnderWay();
      Unlock();
      return Step::kObserve;
    case Action::kCut:
      NoteUnderWay();
      Unlock();
      BeforeOp(session_, call_.view(), call_.may_wait(), thread_.wait);
      may_have_waited_ = call_.may_wait();
      break;
    case Action::kAway:
      LeaveToOthers();
      break;
    case Action::kEager:
    case Action::kTell:
      NoteUnderWay();
      break;
  }
  return Step::kEager;
}

// Another runtime may be active by now, or become so: whoever begins a replay
// there finds the note, or is interrupted (StartEager).
void WatchedOp::LeaveToOthers() {
  Unlock();
  session_ = nullptr;
  away_ = true;
  if (noted_ || !thread_.under_way()) {
    noted_ = thread_.op.noted = true;
    thread_.Slot().BeginAnything();
  }
  (void)thread_.Refresh();
}

void WatchedOp::NoteUnderWay() {
  if (noted_ || thread_.under_way()) return;
  noted_ = thread_.op.noted = true;
  // A library that goes takes its kernels back, and nobody tells.
  if (call_.info().replaced.any() && ++thread_.replaced_calls % 64 == 0) {
    KernelsMayHaveChanged();
  }
  if (session_ == nullptr || WritesUnknown()) {
    thread_.Slot().BeginAnything();
  } else {
    thread_.Slot().Begin(call_.operands());
  }
}

bool WatchedOp::WritesUnknown() const {
  const OpInfo& info = call_.info();
  return info.effects.writes_unknown || info.replaced.any();
}

void WatchedOp::NoteToldOf() {
  if (thread_.under_way() || WritesUnknown()) return;
  thread_.Slot().Begin(call_.operands(), session_);
  noted_ = thread_.op.noted = true;
}

void WatchedOp::StartEager() {
  Unlock();
  if (away_) [[unlikely]] {
    InterruptAnyReplay(kForeign);
    thread_.wait = {};
    may_have_waited_ = true;
  } else if (session_ == nullptr || call_.device().others() != 0) [[unlikely]] {
    NoteUnderWay();
    InterruptSessionsOfCall();
    thread_.wait = {};
    may_have_waited_ = true;
  } else if (WritesUnknown()) [[unlikely]] {
    BeforeUnknownWrites(session_);
  }
  thread_.op.ran_replaced_kernel = false;
  thread_.op.waited_inside = false;
  if (observed_) {
    thread_.op.observing = session_;
    thread_.op.observed_words = call_.words().span().data();
    warnings_.Begin();
  }
  deep_ = true;
  ++thread_.depth;
  if (thread_.open_notes != 0) [[unlikely]]
    ClearStackBelow();
}

void WatchedOp::InterruptSessionsOfCall() {
  uint64_t devices = call_.device().others();
  if (devices == CallDevice::kEveryDevice) {
    InterruptSessions(kForeign);
    return;
  }
  if (session_ == nullptr) devices |= uint64_t{1} << call_.device().index();
  for (; devices != 0; devices &= devices - 1) {
    thread_.Interrupt(std::countr_zero(devices), kForeign);
  }
}

BoxedCall& WatchedOp::NewBoxedCall() {
  boxed_ = std::make_unique<BoxedCall>(call_.info(), below_);
  return *boxed_;
}

void WatchedOp::Leave(const ResultList& results) {
  warnings_.End();
  if (warnings_.any()) [[unlikely]]
    call_.SetWarned();
  // What cannot be described or repeated is left to be abandoned. So is what
  // the program's own code has computed.
  if (thread_.op.ran_replaced_kernel || !results.describable() ||
      !call_.RefreshWritten())
    return;
  if (boxed_ != nullptr) boxed_->Expect(results.views());
  observed_ = false;
  LockSession(*session_);
  locked_ = true;
  session_->Leave(call_.view(), results.views(), std::move(boxed_));
  Unlock();
}

}  // namespace reprise::bindings
