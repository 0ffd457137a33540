#include "engine/base/task.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "tests/engine/base/manual_task_runner.h"

namespace reprise::base {
namespace {

using ::testing::ElementsAre;

TEST(InPlaceTaskRunnerTest, RunsWithinPost) {
  InPlaceTaskRunner runner;
  std::thread::id where;
  runner.Post([&] { where = std::this_thread::get_id(); });
  EXPECT_EQ(where, std::this_thread::get_id());
}

TEST(ManualTaskRunnerTest, RunsOneAtATimeInOrder) {
  ManualTaskRunner runner;
  std::vector<int> ran;
  runner.Post([&] { ran.push_back(1); });
  runner.Post([&] { ran.push_back(2); });
  EXPECT_TRUE(ran.empty());
  EXPECT_EQ(runner.pending(), 2u);
  EXPECT_TRUE(runner.RunOne());
  EXPECT_THAT(ran, ElementsAre(1));
  EXPECT_TRUE(runner.RunOne());
  EXPECT_FALSE(runner.RunOne());
  EXPECT_THAT(ran, ElementsAre(1, 2));
}

TEST(ManualTaskRunnerTest, RunAllRunsWhatTasksPost) {
  ManualTaskRunner runner;
  std::vector<int> ran;
  runner.Post([&] {
    ran.push_back(1);
    runner.Post([&] { ran.push_back(2); });
  });
  EXPECT_EQ(runner.RunAll(), 2u);
  EXPECT_THAT(ran, ElementsAre(1, 2));
}

TEST(ThreadTaskRunnerTest, RunsOnAnotherThreadInOrder) {
  std::vector<int> ran;
  std::thread::id where;
  Mutex mutex;
  CondVar changed;
  bool done = false;
  ThreadTaskRunner runner;
  runner.Post([&] { ran.push_back(1); });
  runner.Post([&] { ran.push_back(2); });
  runner.Post([&] {
    MutexLock lock(mutex);
    where = std::this_thread::get_id();
    done = true;
    changed.NotifyOne();
  });
  {
    MutexLock lock(mutex);
    while (!done) changed.Wait(mutex);
  }
  EXPECT_THAT(ran, ElementsAre(1, 2));
  EXPECT_NE(where, std::this_thread::get_id());
}

// The first task holds the only thread while the runner is destroyed: it ends,
// and the second is destroyed without having run.
TEST(ThreadTaskRunnerTest, DestructorDropsWhatHasNotBegun) {
  Mutex mutex;
  CondVar changed;
  bool begun = false;
  bool ended = false;
  bool ran = false;
  auto runner = std::make_unique<ThreadTaskRunner>();
  auto token = std::make_shared<int>();
  std::weak_ptr<int> dropped = token;
  runner->Post([&] {
    MutexLock lock(mutex);
    begun = true;
    changed.NotifyAll();
    while (!dropped.expired()) changed.Wait(mutex);
    ended = true;
  });
  // Destroyed unrun, it lets the first task end.
  auto last = std::shared_ptr<void>(nullptr, [&](void*) {
    MutexLock lock(mutex);
    token.reset();
    changed.NotifyAll();
  });
  runner->Post([&ran, last] { ran = true; });
  last.reset();
  {
    MutexLock lock(mutex);
    while (!begun) changed.Wait(mutex);
  }
  runner.reset();
  EXPECT_TRUE(ended);
  EXPECT_FALSE(ran);
}

TEST(ThreadTaskRunnerTest, ManyThreadsRunEveryTask) {
  constexpr int kTasks = 1000;
  Mutex mutex;
  CondVar changed;
  int count = 0;
  ThreadTaskRunner runner(4);
  for (int i = 0; i < kTasks; ++i) {
    runner.Post([&] {
      MutexLock lock(mutex);
      if (++count == kTasks) changed.NotifyOne();
    });
  }
  MutexLock lock(mutex);
  while (count < kTasks) changed.Wait(mutex);
  EXPECT_EQ(count, kTasks);
}

// What the runner of a test sleeps, for so many tasks.
std::vector<int64_t> Delays(uint64_t seed, int tasks) {
  std::vector<int64_t> delays;
  InPlaceTaskRunner in_place;
  DelayingTaskRunner runner(in_place, seed,
                            [&](std::chrono::microseconds delay) {
                              delays.push_back(delay.count());
                            });
  int ran = 0;
  for (int i = 0; i < tasks; ++i) {
    runner.Post([&ran, &delays, slept = delays.size()] {
      // Before the task, and at most once.
      EXPECT_LE(delays.size(), slept + 1);
      ++ran;
    });
  }
  EXPECT_EQ(ran, tasks);
  return delays;
}

TEST(DelayingTaskRunnerTest, DelaysFollowFromTheSeed) {
  const std::vector<int64_t> delays = Delays(1, 1000);
  EXPECT_EQ(delays, Delays(1, 1000));
  EXPECT_NE(delays, Delays(2, 1000));
}

TEST(DelayingTaskRunnerTest, SomeTasksAreAtOnceSomeSoonAndSomeLate) {
  const std::vector<int64_t> delays = Delays(1, 1000);
  EXPECT_GT(delays.size(), 600u);
  EXPECT_LT(delays.size(), 900u);
  EXPECT_GT(*std::min_element(delays.begin(), delays.end()), 0);
  EXPECT_LT(*std::min_element(delays.begin(), delays.end()), 20);
  EXPECT_LE(*std::max_element(delays.begin(), delays.end()),
            DelayingTaskRunner::kLongest.count());
  EXPECT_GT(*std::max_element(delays.begin(), delays.end()), 5000);
}

// As the runner below does: in order, and what a task captured ends with it.
TEST(DelayingTaskRunnerTest, TasksStayInOrderAndEndWhenTheyHaveRun) {
  ManualTaskRunner tasks;
  DelayingTaskRunner runner(tasks, 3, [](std::chrono::microseconds) {});
  std::vector<int> order;
  auto token = std::make_shared<int>();
  for (int i = 0; i < 5; ++i) {
    runner.Post([&order, token, i] { order.push_back(i); });
  }
  EXPECT_EQ(tasks.RunAll(), 5u);
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4}));
  EXPECT_EQ(token.use_count(), 1);
}

}  // namespace
}  // namespace reprise::base
