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

  Allowance allowance_;
  Allowance::Clock::time_point now_{};
};

TEST_F(AllowanceTest, StartsWithASecond) {
  for (int i = 0; i < 9; ++i) {
    EXPECT_TRUE(allowance_.Has(now_, /*waits=*/false));
    Spend(milliseconds(100));
  }
  EXPECT_TRUE(allowance_.Has(now_, /*waits=*/false));
  Spend(milliseconds(200));
  EXPECT_FALSE(allowance_.Has(now_, /*waits=*/false));
}

TEST_F(AllowanceTest, GrowsByAFiftiethOfTheTimeThatPasses) {
  EXPECT_TRUE(allowance_.Has(now_, /*waits=*/false));
  Spend(milliseconds(1100));
  EXPECT_FALSE(allowance_.Has(now_, /*waits=*/false));
  now_ += milliseconds(3800);
  EXPECT_FALSE(allowance_.Has(now_, /*waits=*/false));
  now_ += milliseconds(300);
  EXPECT_TRUE(allowance_.Has(now_, /*waits=*/false));
}

// Long passes are learned like short ones.
TEST_F(AllowanceTest, WhatAPassTakesAnywayIsNotCounted) {
  for (int i = 0; i < 9; ++i) {
    EXPECT_TRUE(allowance_.Has(now_, /*waits=*/false));
    Spend(milliseconds(1100), milliseconds(1000));
  }
  EXPECT_TRUE(allowance_.Has(now_, /*waits=*/false));
  Spend(milliseconds(500), milliseconds(1000));
  EXPECT_TRUE(allowance_.Has(now_, /*waits=*/false));
  Spend(milliseconds(1500), milliseconds(1000));
  EXPECT_FALSE(allowance_.Has(now_, /*waits=*/false));
}

TEST_F(AllowanceTest, DoesNotGrowBeyondItsBeginning) {
  EXPECT_TRUE(allowance_.Has(now_, /*waits=*/false));
  now_ += std::chrono::hours(10);
  EXPECT_TRUE(allowance_.Has(now_, /*waits=*/false));
  Spend(milliseconds(1100));
  EXPECT_FALSE(allowance_.Has(now_, /*waits=*/false));
}

TEST_F(AllowanceTest, WhatWasNotBegunCostsNothing) {
  now_ += std::chrono::hours(1);
  allowance_.End(now_);
  EXPECT_TRUE(allowance_.Has(now_, /*waits=*/false));
}

// A device that is waited for leaves little to save.
TEST_F(AllowanceTest, ProgramThatWaitsHasATwentiethOfIt) {
  EXPECT_TRUE(allowance_.Has(now_, /*waits=*/true));
  Spend(milliseconds(60));
  EXPECT_FALSE(allowance_.Has(now_, /*waits=*/true));
  EXPECT_TRUE(allowance_.Has(now_, /*waits=*/false));
  now_ += milliseconds(600);
  EXPECT_TRUE(allowance_.Has(now_, /*waits=*/true));
}

}  // namespace
}  // namespace reprise::scheduler
