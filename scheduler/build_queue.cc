#include "scheduler/build_queue.h"

#include <tbb/task_arena.h>

#include <deque>
#include <utility>

#include "engine/base/mutex.h"

#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

namespace reprise::scheduler {
namespace {

// TBB is not built for the thread sanitizer, which has to be told that
// enqueueing happens before running.
void BeforeEnqueue([[maybe_unused]] void* queue) {
#ifdef __SANITIZE_THREAD__
  __tsan_release(queue);
#endif
}
void AfterDequeue([[maybe_unused]] void* queue) {
#ifdef __SANITIZE_THREAD__
  __tsan_acquire(queue);
#endif
}

}  // namespace

struct BuildQueue::Impl {
  // One worker, no slot for the threads that post.
  tbb::task_arena arena{1, 0};
  base::Mutex mutex;
  base::CondVar idle;
  std::deque<base::Task> tasks REPRISE_GUARDED_BY(mutex);
  size_t open REPRISE_GUARDED_BY(mutex) = 0;  // queued or running

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
  }
  // Tasks are handed over under the mutex, and TBB is told only that there is
  // one.
  BeforeEnqueue(impl_.get());
  impl_->arena.enqueue([impl = impl_.get()]()
                           __attribute__((no_sanitize("thread"))) {
                             AfterDequeue(impl);
                             impl->RunOne();
                           });
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

}  // namespace reprise::scheduler
