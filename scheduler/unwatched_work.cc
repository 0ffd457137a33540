#include "scheduler/unwatched_work.h"

#include <algorithm>

namespace reprise::scheduler {

bool UnwatchedWork::MayBeOn(const StreamKey& stream) const {
  if (!any()) return false;
  const base::MutexLock lock(mutex_);
  return waited_at_ != additions_.load(std::memory_order_acquire) ||
         (std::ranges::find(streams_, stream) == streams_.end() &&
          std::ranges::find(whole_devices_, stream.device) ==
              whole_devices_.end());
}

// Nothing has come since that a wait was not for.
bool UnwatchedWork::StandsStill(const Time& began) const {
  return began.additions == additions_.load(std::memory_order_acquire) &&
         began.orders == orders_.load(std::memory_order_relaxed);
}

void UnwatchedWork::HasWaitedFor(const StreamKey& stream, const Time& began) {
  if (!any()) return;
  const base::MutexLock lock(mutex_);
  if (!StandsStill(began)) return;
  if (waited_at_ != began.additions || streams_.size() == kMostStreams) {
    streams_.clear();
    whole_devices_.clear();
  }
  waited_at_ = began.additions;
  if (std::ranges::find(streams_, stream) == streams_.end()) {
    streams_.push_back(stream);
  }
}

void UnwatchedWork::HasWaitedForDevice(int device, const Time& began) {
  if (!any()) return;
  const base::MutexLock lock(mutex_);
  if (!StandsStill(began)) return;
  if (waited_at_ != began.additions) {
    streams_.clear();
    whole_devices_.clear();
  }
  waited_at_ = began.additions;
  if (std::ranges::find(whole_devices_, device) == whole_devices_.end()) {
    whole_devices_.push_back(device);
  }
  if (whole_devices_.size() >= static_cast<size_t>(devices_)) {
    done_.store(began.additions, std::memory_order_release);
  }
}

void UnwatchedWork::WaitsForEvent(const StreamKey& stream) {
  if (!any()) return;
  const base::MutexLock lock(mutex_);
  orders_.fetch_add(1, std::memory_order_release);
  std::erase(streams_, stream);
  std::erase(whole_devices_, stream.device);
}

}  // namespace reprise::scheduler
