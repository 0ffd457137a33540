#include "engine/base/task.h"

#include <utility>

namespace reprise::base {

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

DelayingTaskRunner::DelayingTaskRunner(TaskRunner& inner, uint64_t seed,
                                       Sleep sleep)
    : inner_(inner), sleep_(std::move(sleep)), random_(seed) {}

void DelayingTaskRunner::Post(Task task) {
  const std::chrono::microseconds delay = Draw();
  inner_.Post([sleep = sleep_, delay, task = std::move(task)] {
    if (delay.count() > 0) sleep(delay);
    task();
  });
}

// One in four at once; of the others as many in each power of two, so that some
// are short beside an op and some long beside a pass.
std::chrono::microseconds DelayingTaskRunner::Draw() {
  const MutexLock lock(mutex_);
  if (random_() % 4 == 0) return {};
  constexpr int kPowers = 11;
  const auto scale = kLongest.count() >> random_() % kPowers;
  return std::chrono::microseconds(
      1 + static_cast<int64_t>(random_() % static_cast<uint64_t>(scale)));
}

}  // namespace reprise::base
