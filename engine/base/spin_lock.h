// A lock for sections of about a microsecond.

#ifndef REPRISE_ENGINE_BASE_SPIN_LOCK_H_
#define REPRISE_ENGINE_BASE_SPIN_LOCK_H_

#include <atomic>

#include "engine/base/mutex.h"

namespace reprise::base {

// Who finds it held looks again a bounded number of times, and sleeps between
// further looks, up to a millisecond: a holder that is away for long costs
// nobody a processor. Taking and giving back an uncontended lock is one atomic
// exchange and one store. Not recursive, not fair. Thread-safe.
class REPRISE_CAPABILITY("mutex") SpinLock {
 public:
  SpinLock() = default;
  SpinLock(const SpinLock&) = delete;
  SpinLock& operator=(const SpinLock&) = delete;

  void Lock() REPRISE_ACQUIRE() {
    if (busy_.test_and_set(std::memory_order_acquire)) [[unlikely]]
      LockSlowly();
  }
  // Never waits. False if some thread, this one perhaps, holds it.
  bool TryLock() REPRISE_TRY_ACQUIRE(true) {
    return !busy_.test_and_set(std::memory_order_acquire);
  }
  void Unlock() REPRISE_RELEASE() { busy_.clear(std::memory_order_release); }

  // Some thread holds it. Relaxed: it may be another one the next moment.
  bool held() const { return busy_.test(std::memory_order_relaxed); }

 private:
  // Takes the lock by TryLock, in a loop that the analysis does not follow.
  void LockSlowly() REPRISE_NO_THREAD_SAFETY_ANALYSIS;

  std::atomic_flag busy_;
};

}  // namespace reprise::base

#endif  // REPRISE_ENGINE_BASE_SPIN_LOCK_H_
