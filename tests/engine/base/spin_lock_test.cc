#include "engine/base/spin_lock.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace reprise::base {
namespace {

TEST(SpinLockTest, ExcludesOtherThreads) {
  SpinLock lock;
  int count = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 10000; ++j) {
        lock.Lock();
        ++count;
        lock.Unlock();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(count, 40000);
}

TEST(SpinLockTest, TryLockFailsWhileItIsHeld) {
  SpinLock lock;
  EXPECT_FALSE(lock.held());
  if (!lock.TryLock()) FAIL() << "nobody holds it";
  EXPECT_TRUE(lock.held());
  EXPECT_FALSE(lock.TryLock());
  lock.Unlock();
  EXPECT_FALSE(lock.held());
  if (!lock.TryLock()) FAIL() << "nobody holds it";
  lock.Unlock();
}

// A holder that stays for long has it taken over all the same: behind the
// looks and the yields come sleeps, and the lock is seen to be free after one.
TEST(SpinLockTest, IsTakenAfterALongWait) {
  SpinLock lock;
  std::atomic<bool> waiting{false};
  std::atomic<bool> taken{false};
  lock.Lock();
  std::thread thread([&] {
    waiting = true;
    lock.Lock();
    taken = true;
    lock.Unlock();
  });
  while (!waiting) std::this_thread::yield();
  for (int i = 0; i < 20000; ++i) std::this_thread::yield();
  EXPECT_FALSE(taken);
  lock.Unlock();
  thread.join();
  EXPECT_TRUE(taken);
}

}  // namespace
}  // namespace reprise::base
