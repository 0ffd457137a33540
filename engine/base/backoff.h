// When what has failed is tried again.

#ifndef REPRISE_ENGINE_BASE_BACKOFF_H_
#define REPRISE_ENGINE_BASE_BACKOFF_H_

#include <algorithm>
#include <cstdint>

namespace reprise::base {

// Something that has failed is tried again after a wait, and after a longer
// wait each time it fails again. Time is any count of the caller's that rises:
// passes, calls, milliseconds. A single-thread value.
class Backoff {
 public:
  using Time = uint64_t;

  struct Schedule {
    Time first = 1;     // the wait behind the first failure
    Time factor = 2;    // each further wait is so many times as long
    Time longest = 64;  // no wait is longer
    // So many successes in a row make it as if it had never failed. More than
    // one: something that fails every other time is tried ever more rarely,
    // too.
    uint32_t forgives_after = 1;
  };

  explicit constexpr Backoff(const Schedule& schedule) : schedule_(schedule) {}

  // It was tried, and failed.
  void Fail(Time now) {
    wait_ = wait_ == 0 ? schedule_.first
                       : std::min(wait_ * schedule_.factor, schedule_.longest);
    until_ = now + wait_;
    successes_ = 0;
  }
  // It was tried, and did not fail.
  void Succeed() {
    if (++successes_ < schedule_.forgives_after) return;
    wait_ = until_ = 0;
    successes_ = 0;
  }
  // It may be tried.
  bool Ready(Time now) const { return now >= until_; }
  // From then on.
  Time ready_at() const { return until_; }
  // It has failed, and was not forgiven.
  bool failed() const { return wait_ > 0; }

 private:
  Schedule schedule_;
  Time wait_ = 0;
  Time until_ = 0;
  uint32_t successes_ = 0;  // in a row
};

}  // namespace reprise::base

#endif  // REPRISE_ENGINE_BASE_BACKOFF_H_
