// A pair of fences of which the frequent one costs nothing.

#ifndef REPRISE_ENGINE_BASE_ASYMMETRIC_FENCE_H_
#define REPRISE_ENGINE_BASE_ASYMMETRIC_FENCE_H_

#include <atomic>

namespace reprise::base {

// Where two threads each store a word and then load the other's, at least one
// of them sees the other's store if each has a sequentially consistent fence
// between its store and its load. That still holds if one thread has a
// LightFence there and the other one a HeavyFence that succeeds.
// (membarrier(2); the C++ proposal P1202, "Asymmetric fences".)

// The compiler moves no access to memory across it. No instruction.
inline void LightFence() {
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

// Each thread of this process that runs meanwhile executes a full fence between
// the call and its return; this one, too. False if the kernel refuses, and then
// there was none. Some microseconds, more on many processors. Thread-safe.
[[nodiscard]] bool HeavyFence();

// The kernel allows HeavyFence to this thread. The first call asks it, which
// may take some milliseconds. Thread-safe.
bool AllowsHeavyFence();

}  // namespace reprise::base

#endif  // REPRISE_ENGINE_BASE_ASYMMETRIC_FENCE_H_
