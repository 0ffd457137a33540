// Proves whose turn it is.

#include "scheduler/turns.h"

#include <gtest/gtest.h>

#include <vector>

namespace reprise::scheduler {
namespace {

TEST(TurnsTest, WhatFailsRestsForTwiceAsManyEachTime) {
  Turns turns;
  std::vector<int> taken;
  for (int i = 0; i < 20; ++i) {
    if (!turns.Take()) continue;
    taken.push_back(i);
    turns.Fail();
  }
  EXPECT_EQ(taken, (std::vector<int>{0, 2, 5, 10, 19}));
  EXPECT_TRUE(turns.failed());
}

TEST(TurnsTest, WhatSucceedsTakesEachAgain) {
  Turns turns;
  EXPECT_TRUE(turns.Take());
  turns.Fail();
  EXPECT_FALSE(turns.Take());
  turns.Succeed();
  EXPECT_FALSE(turns.failed());
  EXPECT_TRUE(turns.Take());
  EXPECT_TRUE(turns.Take());
}

}  // namespace
}  // namespace reprise::scheduler
