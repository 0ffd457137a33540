#include "scheduler/unwatched_work.h"

#include <algorithm>

namespace reprise::scheduler {

bool UnwatchedWork::IsLeftOn(const StreamKey& stream) const {
  return known_at_ != additions_.load(std::memory_order_acquire) ||
         (std::ranges::find(streams_, stream) == streams_.end() &&
          std::ranges::find(whole_devices_, stream.device) ==
              whole_devices_.end());
}

// If nothing is left of what the stream had to do, nothing is left of what it
// had to do when the event was recorded.
bool UnwatchedWork::IsLeftBehind(const void* event) const {
  const auto found = events_.find(event);
  return found == events_.end() || IsLeftOn(found->second.stream);
}

bool UnwatchedWork::MayBeOn(const StreamKey& stream) const {
  if (!any()) return false;
  const base::MutexLock lock(mutex_);
  return IsLeftOn(stream);
}

bool UnwatchedWork::MayBeBehind(const void* event) const {
  if (!any()) return false;
  const base::MutexLock lock(mutex_);
  return IsLeftBehind(event);
}

void UnwatchedWork::Renew() {
  const uint64_t now = additions_.load(std::memory_order_acquire);
  if (known_at_ == now) return;
  known_at_ = now;
  streams_.clear();
  whole_devices_.clear();
  events_.clear();
  left_.clear();
  forgotten_ = 0;
}

bool UnwatchedWork::StandsStill(const Time& began) const {
  return began.additions == known_at_ &&
         began.orders == orders_.load(std::memory_order_relaxed);
}

void UnwatchedWork::AddDone(const StreamKey& stream) {
  if (!IsLeftOn(stream)) return;
  if (streams_.size() == kMostStreams) streams_.clear();
  streams_.push_back(stream);
}

void UnwatchedWork::HasWaitedFor(const StreamKey& stream, const Time& began) {
  if (!any()) return;
  const base::MutexLock lock(mutex_);
  Renew();
  if (!StandsStill(began)) return;
  // The events that it has waited for have passed: nothing is left of what
  // their streams had to do before.
  std::vector<StreamKey> done{stream};
  for (const Order& order : left_) {
    if (order.stream != stream) continue;
    const StreamKey& of = order.event.stream;
    const bool behind_more =
        order.event.orders < forgotten_ ||
        std::ranges::any_of(left_, [&](const Order& other) {
          return other.stream == of && other.number > order.event.orders;
        });
    if (!behind_more) done.push_back(of);
  }
  for (const StreamKey& each : done) {
    std::erase_if(left_,
                  [&each](const Order& order) { return order.stream == each; });
    AddDone(each);
  }
}

void UnwatchedWork::HasWaitedForDevice(int device, const Time& began) {
  if (!any()) return;
  const base::MutexLock lock(mutex_);
  Renew();
  if (!StandsStill(began)) return;
  if (std::ranges::find(whole_devices_, device) == whole_devices_.end()) {
    whole_devices_.push_back(device);
  }
  const bool all = std::ranges::all_of(devices_(), [this](int each) {
    return std::ranges::find(whole_devices_, each) != whole_devices_.end();
  });
  if (all) done_.store(began.additions, std::memory_order_release);
}

void UnwatchedWork::Records(const void* event, const StreamKey& stream) {
  if (!any()) return;
  const base::MutexLock lock(mutex_);
  Renew();
  if (events_.size() >= kMostEvents) events_.clear();
  events_[event] = {stream, orders_.load(std::memory_order_relaxed)};
}

void UnwatchedWork::Forget(const void* event) {
  if (!any()) return;
  const base::MutexLock lock(mutex_);
  events_.erase(event);
}

void UnwatchedWork::WaitsFor(const void* event, const StreamKey& stream) {
  if (!any()) return;
  const base::MutexLock lock(mutex_);
  Renew();
  if (!IsLeftBehind(event)) return;
  const uint64_t number = orders_.fetch_add(1, std::memory_order_release) + 1;
  std::erase(streams_, stream);
  std::erase(whole_devices_, stream.device);
  const auto found = events_.find(event);
  // Where it was recorded before, only the stream itself will be known.
  const Recorded from =
      found == events_.end() ? Recorded{stream, number} : found->second;
  if (left_.size() == kMostOrders) {
    forgotten_ = left_.front().number;
    left_.erase(left_.begin());
  }
  left_.push_back({stream, from, number});
}

}  // namespace reprise::scheduler
