// Proves when a trace is known to come always right behind another.

#include "scheduler/succession.h"

#include <gtest/gtest.h>

#include <optional>

#include "scheduler/trace_id.h"

namespace reprise::scheduler {
namespace {

constexpr TraceId kNext{7};
constexpr TraceId kOther{8};

class SuccessionTest : public testing::Test {
 protected:
  // The second one comes right behind the first, so often.
  void Follow(int times) {
    for (int i = 0; i < times; ++i) {
      EXPECT_FALSE(first_.FollowedBy(kNext));
      second_.CameBehind(first_);
    }
  }
  bool ShouldBeOne() const {
    return first_.always_followed() && second_.always_led();
  }

  Succession first_;
  Succession second_;
};

TEST_F(SuccessionTest, IsKnownAfterSomeTimesAndActedOnAfterAsManyMore) {
  Follow(7);
  EXPECT_FALSE(first_.often_followed());
  Follow(1);
  EXPECT_TRUE(first_.often_followed());
  Follow(23);
  EXPECT_FALSE(first_.always_followed());
  Follow(1);
  EXPECT_TRUE(first_.always_followed());
  Follow(30);
  EXPECT_FALSE(ShouldBeOne());
  EXPECT_TRUE(first_.GoesTogetherWith(kNext, second_));
  Follow(1);
  EXPECT_TRUE(ShouldBeOne());
  EXPECT_EQ(first_.follower(), kNext);
  EXPECT_FALSE(first_.GoesTogetherWith(kOther, second_));
}

TEST_F(SuccessionTest, AnotherFollowerBreaksIt) {
  Follow(64);
  EXPECT_EQ(first_.FollowedBy(kOther), std::optional(kNext));
  EXPECT_FALSE(first_.always_followed());
  EXPECT_EQ(first_.followed(), 1u);
  second_.NotLed();
  EXPECT_FALSE(second_.always_led());
}

TEST_F(SuccessionTest, OneThatFollowsAnotherTraceAtTimesIsNotLed) {
  Follow(64);
  second_.CameBehind(Succession());
  EXPECT_FALSE(second_.always_led());
}

// What comes behind a cut begins to count anew, and nobody was let down.
TEST_F(SuccessionTest, AGapCountsAnew) {
  Follow(64);
  first_.Part();
  EXPECT_EQ(first_.follower(), TraceId::kNone);
  EXPECT_FALSE(first_.FollowedBy(kNext));
  EXPECT_EQ(first_.followed(), 1u);
}

TEST_F(SuccessionTest, APartLeadsNoneUntilItHasComeAsOftenAgain) {
  Follow(64);
  first_.Restart();
  second_.Restart();
  EXPECT_FALSE(ShouldBeOne());
  Follow(63);
  EXPECT_TRUE(ShouldBeOne());
}

}  // namespace
}  // namespace reprise::scheduler
