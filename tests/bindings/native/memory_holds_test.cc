// What is freed during a build is given away when the builds that may name it
// have ended, and no later.

#include "bindings/native/memory_holds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

namespace reprise::native {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class MemoryHoldsTest : public testing::Test {
 protected:
  std::array<char, 3> memory_;
  void* const a_ = &memory_[0];
  void* const b_ = &memory_[1];
  void* const c_ = &memory_[2];
  MemoryHolds holds_;
};

TEST_F(MemoryHoldsTest, NothingIsKeptWithoutAHold) {
  EXPECT_FALSE(holds_.Keep(a_));
  const auto hold = holds_.Begin();
  EXPECT_THAT(holds_.End(hold), IsEmpty());
  EXPECT_FALSE(holds_.Keep(a_));
}

TEST_F(MemoryHoldsTest, EndsWithTheLastHoldThatLivedThen) {
  const auto first = holds_.Begin();
  EXPECT_TRUE(holds_.Keep(a_));
  const auto second = holds_.Begin();
  EXPECT_TRUE(holds_.Keep(b_));
  const auto third = holds_.Begin();
  EXPECT_TRUE(holds_.Keep(c_));
  EXPECT_THAT(holds_.End(second), IsEmpty());  // the first may name b
  EXPECT_THAT(holds_.End(first), ElementsAre(a_, b_));
  EXPECT_THAT(holds_.End(third), ElementsAre(c_));
}

// Builds that follow each other without a gap keep nothing for ever.
TEST_F(MemoryHoldsTest, LaterHoldsKeepNothingOfEarlierOnes) {
  auto hold = holds_.Begin();
  EXPECT_TRUE(holds_.Keep(a_));
  for (int build = 0; build < 3; ++build) {
    const auto next = holds_.Begin();
    const auto given = holds_.End(hold);
    EXPECT_EQ(given.size(), build == 0 ? 1u : 0u);
    hold = next;
  }
  EXPECT_THAT(holds_.End(hold), IsEmpty());
}

// What was not there when the newest build began is named by none.
TEST_F(MemoryHoldsTest, WhatIsYoungerThanEveryHoldIsNotKept) {
  const auto first = holds_.Begin();
  holds_.Note(a_);
  EXPECT_FALSE(holds_.Keep(a_));
  holds_.Note(a_);  // the same place again
  const auto second = holds_.Begin();
  EXPECT_TRUE(holds_.Keep(a_));
  EXPECT_THAT(holds_.End(first), IsEmpty());
  EXPECT_THAT(holds_.End(second), ElementsAre(a_));
}

// A place that was young once is not young in the next build.
TEST_F(MemoryHoldsTest, YouthEndsWithTheHolds) {
  const auto first = holds_.Begin();
  holds_.Note(a_);
  EXPECT_THAT(holds_.End(first), IsEmpty());
  const auto second = holds_.Begin();
  EXPECT_TRUE(holds_.Keep(a_));
  EXPECT_THAT(holds_.End(second), ElementsAre(a_));
}

TEST_F(MemoryHoldsTest, AllIsGivenUpAtOnce) {
  const auto first = holds_.Begin();
  EXPECT_TRUE(holds_.Keep(a_));
  const auto second = holds_.Begin();
  EXPECT_TRUE(holds_.Keep(b_));
  EXPECT_THAT(holds_.GiveUp(), ElementsAre(a_, b_));
  EXPECT_THAT(holds_.GiveUp(), IsEmpty());
  EXPECT_TRUE(holds_.Keep(c_));
  EXPECT_THAT(holds_.End(second), IsEmpty());
  EXPECT_THAT(holds_.End(first), ElementsAre(c_));
}

}  // namespace
}  // namespace reprise::native
