// Time that a stopped clock leaves out is left out for good.

#include "engine/base/clock.h"

#include <gtest/gtest.h>

#include <chrono>

#include "tests/engine/base/manual_clock.h"

namespace reprise::base {
namespace {

using std::chrono::seconds;

TEST(StoppableClockTest, LeavesOutWhatPassesWhileItIsStopped) {
  ManualClock clock;
  StoppableClock stoppable(&clock);
  const Clock::TimePoint begun = stoppable.Now();
  clock.Advance(seconds(1));
  EXPECT_EQ(stoppable.Now() - begun, seconds(1));
  for (int i = 0; i < 2; ++i) {
    stoppable.Stop();
    clock.Advance(seconds(10));
    EXPECT_EQ(stoppable.Now() - begun, seconds(1 + i));
    stoppable.GoOn();
    clock.Advance(seconds(1));
    EXPECT_EQ(stoppable.Now() - begun, seconds(2 + i));
  }
}

TEST(StoppableClockTest, StopsAndGoesOnOnce) {
  ManualClock clock;
  StoppableClock stoppable(&clock);
  const Clock::TimePoint begun = stoppable.Now();
  stoppable.GoOn();
  stoppable.Stop();
  clock.Advance(seconds(1));
  stoppable.Stop();
  clock.Advance(seconds(1));
  stoppable.GoOn();
  stoppable.GoOn();
  EXPECT_EQ(stoppable.Now(), begun);
}

}  // namespace
}  // namespace reprise::base
