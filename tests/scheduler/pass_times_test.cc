// Proves what is known of the times of a trace's passes.

#include "scheduler/pass_times.h"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>

namespace reprise::scheduler {
namespace {

using std::chrono::milliseconds;

PassTimes::TimePoint At(int ms) {
  return PassTimes::TimePoint{} + milliseconds(ms);
}

TEST(PassTimesTest, NothingIsKnownAtFirst) {
  PassTimes times;
  EXPECT_EQ(times.usual(), PassTimes::Duration::zero());
  EXPECT_FALSE(times.soonest());
  times.Begins(At(5));
  EXPECT_FALSE(times.soonest()) << "no watched pass was before it";
}

TEST(PassTimesTest, TheLeastOfTheTimesIsUsual) {
  PassTimes times;
  times.Watched(At(10), At(18));
  EXPECT_EQ(times.usual(), milliseconds(8));
  times.Watched(At(30), At(35));
  times.Watched(At(60), At(90));
  EXPECT_EQ(times.usual(), milliseconds(5));
}

TEST(PassTimesTest, APassWhoseEndWasNotSeenTellsWhenItCame) {
  PassTimes times;
  times.Watched(At(10), At(10));
  EXPECT_EQ(times.usual(), PassTimes::Duration::zero());
  times.Begins(At(50));
  EXPECT_EQ(times.soonest(),
            std::optional<PassTimes::Duration>(milliseconds(40)));
}

TEST(PassTimesTest, TheLeastTimeBetweenTwoIsKept) {
  PassTimes times;
  times.Watched(At(10), At(12));
  times.Watched(At(100), At(102));
  EXPECT_EQ(times.soonest(),
            std::optional<PassTimes::Duration>(milliseconds(90)));
  times.Begins(At(120));
  EXPECT_EQ(times.soonest(),
            std::optional<PassTimes::Duration>(milliseconds(20)));
  times.Begins(At(900));
  EXPECT_EQ(times.soonest(),
            std::optional<PassTimes::Duration>(milliseconds(20)));
}

}  // namespace
}  // namespace reprise::scheduler
