// Work that was enqueued while no session was shown the ops.

#ifndef REPRISE_SCHEDULER_UNWATCHED_WORK_H_
#define REPRISE_SCHEDULER_UNWATCHED_WORK_H_

#include <atomic>
#include <cstdint>
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
//   - an event, unless it has waited for every device since then.
//
// A stream that waits for an event may be behind such work again.
//
// Thread-safe. Where there is no such work, each question is two loads.
class UnwatchedWork {
 public:
  // When a wait began.
  struct Time {
    uint64_t additions = 0;
    uint64_t orders = 0;
  };

  // `devices`: how many there are.
  explicit UnwatchedWork(int devices) : devices_(devices) {}

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

  // The stream is about to wait for an event.
  void WaitsForEvent(const StreamKey& stream) REPRISE_EXCLUDES(mutex_);

 private:
  // So many streams are remembered. Of more, all are forgotten.
  static constexpr size_t kMostStreams = 64;

  bool StandsStill(const Time& began) const REPRISE_REQUIRES(mutex_);

  const int devices_;
  std::atomic<uint64_t> additions_{0};
  std::atomic<uint64_t> done_{0};    // so many are known to be done
  std::atomic<uint64_t> orders_{0};  // streams that waited for events
  mutable base::Mutex mutex_;
  // All that they had to do at `waited_at_` is done.
  uint64_t waited_at_ REPRISE_GUARDED_BY(mutex_) = 0;
  std::vector<StreamKey> streams_ REPRISE_GUARDED_BY(mutex_);
  std::vector<int> whole_devices_ REPRISE_GUARDED_BY(mutex_);
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_UNWATCHED_WORK_H_
