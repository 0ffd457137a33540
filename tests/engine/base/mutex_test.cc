#include "engine/base/mutex.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace reprise::base {
namespace {

TEST(MutexTest, LockExcludesOtherThreads) {
  Mutex mutex;
  int count = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 1000; ++j) {
        MutexLock lock(mutex);
        ++count;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(count, 4000);
}

TEST(MutexTest, TryLockFailsWhileAnotherThreadHoldsIt) {
  Mutex mutex;
  auto try_lock = [&] {
    bool locked = false;
    std::thread([&] {
      if (mutex.TryLock()) {
        locked = true;
        mutex.Unlock();
      }
    }).join();
    return locked;
  };
  {
    MutexLock lock(mutex);
    EXPECT_FALSE(try_lock());
  }
  EXPECT_TRUE(try_lock());
}

TEST(CondVarTest, WaitReturnsAfterNotify) {
  Mutex mutex;
  CondVar changed;
  bool ready = false;
  std::thread thread([&] {
    MutexLock lock(mutex);
    ready = true;
    changed.NotifyOne();
  });
  {
    MutexLock lock(mutex);
    while (!ready) changed.Wait(mutex);
    EXPECT_TRUE(ready);
  }
  thread.join();
}

TEST(CondVarTest, WaitUntilGivesUpAtItsDeadline) {
  Mutex mutex;
  CondVar changed;
  const auto deadline = std::chrono::steady_clock::now();
  {
    MutexLock lock(mutex);
    EXPECT_FALSE(changed.WaitUntil(mutex, deadline));
  }
  // The mutex is held again after the wait, and free after the lock.
  const bool locked = mutex.TryLock();
  EXPECT_TRUE(locked);
  if (locked) mutex.Unlock();
}

}  // namespace
}  // namespace reprise::base
