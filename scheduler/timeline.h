// What Reprise did and when, for people who look at it beside a profile.

#ifndef REPRISE_SCHEDULER_TIMELINE_H_
#define REPRISE_SCHEDULER_TIMELINE_H_

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cache/signature.h"
#include "engine/base/clock.h"
#include "engine/base/mutex.h"
#include "engine/base/spin_lock.h"

namespace reprise::scheduler {

// The last two have no length.
enum class Doing : uint8_t {
  kRecording,
  kRecordingAgain,  // relocated
  kBuilding,
  kValidatingOps,
  kValidatingWhole,
  kReplaying,
  kSquashing,
  kLaunching,   // a batch, one launch after the other
  kTakingOver,  // a batch, the graph of another one
  kRejected,    // a build, a validation or a plan
  kEvicted,
};

const char* ToString(Doing doing);

// Whose events they are: a stream's, or those of a runtime's cache of plans.
enum class TrackId : uint32_t {};

// The last kMostEvents events of all streams, while somebody has started it:
// one a pass, never one an op.
//
// Thread-safe. Its lock is a leaf, so that any lock may be held by who adds an
// event: under it an event is copied, and no more. Cost: while nobody has
// started it, what on() costs; else 10 MiB of the host's memory, and half a
// microsecond a pass.
class Timeline {
 public:
  using TimePoint = base::Clock::TimePoint;

  static constexpr size_t kMostEvents = size_t{1} << 16;
  static constexpr uint32_t kNoOp = ~uint32_t{0};

  struct Event {
    Doing doing = Doing::kReplaying;
    TrackId track = {};
    TrackId plans = {};   // the cache of plans behind it
    uint32_t thread = 0;  // the system's number of the thread that ended it
    TimePoint begin = {};
    TimePoint end = {};
    cache::Signature signature;  // of the trace
    uint32_t ops = 0;            // of the trace
    uint32_t left_at = kNoOp;    // the op that did not come, if it was left
    uint64_t plan_bytes = 0;     // of that cache, at its end
    // Why, what came in place of that op or, of a batch, its label; cut short.
    std::array<char, 96> note = {};

    std::string_view text() const { return note.data(); }
  };

  // Where in the order of events.
  enum class Position : uint64_t {};

  struct Excerpt {
    std::vector<Event> events;        // in the order of their ends
    uint64_t lost = 0;                // so many came before them and are gone
    std::vector<std::string> tracks;  // names, by TrackId
    // Of squashes, by index into `events`: where the program was (Places).
    std::map<size_t, std::vector<std::string>> places;
  };

  // `clock` is borrowed, and asked by any thread.
  explicit Timeline(const base::Clock* clock = &base::kSteadyClock,
                    size_t most_events = kMostEvents)
      : clock_(*clock), most_events_(most_events) {}
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  // Events are kept from now on, until as many Stops. Returns where they begin.
  Position Start() REPRISE_EXCLUDES(mutex_);
  void Stop() REPRISE_EXCLUDES(mutex_);

  // Relaxed: an event near Start or Stop may be kept or not.
  bool on() const { return on_.load(std::memory_order_relaxed); }
  TimePoint Now() const { return clock_.Now(); }

  // Tracks live as long as the timeline.
  TrackId AddTrack(std::string name) REPRISE_EXCLUDES(mutex_);
  // Kept if it is on.
  void Add(const Event& event) REPRISE_EXCLUDES(events_lock_);

  // Events from there on. To be called before the Stop.
  Excerpt Since(Position position) const REPRISE_EXCLUDES(mutex_, events_lock_);

 private:
  const base::Clock& clock_;
  const size_t most_events_;
  std::atomic<bool> on_{false};

  mutable base::Mutex mutex_;
  int starts_ REPRISE_GUARDED_BY(mutex_) = 0;
  std::vector<std::string> tracks_ REPRISE_GUARDED_BY(mutex_);

  mutable base::SpinLock events_lock_;
  std::vector<Event> ring_ REPRISE_GUARDED_BY(events_lock_);  // empty: off
  uint64_t added_ REPRISE_GUARDED_BY(events_lock_) = 0;
};

// What is to be added to a time of a steady clock, to count from the epoch of
// Unix; some microseconds.
std::chrono::nanoseconds ToUnixEpoch();

// JSON text: `events`, `lost` and `tracks`; times in nanoseconds since the
// epoch of Unix.
std::string TimelineJson(const Timeline::Excerpt& excerpt);

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_TIMELINE_H_
