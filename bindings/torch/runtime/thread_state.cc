#include "bindings/torch/runtime/thread_state.h"

#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>

#include <atomic>
#include <utility>

#include "bindings/torch/runtime/runtime_epoch.h"
#include "bindings/torch/runtime/session_source.h"
#include "engine/base/asymmetric_fence.h"

namespace reprise::bindings {
namespace {

// Gives the thread's slot back when the thread ends.
class SlotOwner {
 public:
  ~SlotOwner() {
    ThreadState& thread = t_thread_state;
    thread.ending = true;
    if (thread.slot != nullptr && !thread.in_book()) {
      scheduler::OpsUnderWay::Release(std::exchange(thread.slot, nullptr));
    }
  }
};

constinit std::atomic<void (*)()> g_at_each_epoch{nullptr};

}  // namespace

void CallAtEachEpoch(void (*function)()) {
  g_at_each_epoch.store(function, std::memory_order_release);
}

scheduler::OpsUnderWay& BookOfOps() {
  static auto* const book = new scheduler::OpsUnderWay;
  return *book;
}

void ThreadState::TakeSlot() {
  slot = BookOfOps().Acquire();
  if (ending) return;  // destructors of the thread run ops
  thread_local const SlotOwner owner;
}

void ThreadState::EndsLate() {
  if (!g_unwatched.on()) NoteUnwatchedWork();
}

void ThreadState::GiveSlotBack() {
  scheduler::OpsUnderWay::Release(std::exchange(slot, nullptr));
}

bool ThreadState::Refresh() {
  // Acquire: whoever changed the epoch has made the new runtime active before.
  const uint64_t now = g_runtime_epoch.load(std::memory_order_acquire);
  if (now == epoch) [[likely]]
    return watched;
  epoch = now;
  activation = g_activations.load(std::memory_order_acquire);
  if (void (*const function)() =
          g_at_each_epoch.load(std::memory_order_acquire)) {
    function();
  }
  sessions.Forget();
  light_fences = base::AllowsHeavyFence();
  const auto active = WatchedNow();
  watched = active.has_value();
  if (watched) {
    kind = active->kind;
    asleep = active->asleep;
  }
  return watched;
}

void ThreadState::SkipOp() {
  if (++skipped < scheduler::Runtime::kOpsPassedOver) return;
  skipped = 0;
  PassOver(scheduler::Runtime::kOpsPassedOver);
}

void ThreadState::Interrupt(int device, const char* what) {
  if (kind == scheduler::DeviceKind::kHost) {
    InterruptSession(c10::Device(c10::kCPU), nullptr, what);
    return;
  }
  if (!HasContext(device)) return InterruptSessions(what);
  const auto index = static_cast<c10::DeviceIndex>(device);
  InterruptSession(c10::Device(c10::kCUDA, index),
                   c10::cuda::getCurrentCUDAStream(index).stream(), what);
}

bool ThreadState::HasContext(int device) const {
  return kind == scheduler::DeviceKind::kHost ||
         c10::cuda::hasPrimaryContext(static_cast<c10::DeviceIndex>(device));
}

scheduler::Session* ThreadState::FindSession(int device) {
  int64_t stream = 0;
  if (kind == scheduler::DeviceKind::kCuda) {
    stream =
        c10::cuda::getCurrentCUDAStream(static_cast<c10::DeviceIndex>(device))
            .id();
  }
  if (const auto* const known = sessions.Find(device, stream)) {
    return known->session;
  }
  scheduler::Session* session = nullptr;
  if (kind == scheduler::DeviceKind::kCuda) {
    const auto index = static_cast<c10::DeviceIndex>(device);
    // The first op on a device may be the one that makes its context.
    if (!HasContext(device)) return nullptr;
    session = SessionFor(c10::Device(c10::kCUDA, index),
                         c10::cuda::getCurrentCUDAStream(index).stream());
  } else {
    session = SessionFor(c10::Device(c10::kCPU), nullptr);
  }
  sessions.Add({device, stream, session});
  return session;
}

}  // namespace reprise::bindings
