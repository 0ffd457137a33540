// Which memory may be written by ops that have been entered and not returned.

#ifndef REPRISE_SCHEDULER_OPS_UNDER_WAY_H_
#define REPRISE_SCHEDULER_OPS_UNDER_WAY_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/trace/op.h"
#include "scheduler/stream_key.h"

namespace reprise::scheduler {

// The book of ops under way. A replay reads the program's memory when its first
// op comes. Another thread may be inside an op that eager runs at that moment,
// and may not have enqueued its writes yet (on the host: not made them). The
// program waits for that thread before it uses what the op writes, and no op
// tells of that. So a replay does not begin while such an op is under way that
// may write memory that the replay would read; eager runs the pass. Nobody
// waits, because the other thread may be waiting for this one.
//
// Each thread has a slot. A thread notes in it what its op may write before the
// op runs, under the lock of the op's session if one is shown the op. So a
// replay of the same session either finds the note or is interrupted by the op.
// Other sessions are told of the op behind the note (StreamWrites), so a replay
// of theirs either finds the note or is interrupted by what they are told. Of
// an op of a trace they are told before its own session has answered. Until
// then the note does not count for its own session, whose replay the op may be
// part of. Ops that a replay answers are not noted otherwise.
//
// Threads also issue ops on memory that the active runtime does not serve: of
// the host, while it serves GPUs, and the other way round. These are noted for
// the runtime that may become active meanwhile (Slot::NoteElsewhere). Ops of
// the active runtime may run inside of them.
//
// Thread-safe. Slots live as long as the book. Cost: a few stores for an op
// that eager runs; a fence, and a load a thread, where a replay begins.
class OpsUnderWay {
 public:
  // Whom a note does not count for: a session, or all of one kind of device.
  using Exempt = const void*;
  static Exempt SessionsOf(DeviceKind kind) {
    static constexpr char kTags[] = {'h', 'c'};
    return &kTags[kind == DeviceKind::kCuda ? 1 : 0];
  }

  // One thread's note. Its own thread alone writes it. Between Begin and End
  // other notes of that thread are left out: an op that calls others is one op.
  class alignas(64) Slot {
   public:
    Slot() = default;
    Slot(const Slot&) = delete;
    Slot& operator=(const Slot&) = delete;

    // The op writes those of its operands that are marked as written. The note
    // does not count for `but_for`, which has not answered the op yet; null: it
    // counts for all.
    void Begin(std::span<const engine::Operand> operands,
               Exempt but_for = nullptr);
    // It counts for all from now on. Under that session's lock.
    void CountForAll() { but_for_.store(nullptr, std::memory_order_relaxed); }
    // It may write any memory. Also where no lock is held that whoever begins a
    // replay takes later: what this thread loads afterwards is ordered behind
    // the note.
    void BeginAnything() {
      NoteAnything();
      std::atomic_thread_fence(std::memory_order_seq_cst);
    }
    // The same without that order, which Skipping::StillOn brings.
    void NoteAnything() {
      but_for_.store(nullptr, std::memory_order_relaxed);
      Publish(kAnything);
    }
    // The call has returned: its work is done or enqueued.
    void End() {
      if (elsewhere_ == nullptr) [[likely]] {
        Publish(0);
      } else {
        but_for_.store(elsewhere_, std::memory_order_release);
      }
    }
    // The thread is inside of no op that counts for the active runtime's
    // sessions: it may Begin.
    bool empty() const {
      return count_.load(std::memory_order_relaxed) == 0 ||
             (elsewhere_ != nullptr &&
              but_for_.load(std::memory_order_relaxed) == elsewhere_);
    }

    // The op writes no memory that sessions `but_for` serve, and any other. Ops
    // within it that are noted count as writing any memory, until their End. As
    // NoteAnything, without a fence.
    void NoteElsewhere(Exempt but_for) {
      elsewhere_ = but_for;
      but_for_.store(but_for, std::memory_order_relaxed);
      Publish(kAnything);
    }
    void EndElsewhere() {
      elsewhere_ = nullptr;
      Publish(0);
    }
    bool elsewhere() const { return elsewhere_ != nullptr; }

   private:
    friend class OpsUnderWay;

    // More ranges are noted as one that covers them.
    static constexpr uint32_t kMostRanges = 3;
    static constexpr uint32_t kAnything = ~uint32_t{0};

    struct Range {
      std::atomic<uint64_t> begin{0};
      std::atomic<uint64_t> end{0};
    };

    // Release: whoever sees the count sees its ranges, or those of a later op.
    // A later op has been entered meanwhile, and interrupts whom it concerns.
    void Publish(uint32_t count) {
      count_.store(count, std::memory_order_release);
    }

    std::atomic<uint32_t> count_{0};
    std::atomic<Exempt> but_for_{nullptr};
    Exempt elsewhere_ = nullptr;  // its thread's own; null: no such op
    std::array<Range, kMostRanges> ranges_;
    std::atomic<bool> taken_{false};
    Slot* next_ = nullptr;  // set before others see the slot
  };

  OpsUnderWay() = default;
  ~OpsUnderWay();
  OpsUnderWay(const OpsUnderWay&) = delete;
  OpsUnderWay& operator=(const OpsUnderWay&) = delete;

  // A slot for a thread, until it gives the slot back empty. Never null.
  Slot* Acquire();
  static void Release(Slot* slot) {
    slot->EndElsewhere();
    slot->taken_.store(false, std::memory_order_release);
  }

  // No thread is inside of an op whose note counts for sessions of that kind.
  bool EmptyFor(DeviceKind kind) const {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    for (const Slot* slot = Acquired(); slot != nullptr; slot = slot->next_) {
      if (slot->count_.load(std::memory_order_acquire) != 0 &&
          slot->but_for_.load(std::memory_order_acquire) != SessionsOf(kind)) {
        return false;
      }
    }
    return true;
  }

  // A session, and the kind of its device.
  struct Asker {
    Exempt session = nullptr;
    DeviceKind kind = DeviceKind::kHost;
  };
  // Some op under way may write memory of which `uses(overlaps)` says that some
  // of it is used: `overlaps(begin, end)` is true of addresses that such an op
  // may write. Asked by a session under its lock once a replay is about to
  // begin, behind whatever tells others that they have to interrupt it.
  template <typename Uses>
  bool MayWrite(const Asker& asker, Uses uses) const {
    // A thread that finds nothing to interrupt has noted its op before.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    for (const Slot* slot = Acquired(); slot != nullptr; slot = slot->next_) {
      const uint32_t count = slot->count_.load(std::memory_order_acquire);
      if (count == 0) [[likely]]
        continue;
      const Exempt but_for = slot->but_for_.load(std::memory_order_acquire);
      if (but_for == asker.session || but_for == SessionsOf(asker.kind))
        continue;
      if (count == Slot::kAnything) return true;
      const bool used = uses([slot, count](uint64_t begin, uint64_t end) {
        for (uint32_t i = 0; i < count; ++i) {
          const Slot::Range& range = slot->ranges_[i];
          if (range.begin.load(std::memory_order_relaxed) < end &&
              begin < range.end.load(std::memory_order_relaxed)) {
            return true;
          }
        }
        return false;
      });
      if (used) return true;
    }
    return false;
  }

 private:
  const Slot* Acquired() const {
    return slots_.load(std::memory_order_acquire);
  }

  std::atomic<Slot*> slots_{nullptr};  // a list to which slots are only added
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_OPS_UNDER_WAY_H_
