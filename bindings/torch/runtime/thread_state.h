// What a thread keeps between the ops that it issues.

#ifndef REPRISE_BINDINGS_TORCH_RUNTIME_THREAD_STATE_H_
#define REPRISE_BINDINGS_TORCH_RUNTIME_THREAD_STATE_H_

#include <c10/core/Device.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <utility>

#include "bindings/torch/runtime/runtime_epoch.h"
#include "engine/trace/op.h"
#include "scheduler/ops_under_way.h"
#include "scheduler/runtime.h"
#include "scheduler/session.h"
#include "scheduler/skipping.h"

namespace reprise::bindings {

// The ops that threads are inside of, whatever runtime is active. Never
// destroyed.
scheduler::OpsUnderWay& BookOfOps();

// From now on each thread calls it before it shows its next op, once
// g_runtime_epoch has changed. One function a process.
void CallAtEachEpoch(void (*function)());

// The hooked call that a thread is inside of, the outermost one.
struct OutermostOp {
  // A WatchedOp has noted it in the book of ops, maybe as one that writes
  // nothing.
  bool noted = false;
  // A kernel of the program's has run in place of torch's inside of it.
  bool ran_replaced_kernel = false;
  // The host has waited inside of it: for a stream, an event or the device.
  bool waited_inside = false;
  // The session that was to observe it, and its words; null: none.
  scheduler::Session* observing = nullptr;
  const uint64_t* observed_words = nullptr;
};

// The op that a thread skips (Showing::kSkip).
struct OpSkipped {
  bool noted = false;         // in the book of ops
  bool while_asleep = false;  // because the stream is asleep
};

// The sessions that a thread has found last, by their streams.
class KnownSessions {
 public:
  struct Known {
    int device = -1;
    int64_t stream = 0;  // c10::StreamId
    scheduler::Session* session = nullptr;
  };

  // Null: it was not found. The session itself may be null.
  const Known* Find(int device, int64_t stream) const {
    for (const Known& entry : known_) {
      if (entry.device == device && entry.stream == stream) return &entry;
    }
    return nullptr;
  }
  void Add(const Known& found) { known_[next_++ % known_.size()] = found; }
  void Forget() { known_ = {}; }

 private:
  std::array<Known, 2> known_{};
  uint32_t next_ = 0;
};

// Plain data, so that it may be used until the thread's last instruction.
struct ThreadState {
  // Hooked calls that this thread is inside of and that were shown to a
  // session (or kept from it): what they call belongs to them.
  int depth = 0;
  // Pairs of AllocatorTrace's Begin and Take that are open: an op is recorded.
  size_t open_notes = 0;

  // What the thread is inside of, as the book of ops has it. Null before its
  // first op, and after its last one while the thread ends.
  scheduler::OpsUnderWay::Slot* slot = nullptr;
  bool ending = false;  // its slot is given back behind each op
  OutermostOp op;
  OpSkipped skip;
  // It has noted launches past the dispatcher (python_observers.cc).
  bool noted_launches = false;
  // What the host has waited for (scheduler::Interrupts::AfterWait).
  scheduler::HostWait wait;
  // Of operators for which the program has kernels of its own.
  uint32_t replaced_calls = 0;

  // Of g_runtime_epoch `epoch`, and of g_activations `activation`.
  uint64_t epoch = ~uint64_t{0};
  uint64_t activation = ~uint64_t{0};
  bool watched = false;
  bool light_fences = false;  // base::AllowsHeavyFence
  scheduler::DeviceKind kind = scheduler::DeviceKind::kHost;
  const scheduler::Skipping* asleep = nullptr;
  uint64_t skipped = 0;  // ops that were not shown since PassOver
  KnownSessions sessions;

