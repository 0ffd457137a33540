#include "scheduler/build_queue.h"

#include <deque>
#include <utility>

#include "engine/base/mutex.h"

#ifndef REPRISE_WITHOUT_TBB
#include <tbb/task_arena.h>
#endif

namespace reprise::scheduler {
namespace {

#ifdef REPRISE_WITHOUT_TBB
// TBB is not built for the thread sanitizer; a thread of ours takes its place.
class Worker {
 public:
  void Enqueue(base::Task task) { thread_.Post(std::move(task)); }

 private:
  base::ThreadTaskRunner thread_;
};
#else
class Worker {
 public:
  void Enqueue(base::Task task) { arena_.enqueue(std::move(task)); }

 private:
  // One worker, no slot for the threads that post.
  tbb::task_arena arena_{1, 0};
};
#endif

}  // namespace

struct BuildQueue::Impl {
  base::Mutex mutex;
  base::CondVar idle;
  std::deque<base::Task> tasks REPRISE_GUARDED_BY(mutex);
  size_t open REPRISE_GUARDED_BY(mutex) = 0;  // queued or running
  size_t posted REPRISE_GUARDED_BY(mutex) = 0;
  Worker worker;  // last: it ends before what it uses

  void RunOne() {
    base::Task task;
    {
      const base::MutexLock lock(mutex);
      task = std::move(tasks.front());
      tasks.pop_front();
    }
    task();
    task = nullptr;  // what it captured ends before anyone is told
    const base::MutexLock lock(mutex);
    if (--open == 0) idle.NotifyAll();
  }
};

BuildQueue::BuildQueue() : impl_(std::make_unique<Impl>()) {}

BuildQueue::~BuildQueue() { WaitIdle(std::nullopt); }

void BuildQueue::Post(base::Task task) {
  {
    const base::MutexLock lock(impl_->mutex);
    impl_->tasks.push_back(std::move(task));
    ++impl_->open;
    ++impl_->posted;
  }
  // The worker is told only that there is one.
  impl_->worker.Enqueue([impl = impl_.get()] { impl->RunOne(); });
}

bool BuildQueue::WaitIdle(std::optional<std::chrono::milliseconds> timeout) {
  const base::MutexLock lock(impl_->mutex);
  if (!timeout.has_value()) {
    while (impl_->open > 0) impl_->idle.Wait(impl_->mutex);
    return true;
  }
  const auto deadline = std::chrono::steady_clock::now() + *timeout;
  while (impl_->open > 0) {
    if (!impl_->idle.WaitUntil(impl_->mutex, deadline)) {
      return impl_->open == 0;
    }
  }
  return true;
}

BuildQueue::Counts BuildQueue::counts() const {
  const base::MutexLock lock(impl_->mutex);
  return {.ended = impl_->posted - impl_->open, .posted = impl_->posted};
}

}  // namespace reprise::scheduler
