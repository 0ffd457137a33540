#include "engine/base/task.h"

#include <utility>

namespace reprise::base {

void ManualTaskRunner::Post(Task task) {
  MutexLock lock(mutex_);
  tasks_.push_back(std::move(task));
}

bool ManualTaskRunner::RunOne() {
  Task task;
  {
    MutexLock lock(mutex_);
    if (tasks_.empty()) return false;
    task = std::move(tasks_.front());
    tasks_.pop_front();
  }
  task();
  return true;
}

size_t ManualTaskRunner::RunAll() {
  size_t count = 0;
  while (RunOne()) ++count;
  return count;
}

size_t ManualTaskRunner::pending() const {
  MutexLock lock(mutex_);
  return tasks_.size();
}

ThreadTaskRunner::ThreadTaskRunner(size_t thread_count) {
  threads_.reserve(thread_count);
  for (size_t i = 0; i < thread_count; ++i) {
    threads_.emplace_back([this] { Work(); });
  }
}

ThreadTaskRunner::~ThreadTaskRunner() {
  std::deque<Task> dropped;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    dropped.swap(tasks_);
  }
  changed_.NotifyAll();
  dropped.clear();
  for (std::thread& thread : threads_) thread.join();
  // What the running tasks posted meanwhile is dropped with `tasks_`.
}

void ThreadTaskRunner::Post(Task task) {
  {
    MutexLock lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  changed_.NotifyOne();
}

void ThreadTaskRunner::Work() {
  while (true) {
    Task task;
    {
      MutexLock lock(mutex_);
      while (!stopping_ && tasks_.empty()) changed_.Wait(mutex_);
      if (stopping_) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }
}

}  // namespace reprise::base
