#include "scheduler/build_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "engine/base/mutex.h"

namespace reprise::scheduler {
namespace {

using ::testing::ElementsAre;

// A task that stays in the queue's worker until the test lets it go.
class Gate {
 public:
  void Pass() {
    base::MutexLock lock(mutex_);
    reached_ = true;
    changed_.NotifyAll();
    while (!open_) changed_.Wait(mutex_);
  }
  void WaitUntilReached() {
    base::MutexLock lock(mutex_);
    while (!reached_) changed_.Wait(mutex_);
  }
  void Open() {
    base::MutexLock lock(mutex_);
    open_ = true;
    changed_.NotifyAll();
  }

 private:
  base::Mutex mutex_;
  base::CondVar changed_;
  bool reached_ REPRISE_GUARDED_BY(mutex_) = false;
  bool open_ REPRISE_GUARDED_BY(mutex_) = false;
};

// No lock guards `ran`: tasks that overlapped would race, and the thread
// sanitizer would say so.
TEST(BuildQueueTest, RunsOneTaskAtATimeOffThePostingThread) {
  BuildQueue queue;
  std::vector<int> ran;
  std::thread::id where;
  for (int i = 0; i < 100; ++i) {
    queue.Post([&, i] {
      ran.push_back(i);
      where = std::this_thread::get_id();
    });
  }
  EXPECT_TRUE(queue.WaitIdle(std::nullopt));
  EXPECT_EQ(ran.size(), 100u);
  EXPECT_NE(where, std::this_thread::get_id());
}

TEST(BuildQueueTest, WaitIdleGivesUpWhileATaskRuns) {
  BuildQueue queue;
  Gate gate;
  queue.Post([&] { gate.Pass(); });
  gate.WaitUntilReached();
  EXPECT_FALSE(queue.WaitIdle(std::chrono::milliseconds(0)));
  gate.Open();
  EXPECT_TRUE(queue.WaitIdle(std::nullopt));
  EXPECT_TRUE(queue.WaitIdle(std::chrono::milliseconds(0)));
}

// A build posts the next one from within: an idle queue has run both.
TEST(BuildQueueTest, WaitsForWhatTasksPost) {
  BuildQueue queue;
  std::vector<int> ran;
  queue.Post([&] {
    queue.Post([&] { ran.push_back(2); });
    ran.push_back(1);
  });
  EXPECT_TRUE(queue.WaitIdle(std::nullopt));
  EXPECT_THAT(ran, ElementsAre(1, 2));
}

TEST(BuildQueueTest, ATaskHasLetGoOfWhatItHeldWhenTheQueueIsIdle) {
  BuildQueue queue;
  auto held = std::make_shared<int>(0);
  const std::weak_ptr<int> alive = held;
  queue.Post([held = std::move(held)] { ++*held; });
  EXPECT_TRUE(queue.WaitIdle(std::nullopt));
  EXPECT_TRUE(alive.expired());
}

TEST(BuildQueueTest, CountsWhatWasPostedAndWhatHasEnded) {
  Gate gate;
  BuildQueue queue;
  queue.Post([] {});
  EXPECT_TRUE(queue.WaitIdle(std::nullopt));
  queue.Post([&] { gate.Pass(); });
  queue.Post([] {});
  gate.WaitUntilReached();
  EXPECT_EQ(queue.counts().ended, 1u);
  EXPECT_EQ(queue.counts().posted, 3u);
  gate.Open();
  EXPECT_TRUE(queue.WaitIdle(std::nullopt));
  EXPECT_EQ(queue.counts().ended, 3u);
  EXPECT_EQ(queue.counts().posted, 3u);
}

TEST(BuildQueueTest, TheDestructorWaitsForWhatWasPosted) {
  Gate gate;
  int ran = 0;
  auto queue = std::make_unique<BuildQueue>();
  queue->Post([&] { gate.Pass(); });
  queue->Post([&] { ++ran; });
  gate.WaitUntilReached();
  EXPECT_EQ(ran, 0);
  gate.Open();
  queue.reset();
  EXPECT_EQ(ran, 1);
}

}  // namespace
}  // namespace reprise::scheduler
