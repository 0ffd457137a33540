// Task runners that a test steps through.

#ifndef REPRISE_TESTS_ENGINE_BASE_MANUAL_TASK_RUNNER_H_
#define REPRISE_TESTS_ENGINE_BASE_MANUAL_TASK_RUNNER_H_

#include <cstddef>
#include <deque>
#include <utility>

#include "engine/base/mutex.h"
#include "engine/base/task.h"

namespace reprise::base {

// Runs each task within Post, on the thread that posts it.
class InPlaceTaskRunner final : public TaskRunner {
 public:
  void Post(Task task) override { task(); }
};

// Keeps tasks until it is told to run them, so that a test can step through
// them. Thread-safe.
class ManualTaskRunner final : public TaskRunner {
 public:
  void Post(Task task) override REPRISE_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    tasks_.push_back(std::move(task));
  }

  // Runs the oldest task on this thread; false if there is none.
  bool RunOne() REPRISE_EXCLUDES(mutex_) {
    Task task;
    {
      const MutexLock lock(mutex_);
      if (tasks_.empty()) return false;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
    return true;
  }
  // Runs until none is left, those included that the tasks post; says how many.
  size_t RunAll() {
    size_t count = 0;
    while (RunOne()) ++count;
    return count;
  }

  size_t pending() const REPRISE_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return tasks_.size();
  }

 private:
  mutable Mutex mutex_;
  std::deque<Task> tasks_ REPRISE_GUARDED_BY(mutex_);
};

}  // namespace reprise::base

#endif  // REPRISE_TESTS_ENGINE_BASE_MANUAL_TASK_RUNNER_H_
