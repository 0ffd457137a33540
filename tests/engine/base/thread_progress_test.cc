// A thread has gone on where it has run, waited or ended, and nowhere else.

#include "engine/base/thread_progress.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "tests/engine/base/stuck_thread.h"

namespace reprise::base {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr nanoseconds kSome = std::chrono::microseconds(50);
constexpr nanoseconds kForEver = std::chrono::hours(1);

// Runs until it is told to stop.
class Running {
 public:
  Running()
      : thread_([this] {
          began_ = true;
          while (!stop_) {
          }
        }) {
    while (!began_) std::this_thread::yield();
  }
  ~Running() {
    stop_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> began_{false};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

// Waits until it is told to go on.
class Waiting {
 public:
  Waiting()
      : thread_([this] {
          std::unique_lock lock(mutex_);
          waits_ = true;
          change_.wait(lock, [this] { return over_; });
        }) {
    while (!waits()) std::this_thread::yield();
  }
  ~Waiting() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    change_.notify_one();
    thread_.join();
  }

 private:
  bool waits() {
    const std::lock_guard lock(mutex_);
    return waits_;
  }
  std::mutex mutex_;
  std::condition_variable change_;
  bool waits_ = false;  // guarded by mutex_
  bool over_ = false;   // guarded by mutex_
  std::thread thread_;
};

bool Comes(ThreadProgress& progress, nanoseconds time) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (std::chrono::steady_clock::now() < end) {
    if (progress.AllRanFor(time)) return true;
    std::this_thread::sleep_for(milliseconds(1));
  }
  return false;
}

TEST(ThreadProgressTest, ThreadsThatRunComeToIt) {
  const Running one;
  const Running other;
  ThreadProgress progress;
  EXPECT_TRUE(Comes(progress, kSome));
  EXPECT_TRUE(progress.AllRanFor(kForEver)) << "they are not asked again";
}

TEST(ThreadProgressTest, NotBefore) {
  const Running one;
  const Waiting other;
  ThreadProgress progress;
  for (int i = 0; i < 20; ++i) {
    EXPECT_FALSE(progress.AllRanFor(kForEver));
    std::this_thread::sleep_for(milliseconds(1));
  }
}

TEST(ThreadProgressTest, ThreadsThatWaitNeedNotRun) {
  const Waiting one;
  const Waiting other;
  ThreadProgress progress;
  EXPECT_TRUE(Comes(progress, kForEver));
}

TEST(ThreadProgressTest, ThreadsThatHaveEndedNeedNotRun) {
  std::optional<ThreadProgress> progress;
  {
    const Running one;
    progress.emplace();
    EXPECT_FALSE(progress->AllRanFor(kForEver));
  }
  EXPECT_TRUE(Comes(*progress, kForEver));
}

TEST(ThreadProgressTest, ThreadsThatBeganLaterAreNotAsked) {
  ThreadProgress progress;
  EXPECT_TRUE(Comes(progress, kForEver));
  const Running later;
  EXPECT_TRUE(progress.AllRanFor(kForEver));
}

// A thread that neither runs nor waits for anything of its own may be anywhere.
TEST(ThreadProgressTest, ThreadsThatAreKeptFromRunningAreWaitedFor) {
  tests::StuckThread stuck;
  if (!stuck.is_stuck()) GTEST_SKIP() << "no thread can be held here";
  ThreadProgress progress;
  for (int i = 0; i < 20; ++i) {
    EXPECT_FALSE(progress.AllRanFor(kSome));
    std::this_thread::sleep_for(milliseconds(1));
  }
  stuck.LetGo();
  EXPECT_TRUE(Comes(progress, kSome));
}

TEST(ThreadProgressTest, StatesAreFoundBehindAnyName) {
  EXPECT_EQ(StateOfThread("12 (cat) R 16283"), 'R');
  EXPECT_EQ(StateOfThread("12 (a (b) D) S 1"), 'S');
  EXPECT_EQ(StateOfThread("12 (cat)"), std::nullopt);
  EXPECT_EQ(StateOfThread("12 (cat) "), std::nullopt);
  EXPECT_EQ(StateOfThread(""), std::nullopt);
}

}  // namespace
}  // namespace reprise::base
