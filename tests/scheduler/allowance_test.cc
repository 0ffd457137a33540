#include "scheduler/allowance.h"

#include <gtest/gtest.h>

namespace reprise::scheduler {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class AllowanceTest : public testing::Test {
 protected:
  using Purpose = Allowance::Purpose;
  using Pass = Allowance::Pass;

  bool May(Pass pass) { return allowance_.Has(now_, pass); }
  bool MayRecord(milliseconds cost = milliseconds(0)) {
    return May({.purpose = Purpose::kRecord, .cost = cost});
  }
  bool MayValidate(milliseconds cost = milliseconds(0)) {
    return May({.purpose = Purpose::kValidate, .cost = cost});
  }
  // Time that passes and earns nothing but its fiftieth.
  void Wait(milliseconds time) { now_ += time; }

  Allowance allowance_;
  Allowance::Clock::time_point now_{};
};

TEST_F(AllowanceTest, StartsWithFifteenMilliseconds) {
  EXPECT_TRUE(MayValidate(milliseconds(14)));
  EXPECT_FALSE(MayValidate(milliseconds(15)));
  allowance_.Spend(milliseconds(14));
  EXPECT_TRUE(MayValidate());
  allowance_.Spend(milliseconds(1));
  EXPECT_FALSE(MayValidate());
}

TEST_F(AllowanceTest, TheLastFifthOfItIsForWhatWasRecorded) {
  EXPECT_TRUE(MayRecord());
  allowance_.Spend(milliseconds(12));
  EXPECT_FALSE(MayRecord());
  EXPECT_TRUE(MayValidate());
}

TEST_F(AllowanceTest, GrowsByAFiftiethOfTheTimeThatPasses) {
  EXPECT_TRUE(MayRecord());
  allowance_.Spend(milliseconds(35));
  Wait(milliseconds(1000));
  EXPECT_FALSE(MayValidate());
  Wait(milliseconds(50));
  EXPECT_TRUE(MayValidate());
}

TEST_F(AllowanceTest, GrowsByAQuarterOfWhatIsSaved) {
  EXPECT_TRUE(MayRecord());
  allowance_.Spend(milliseconds(115));
  allowance_.Earn(milliseconds(400));
  EXPECT_FALSE(MayValidate());
  allowance_.Earn(milliseconds(4));
  EXPECT_TRUE(MayValidate());
}

TEST_F(AllowanceTest, ExpectsNoMoreThanTheTimeThatHasPassed) {
  EXPECT_TRUE(MayRecord());
  Wait(milliseconds(1000));
  allowance_.Expect(now_, milliseconds(0));
  allowance_.Spend(milliseconds(35));
  for (int i = 0; i < 100; ++i) allowance_.Expect(now_, milliseconds(100));
  EXPECT_FALSE(MayValidate());
}

// Recordings without end, each of them cheap, do not keep it from that.
TEST_F(AllowanceTest, RecordingsWaitForAValidationThatWaits) {
  EXPECT_TRUE(MayRecord(milliseconds(1)));
  EXPECT_FALSE(MayValidate(milliseconds(60)));
  EXPECT_FALSE(MayRecord(milliseconds(1)));
  int waited = 0;
  while (!MayValidate(milliseconds(60)) && waited < 100) {
    Wait(milliseconds(50));
    EXPECT_FALSE(MayRecord(milliseconds(1)));
    ++waited;
  }
  EXPECT_LT(waited, 50);
  EXPECT_TRUE(MayRecord(milliseconds(1)));
}

// One that asks no more does not keep others from theirs.
TEST_F(AllowanceTest, RecordingsDoNotWaitForLong) {
  EXPECT_FALSE(MayValidate(milliseconds(60)));
  Wait(milliseconds(999));
  EXPECT_FALSE(MayRecord(milliseconds(1)));
  Wait(milliseconds(2));
  EXPECT_TRUE(MayRecord(milliseconds(1)));
}

// A program that nothing can be learned of loses next to nothing.
TEST_F(AllowanceTest, GrowsMoreSlowlyWhereLearningWasInVain) {
  EXPECT_TRUE(MayRecord());
  allowance_.Spend(milliseconds(55), /*in_vain=*/true);
  Wait(milliseconds(7900));
  allowance_.Expect(now_, milliseconds(7900));
  EXPECT_FALSE(MayValidate());
  Wait(milliseconds(200));
  EXPECT_TRUE(MayValidate());
  // Some of it was worth it after all.
  allowance_.Earn(milliseconds(40));
  allowance_.Spend(milliseconds(20));
  EXPECT_FALSE(MayValidate());
  Wait(milliseconds(550));
  EXPECT_TRUE(MayValidate());
}

// In its first second a program may lose no more than it may for good.
TEST_F(AllowanceTest, GrowsByASixteenthOfWhatIsExpectedAfterASecond) {
  EXPECT_FALSE(MayValidate(milliseconds(100)));
  for (int i = 0; i < 9; ++i) {
    Wait(milliseconds(100));
    allowance_.Expect(now_, milliseconds(100));
  }
  EXPECT_TRUE(MayValidate(milliseconds(32)));
  EXPECT_FALSE(MayValidate(milliseconds(33)));
  Wait(milliseconds(100));
  allowance_.Expect(now_, milliseconds(96));
  EXPECT_TRUE(MayValidate(milliseconds(40)));
  EXPECT_FALSE(MayValidate(milliseconds(41)));
}

TEST_F(AllowanceTest, KeepsNoMoreThanAQuarterOfASecond) {
  EXPECT_TRUE(MayRecord());
  Wait(std::chrono::hours(10));
  allowance_.Earn(std::chrono::hours(10));
  EXPECT_TRUE(MayValidate());
  allowance_.Spend(milliseconds(250));
  EXPECT_FALSE(MayValidate());
}

// What costs more than is ever kept would never be begun.
TEST_F(AllowanceTest, LongPassesAreBegunWithHalfOfTheMost) {
  EXPECT_FALSE(MayValidate(seconds(10)));
  Wait(seconds(6));
  EXPECT_TRUE(MayValidate(seconds(10)));
  EXPECT_TRUE(MayRecord(seconds(10)));
  allowance_.Spend(seconds(10));
  Wait(seconds(490));
  EXPECT_FALSE(MayValidate());
}

// A device that is waited for leaves little to save.
TEST_F(AllowanceTest, WhatSavesLittleLeavesHalfOfTheFirstToOthers) {
  const Pass record{.purpose = Purpose::kRecord, .saves_little = true};
  const Pass validate{.purpose = Purpose::kValidate, .saves_little = true};
  EXPECT_TRUE(May(record));
  allowance_.Spend(milliseconds(8));
  EXPECT_FALSE(May(record));
  EXPECT_FALSE(May(validate));
  EXPECT_TRUE(MayRecord());
  Wait(milliseconds(500));
  EXPECT_TRUE(May(record));
  EXPECT_TRUE(May(validate));
}

}  // namespace
}  // namespace reprise::scheduler
