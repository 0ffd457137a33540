// A clock of a test's own.

#ifndef REPRISE_TESTS_ENGINE_BASE_MANUAL_CLOCK_H_
#define REPRISE_TESTS_ENGINE_BASE_MANUAL_CLOCK_H_

#include "engine/base/clock.h"

namespace reprise::base {

// Stands still until it is told to go on, so that a test decides how long what
// it does has taken.
class ManualClock final : public Clock {
 public:
  TimePoint Now() const override { return now_; }
  void Advance(Duration time) { now_ += time; }

 private:
  TimePoint now_{};
};

}  // namespace reprise::base

#endif  // REPRISE_TESTS_ENGINE_BASE_MANUAL_CLOCK_H_
