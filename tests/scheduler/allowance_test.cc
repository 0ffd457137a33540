#include "scheduler/allowance.h"

#include <gtest/gtest.h>

namespace reprise::scheduler {
namespace {

using std::chrono::milliseconds;

class AllowanceTest : public testing::Test {
 protected:
  void Spend(milliseconds time, milliseconds usual = milliseconds(0)) {
    allowance_.Begin(now_);
    now_ += time;
    allowance_.End(now_, usual);
  }

  using Purpose = Allowance::Purpose;
  bool May(Purpose purpose, bool saves_little = false) {
    return allowance_.Has(now_, saves_little, purpose);
  }

  Allowance allowance_;
  Allowance::Clock::time_point now_{};
};

TEST_F(AllowanceTest, StartsWithASecond) {
  for (int i = 0; i < 9; ++i) {
    EXPECT_TRUE(May(Purpose::kValidate));
    Spend(milliseconds(100));
  }
  EXPECT_TRUE(May(Purpose::kValidate));
  Spend(milliseconds(200));
  EXPECT_FALSE(May(Purpose::kValidate));
}

TEST_F(AllowanceTest, TheLastFifthIsForWhatWasRecorded) {
  EXPECT_TRUE(May(Purpose::kRecord));
  Spend(milliseconds(900));
  EXPECT_FALSE(May(Purpose::kRecord));
  EXPECT_TRUE(May(Purpose::kValidate));
  Spend(milliseconds(200));
  EXPECT_FALSE(May(Purpose::kValidate));
}

TEST_F(AllowanceTest, GrowsByAQuarterOfWhatIsSaved) {
  EXPECT_TRUE(May(Purpose::kRecord));
  Spend(milliseconds(1100));
  EXPECT_FALSE(May(Purpose::kValidate));
  allowance_.Earn(milliseconds(200));
  EXPECT_FALSE(May(Purpose::kValidate));
  allowance_.Earn(milliseconds(400));
  EXPECT_TRUE(May(Purpose::kValidate));
  EXPECT_FALSE(May(Purpose::kRecord));
  allowance_.Earn(milliseconds(800));
  EXPECT_TRUE(May(Purpose::kRecord));
  allowance_.Earn(std::chrono::hours(1));
  EXPECT_TRUE(May(Purpose::kRecord));
  Spend(milliseconds(1100));
  EXPECT_FALSE(May(Purpose::kValidate));
}

TEST_F(AllowanceTest, GrowsByAFiftiethOfTheTimeThatPasses) {
  EXPECT_TRUE(May(Purpose::kValidate));
  Spend(milliseconds(1100));
  EXPECT_FALSE(May(Purpose::kValidate));
  now_ += milliseconds(3800);
  EXPECT_FALSE(May(Purpose::kValidate));
  now_ += milliseconds(300);
  EXPECT_TRUE(May(Purpose::kValidate));
}

// Long passes are learned like short ones.
TEST_F(AllowanceTest, WhatAPassTakesAnywayIsNotCounted) {
  for (int i = 0; i < 9; ++i) {
    EXPECT_TRUE(May(Purpose::kValidate));
    Spend(milliseconds(1100), milliseconds(1000));
  }
  EXPECT_TRUE(May(Purpose::kValidate));
  Spend(milliseconds(500), milliseconds(1000));
  EXPECT_TRUE(May(Purpose::kValidate));
  Spend(milliseconds(1500), milliseconds(1000));
  EXPECT_FALSE(May(Purpose::kValidate));
}

TEST_F(AllowanceTest, DoesNotGrowBeyondItsBeginning) {
  EXPECT_TRUE(May(Purpose::kValidate));
  now_ += std::chrono::hours(10);
  EXPECT_TRUE(May(Purpose::kValidate));
  Spend(milliseconds(1100));
  EXPECT_FALSE(May(Purpose::kValidate));
}

TEST_F(AllowanceTest, WhatWasNotBegunCostsNothing) {
  now_ += std::chrono::hours(1);
  allowance_.End(now_);
  EXPECT_TRUE(May(Purpose::kValidate));
}

// A device that is waited for leaves little to save.
TEST_F(AllowanceTest, ProgramThatWaitsHasATwentiethOfIt) {
  EXPECT_TRUE(May(Purpose::kRecord, /*waits=*/true));
  Spend(milliseconds(60));
  EXPECT_FALSE(May(Purpose::kRecord, /*waits=*/true));
  EXPECT_TRUE(May(Purpose::kValidate));
  EXPECT_TRUE(May(Purpose::kValidate, /*waits=*/true));
  Spend(milliseconds(60));
  EXPECT_FALSE(May(Purpose::kValidate, /*waits=*/true));
  now_ += milliseconds(3600);
  EXPECT_TRUE(May(Purpose::kRecord, /*waits=*/true));
}

}  // namespace
}  // namespace reprise::scheduler
