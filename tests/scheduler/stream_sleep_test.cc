// Proves when ops of a stream are skipped, and what is known afterwards.

#include "scheduler/stream_sleep.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

namespace reprise::scheduler {
namespace {

using std::chrono::seconds;

class StreamSleepTest : public testing::Test {
 protected:
  // Watches a stream in which everything comes again and no plan is ever made,
  // until it sleeps. Returns what the report says.
  std::string WatchInVain() {
    for (int i = 0; i < 10'000; ++i) {
      now_ += std::chrono::milliseconds(100);
      seen_.traces += 1;
      seen_.known += Attention::kOps;
      if (const char* why = sleep_.Look(seen_, now_)) return why;
    }
    return "";
  }

  Skipping skipping_;
  UnwatchedWork unwatched_{[] { return std::vector<int>{0}; }};
  StreamSleep sleep_{&skipping_, &unwatched_};
  Attention::Seen seen_;
  Attention::Clock::time_point now_{seconds(1)};
};

TEST_F(StreamSleepTest, SleepsWhereWatchingGainsNothingAndSaysSoOnce) {
  EXPECT_FALSE(sleep_.wanted());
  EXPECT_NE(WatchInVain(), "");
  EXPECT_TRUE(sleep_.wanted());
  EXPECT_EQ(sleep_.Look(seen_, now_), nullptr);
}

TEST_F(StreamSleepTest, OpsAreSkippedFromTheFirstThatIsLetPass) {
  WatchInVain();
  EXPECT_FALSE(sleep_.skips());
  sleep_.Begin();
  EXPECT_TRUE(sleep_.skips());
  EXPECT_TRUE(skipping_.on());
}

// What was skipped may have written what a replay is to read.
TEST_F(StreamSleepTest, WakingUpTellsOfUnwatchedWork) {
  sleep_.End();
  EXPECT_FALSE(unwatched_.any());
  sleep_.Begin();
  sleep_.End();
  EXPECT_FALSE(sleep_.skips());
  EXPECT_TRUE(unwatched_.any());
}

TEST_F(StreamSleepTest, NothingIsSkippedOnceThereIsAnotherSession) {
  sleep_.Begin();
  sleep_.NotAlone();
  EXPECT_FALSE(sleep_.skips());
  EXPECT_TRUE(unwatched_.any());
  sleep_.Begin();
  EXPECT_FALSE(sleep_.skips());
}

TEST_F(StreamSleepTest, ResetForgetsWhatWasSavedAndWakesUp) {
  sleep_.Earn(seconds(2));
  sleep_.Earn(seconds(1));
  EXPECT_EQ(sleep_.saved(), seconds(3));
  WatchInVain();
  sleep_.Begin();
  sleep_.Reset();
  EXPECT_EQ(sleep_.saved(), seconds(0));
  EXPECT_FALSE(sleep_.wanted());
  EXPECT_FALSE(sleep_.skips());
}

TEST_F(StreamSleepTest, WithoutASwitchNothingIsSkipped) {
  StreamSleep sleep(nullptr, nullptr);
  sleep.Begin();
  EXPECT_FALSE(sleep.skips());
  sleep.End();
  sleep.NotAlone();
}

}  // namespace
}  // namespace reprise::scheduler
