// Whether who has the allocator's lock may wait for a session's.

#ifndef REPRISE_SCHEDULER_ALLOCATOR_WAIT_H_
#define REPRISE_SCHEDULER_ALLOCATOR_WAIT_H_

#include <atomic>

namespace reprise::scheduler {

// A thread that is inside of a session and follows an op never waits for the
// allocator, so it may be waited for under the allocator's lock. Whoever asks
// has no lock of the session yet. What the session says of itself is said under
// its lock. Cost: a store.
class AllocatorWait {
 public:
  // A replay is under way.
  void BeginFollowing() { following_.store(true, std::memory_order_relaxed); }
  // It is over, or needs no memory any more. Release: what it restores has been
  // launched, and whoever waited for that may take the memory away.
  void EndFollowing() { following_.store(false, std::memory_order_release); }
  // Who is inside may wait for the allocator. Relaxed: it only ends the
  // waiting.
  void SetMayAllocate(bool may) {
    may_allocate_.store(may, std::memory_order_relaxed);
  }

  // Any thread, any lock.
  bool MayWait() const {
    return following_.load(std::memory_order_acquire) &&
           !may_allocate_.load(std::memory_order_relaxed);
  }

 private:
  std::atomic<bool> following_{false};
  std::atomic<bool> may_allocate_{false};
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_ALLOCATOR_WAIT_H_
