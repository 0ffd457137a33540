// Who runs work that the program need not wait for.

#ifndef REPRISE_ENGINE_BASE_TASK_H_
#define REPRISE_ENGINE_BASE_TASK_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "engine/base/mutex.h"

namespace reprise::base {

using Task = std::function<void()>;

// Runs tasks, in the order of their posting where it runs one at a time. A task
// must not throw, and may post further tasks. What it captured is destroyed
// when it has run, or unrun with the runner: work that others wait for reports
// in its destructor that it was dropped. Nothing of the runner's is locked
// while a task runs or is destroyed. Post is thread-safe.
class TaskRunner {
 public:
  virtual ~TaskRunner() = default;
  virtual void Post(Task task) = 0;
};

// Lets go of `object`, whose end may wait for something, in a task of its own.
inline void ReleaseOn(TaskRunner& runner, std::shared_ptr<void> object) {
  runner.Post([object = std::move(object)]() mutable { object.reset(); });
}

// Runs tasks on threads of its own. The destructor lets tasks that have begun
// end and drops the others; it must not run on one of those threads.
class ThreadTaskRunner final : public TaskRunner {
 public:
  explicit ThreadTaskRunner(size_t thread_count = 1);
  ~ThreadTaskRunner() override;

  void Post(Task task) override REPRISE_EXCLUDES(mutex_);

 private:
  void Work();

  Mutex mutex_;
  CondVar changed_;
  std::deque<Task> tasks_ REPRISE_GUARDED_BY(mutex_);
  bool stopping_ REPRISE_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

// Lets another runner's tasks begin late, for tests of whoever waits for them:
// some at once, some after up to 10 ms, as a seed tells. The thread that runs a
// task sleeps before it. Thread-safe.
class DelayingTaskRunner final : public TaskRunner {
 public:
  using Sleep = std::function<void(std::chrono::microseconds)>;

  static constexpr std::chrono::microseconds kLongest{10'000};

  // `inner` must outlive it; `sleep` is called from its threads.
  DelayingTaskRunner(
      TaskRunner& inner, uint64_t seed,
      Sleep sleep = [](std::chrono::microseconds time) {
        std::this_thread::sleep_for(time);
      });

  void Post(Task task) override REPRISE_EXCLUDES(mutex_);

 private:
  std::chrono::microseconds Draw() REPRISE_EXCLUDES(mutex_);

  TaskRunner& inner_;
  const Sleep sleep_;
  Mutex mutex_;
  std::mt19937_64 random_ REPRISE_GUARDED_BY(mutex_);
};

}  // namespace reprise::base

#endif  // REPRISE_ENGINE_BASE_TASK_H_
