// Whether ops need not be shown to any session.

#ifndef REPRISE_SCHEDULER_SKIPPING_H_
#define REPRISE_SCHEDULER_SKIPPING_H_

#include <atomic>
#include <cstdint>

#include "engine/base/asymmetric_fence.h"

namespace reprise::scheduler {

// While it is on, threads skip ops: they let eager run them, and show them to
// nobody. Before it is off no session begins a replay, and a replay must find
// the ops that were skipped before and are still under way (OpsUnderWay). So a
// thread that skips an op notes it first, and then asks once more:
//
//   if (skipping.on()) {
//     slot.NoteAnything();
//     if (skipping.StillOn()) run the op and end the note
//     else                    end the note and show the op
//   }
//
// The thread's note and whoever switches this off are ordered by a pair of
// fences. The thread has the light one, as it skips each op of a program that
// nobody watches. Where the kernel does not allow the heavy one, each thread
// has a full fence.
//
// Any thread asks. Begin and End: one thread at a time.
class Skipping {
 public:
  constexpr explicit Skipping(bool on = false)
      : state_(on ? State::kFenced : State::kOff) {}
  Skipping(const Skipping&) = delete;
  Skipping& operator=(const Skipping&) = delete;

  // Relaxed: a thread may notice late that it is on, and show an op too many.
  bool on() const { return Now() != State::kOff; }

  // Asked behind the note. If it is false, the op must be shown; whatever this
  // thread loads from here on is behind a full fence.
  bool StillOn() const {
    base::LightFence();
    if (Now() == State::kLight) [[likely]]
      return true;
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return on();
  }

  void Begin() {
    Set(base::AllowsHeavyFence() ? State::kLight : State::kFenced);
  }

  // It is off when this returns, unless the kernel has begun to refuse the
  // heavy fence (a program that confines itself, by seccomp). Then it stays on,
  // and this is false.
  [[nodiscard]] bool End() {
    if (!on()) return true;
    if (Now() == State::kLight) {
      // Whoever skips an op without a fence has noted it before this one.
      // Whoever begins to skip from here on has a fence of its own.
      Set(State::kFenced);
      if (!base::HeavyFence()) {
        Set(State::kLight);
        return false;
      }
    }
    Set(State::kOff);
    return true;
  }

 private:
  enum class State : uint8_t { kOff, kFenced, kLight };

  State Now() const { return state_.load(std::memory_order_relaxed); }
  void Set(State state) { state_.store(state, std::memory_order_relaxed); }

  std::atomic<State> state_;
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_SKIPPING_H_