  // The thread has noted what it is inside of. What it notes does not nest:
  // only while this is false is the slot written, and EndUnderWay called for
  // that.
  bool under_way() const { return slot != nullptr && !slot->empty(); }
  // The same, or it is inside of an OpElsewhere.
  bool in_book() const {
    return slot != nullptr && (slot->elsewhere() || !slot->empty());
  }
  scheduler::OpsUnderWay::Slot& Slot() {
    if (slot == nullptr) [[unlikely]]
      TakeSlot();
    return *slot;
  }
  void EndUnderWay() { EndUnderWay(activation); }
  // `began`: `activation` when it was noted, if ops may have run within.
  void EndUnderWay(uint64_t began) {
    if (IsLate(began)) [[unlikely]]
      EndsLate();
    EndNote();
  }
  // The same of an op that was skipped (scheduler::Skipping).
  void EndSkipped() {
    const bool skips = skip.while_asleep ? asleep->on() && !IsLate(activation)
                                         : g_unwatched.on();
    if (!skips) [[unlikely]]
      EndsLate();
    EndNote();
  }
  // The same of an OpElsewhere.
  void EndElsewhere(uint64_t began) {
    if (IsLate(began)) [[unlikely]]
      EndsLate();
    if (slot == nullptr) [[unlikely]]
      return;
    slot->EndElsewhere();
    if (ending) [[unlikely]]
      GiveSlotBack();
  }
  // Another runtime has become active since the op began, or the stream has
  // woken up: no session knows what the op has enqueued. Before its note ends.
  static void EndsLate();

  // Reads the kind of the active runtime again if another became active, behind
  // the function of CallAtEachEpoch.
  // False if none is active.
  bool Refresh();
  // What Refresh has read still holds.
  bool IsCurrent() const {
    return g_runtime_epoch.load(std::memory_order_relaxed) == epoch;
  }
  // An op is not shown.
  void SkipOp();
  // The session of the device's current stream. Null where there is none.
  scheduler::Session* FindSession(int device);
  // Work has been enqueued on that device, maybe by others.
  bool HasContext(int device) const;
  // An op that is not watched uses memory on that stream.
  void Interrupt(int device, const char* what);

 private:
  static bool IsLate(uint64_t began) {
    return g_activations.load(std::memory_order_relaxed) != began;
  }
  void EndNote() {
    // A thread that ends may have given it back inside of the op.
    if (slot == nullptr) [[unlikely]]
      return;
    slot->End();
    if (ending && !slot->elsewhere()) [[unlikely]]
      GiveSlotBack();
  }
  void TakeSlot();
  void GiveSlotBack();
};

inline thread_local constinit ThreadState t_thread_state;

// While it lives, hooks on this thread only pass on: what runs is part of an op
// that is known already, or of Reprise.
class DepthGuard {
 public:
  DepthGuard() { ++t_thread_state.depth; }
  ~DepthGuard() { --t_thread_state.depth; }
  DepthGuard(const DepthGuard&) = delete;
  DepthGuard& operator=(const DepthGuard&) = delete;
};

// What this thread is inside of and no session is shown, in the book of ops
// from Begin to End or the end of its life. Within another span or op of this
// thread it does nothing.
class SpanUnderWay {
 public:
  SpanUnderWay() = default;
  ~SpanUnderWay() { End(); }
  SpanUnderWay(const SpanUnderWay&) = delete;
  SpanUnderWay& operator=(const SpanUnderWay&) = delete;

  // As OpsUnderWay::Slot has them.
  void Begin(std::span<const engine::Operand> operands, const void* but_for) {
    if (Takes()) t_thread_state.Slot().Begin(operands, but_for);
  }
  void BeginAnything() {
    if (Takes()) t_thread_state.Slot().BeginAnything();
  }
  void End() {
    if (std::exchange(noted_, false)) t_thread_state.EndUnderWay(began_);
  }

 private:
  bool Takes() {
    began_ = t_thread_state.activation;
    return noted_ = !t_thread_state.under_way();
  }

  uint64_t began_ = 0;
  bool noted_ = false;
};

// While it lives, other threads find that this one may write any memory. They
// do not begin to read ahead.
class AnythingUnderWay {
 public:
  AnythingUnderWay() { span_.BeginAnything(); }

 private:
  SpanUnderWay span_;
};

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_RUNTIME_THREAD_STATE_H_
