// How long a trace's passes take, and how often they come.

#ifndef REPRISE_SCHEDULER_PASS_TIMES_H_
#define REPRISE_SCHEDULER_PASS_TIMES_H_

#include <algorithm>
#include <chrono>
#include <optional>

namespace reprise::scheduler {

// Of one trace, as far as its passes are watched or recorded. The least of the
// times is kept: others hold what is learned of other traces. A single-thread
// value.
class PassTimes {
 public:
  using Clock = std::chrono::steady_clock;
  using Duration = Clock::duration;
  using TimePoint = Clock::time_point;

  // The least that a watched pass took, from its head to its last op. Zero:
  // none was watched.
  Duration usual() const { return usual_; }
  // The least time from a watched pass to the next one that began, watched or
  // recorded. None: no two are known.
  std::optional<Duration> soonest() const { return soonest_; }

  // A pass begins.
  void Begins(TimePoint now) {
    if (came_at_ == TimePoint{}) return;
    const Duration since = now - came_at_;
    soonest_ = std::min(soonest_.value_or(since), since);
  }
  // A pass was watched from then to then. (An `until` before `since`: its end
  // was not seen.)
  void Watched(TimePoint since, TimePoint until) {
    Begins(since);
    came_at_ = since;
    if (until <= since) return;
    const Duration took = until - since;
    if (usual_ == Duration::zero() || took < usual_) usual_ = took;
  }

 private:
  Duration usual_{};
  std::optional<Duration> soonest_;
  TimePoint came_at_;  // the last watched pass began; none: zero
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_PASS_TIMES_H_
