// Work that was enqueued while no session was shown the ops.

#ifndef REPRISE_SCHEDULER_UNWATCHED_WORK_H_
#define REPRISE_SCHEDULER_UNWATCHED_WORK_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/base/mutex.h"
#include "scheduler/stream_key.h"

namespace reprise::scheduler {

// While nobody watches, or a stream is asleep, ops are not shown to any
// session. The book of ops forgets each of them when its call has returned, but
// what it has enqueued may run later, on any stream, and write memory that a
// replay reads ahead. The program has the host wait before it uses such memory.
// So all passes end where the host waits for
//
//   - a stream, unless it has waited for that stream since such work came last;
//   - an event, unless that was recorded since then, on such a stream.
//
// A stream that waits for another event may be behind such work again; what a
// host that has waited for it then has waited for is the event, too. Once the
// host has waited for all devices, nothing is left.
//
// Thread-safe. Where there is no such work, each question is two loads.
class UnwatchedWork {
 public:
  // When a wait began.
  struct Time {
    uint64_t additions = 0;
    uint64_t orders = 0;
  };

  // The devices on which anything can have been enqueued.
  using Devices = std::function<std::vector<int>()>;

  explicit UnwatchedWork(Devices devices) : devices_(std::move(devices)) {}

  // Such work may have been enqueued, or is about to be by an op that stands in
  // the book of ops: before that op's note ends.
  void Add() { additions_.fetch_add(1, std::memory_order_acq_rel); }

  // Some may be left, on whatever stream.
  bool any() const {
    return done_.load(std::memory_order_acquire) !=
           additions_.load(std::memory_order_acquire);
  }
  // Some may be left of what that stream has to do.
  bool MayBeOn(const StreamKey& stream) const REPRISE_EXCLUDES(mutex_);

  Time Now() const {
    return {additions_.load(std::memory_order_acquire),
            orders_.load(std::memory_order_acquire)};
  }
  // The host has waited for all that the stream, or each stream of the device,
  // had to do at `began` or later.
  void HasWaitedFor(const StreamKey& stream, const Time& began)
      REPRISE_EXCLUDES(mutex_);
  void HasWaitedForDevice(int device, const Time& began)
      REPRISE_EXCLUDES(mutex_);

  // The event is recorded on the stream. Called for each.
  void Records(const void* event, const StreamKey& stream)
      REPRISE_EXCLUDES(mutex_);
  void Forget(const void* event) REPRISE_EXCLUDES(mutex_);
  bool MayBeBehind(const void* event) const REPRISE_EXCLUDES(mutex_);
  // The stream waits for it.
  void WaitsFor(const void* event, const StreamKey& stream)
      REPRISE_EXCLUDES(mutex_);

 private:
  // So many are remembered. Of more streams and events, all are forgotten; of
  // more orders the oldest.
  static constexpr size_t kMostStreams = 64;
  static constexpr size_t kMostEvents = 4096;

  static constexpr size_t kMostOrders = 256;

  // Forgets what was known before such work came last.
  void Renew() REPRISE_REQUIRES(mutex_);
  // No such work has come since that wait began, and no stream is behind more.
  bool StandsStill(const Time& began) const REPRISE_REQUIRES(mutex_);
  bool IsLeftOn(const StreamKey& stream) const REPRISE_REQUIRES(mutex_);
  bool IsLeftBehind(const void* event) const REPRISE_REQUIRES(mutex_);
  void AddDone(const StreamKey& stream) REPRISE_REQUIRES(mutex_);

  const Devices devices_;
  std::atomic<uint64_t> additions_{0};
  std::atomic<uint64_t> done_{0};    // so many are known to be done
  std::atomic<uint64_t> orders_{0};  // streams that waited for events
  mutable base::Mutex mutex_;
  // Where an event was recorded, and what `orders_` was then.
  struct Recorded {
    StreamKey stream;
    uint64_t orders = 0;
  };
  struct Order {
    StreamKey stream;  // waits for
    Recorded event;
    uint64_t number = 0;
  };

  // What follows is of the additions until then.
  uint64_t known_at_ REPRISE_GUARDED_BY(mutex_) = 0;
  // The host has waited for all that these had to do.
  std::vector<StreamKey> streams_ REPRISE_GUARDED_BY(mutex_);
  std::vector<int> whole_devices_ REPRISE_GUARDED_BY(mutex_);
  std::unordered_map<const void*, Recorded> events_ REPRISE_GUARDED_BY(mutex_);
  // Those behind which such work may be left.
  std::vector<Order> left_ REPRISE_GUARDED_BY(mutex_);
  uint64_t forgotten_ REPRISE_GUARDED_BY(mutex_) = 0;  // the last of these
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_UNWATCHED_WORK_H_
