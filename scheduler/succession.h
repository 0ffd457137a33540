// Which trace always comes right behind which.

#ifndef REPRISE_SCHEDULER_SUCCESSION_H_
#define REPRISE_SCHEDULER_SUCCESSION_H_

#include <cstdint>
#include <optional>
#include <utility>

#include "scheduler/trace_id.h"

namespace reprise::scheduler {

// Of one trace: the trace that came right behind it, how often in a row that
// one did, and how often in a row it came itself right behind a trace that is
// always followed by it. Two traces should be one if the second always follows
// the first, and follows others only if it always does. (Not so is the step
// that comes behind an evaluation.) A single-thread value.
class Succession {
 public:
  // That trace came right behind this one. Returns the one that had always come
  // there, if it was another.
  std::optional<TraceId> FollowedBy(TraceId next) {
    const TraceId before = std::exchange(follower_, next);
    const bool broken =
        before != next && before != TraceId::kNone && always_followed();
    if (before != next) followed_ = 0;
    ++followed_;
    return broken ? std::optional(before) : std::nullopt;
  }
  // This trace came right behind that one, which was told before.
  void CameBehind(const Succession& before) {
    led_ = before.always_followed() ? led_ + 1 : 0;
  }
  // A trace that this one had always come behind was followed by another.
  void NotLed() { led_ = 0; }
  // What comes next does not come right behind it.
  void Part() { follower_ = TraceId::kNone; }
  // It has become part of another trace. It leads none before it has come by
  // itself as often again.
  void Restart() { followed_ = led_ = 0; }

  TraceId follower() const { return follower_; }
  // How often in a row that one came.
  uint32_t followed() const { return followed_; }
  bool often_followed() const { return followed_ >= kTimesThatPromise; }
  bool always_followed() const { return followed_ >= kTimesTogether; }
  bool always_led() const { return led_ >= kTimesTogether; }
  // The two are, or are about to be as soon as what comes before them has
  // ended: `next` always comes right behind this one.
  bool GoesTogetherWith(TraceId id, const Succession& next) const {
    constexpr uint32_t kBefore = kTimesTogether - 1;
    return follower_ == id && followed_ >= kBefore && next.led_ >= kBefore;
  }

 private:
  // After so many times in a row a trace is always followed by another. After
  // as many more the two are one, which costs some passes by eager.
  static constexpr uint32_t kTimesTogether = 32;
  static constexpr uint32_t kTimesThatPromise = 8;

  TraceId follower_ = TraceId::kNone;
  uint32_t followed_ = 0;
  uint32_t led_ = 0;
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_SUCCESSION_H_
