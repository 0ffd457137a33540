#include "scheduler/build_queue.h"

#include <tbb/task_arena.h>

#include <utility>

#include "engine/base/mutex.h"

namespace reprise::scheduler {

struct BuildQueue::Impl {
  // One worker, no slot for the threads that post.
  tbb::task_arena arena{1, 0};
  base::Mutex mutex;
  base::CondVar idle;
  size_t open REPRISE_GUARDED_BY(mutex) = 0;

  void Done() {
    const base::MutexLock lock(mutex);
    if (--open == 0) idle.NotifyAll();
  }
};

BuildQueue::BuildQueue() : impl_(std::make_unique<Impl>()) {}

BuildQueue::~BuildQueue() { WaitIdle(std::nullopt); }

void BuildQueue::Post(base::Task task) {
  {
    const base::MutexLock lock(impl_->mutex);
    ++impl_->open;
  }
  // Shared with no one: TBB wants a callable that can be copied and is const.
  auto kept = std::make_shared<base::Task>(std::move(task));
  impl_->arena.enqueue([impl = impl_.get(), kept] {
    (*kept)();
    *kept = nullptr;  // what it captured ends before anyone is told
    impl->Done();
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
