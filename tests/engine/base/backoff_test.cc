// Proves when what has failed is tried again.

#include "engine/base/backoff.h"

#include <gtest/gtest.h>

#include <vector>

namespace reprise::base {
namespace {

constexpr Backoff::Schedule kSchedule = {
    .first = 1, .factor = 2, .longest = 16, .forgives_after = 3};

// The times at which something that always fails is tried, of [0, end).
std::vector<Backoff::Time> Tried(const Backoff::Schedule& schedule,
                                 Backoff::Time end) {
  Backoff backoff(schedule);
  std::vector<Backoff::Time> tried;
  for (Backoff::Time now = 0; now < end; ++now) {
    if (!backoff.Ready(now)) continue;
    tried.push_back(now);
    backoff.Fail(now);
  }
  return tried;
}

TEST(BackoffTest, TriesEverMoreRarelyWithinABound) {
  EXPECT_EQ(Tried(kSchedule, 64),
            (std::vector<Backoff::Time>{0, 1, 3, 7, 15, 31, 47, 63}));
  EXPECT_EQ(Tried({.first = 5, .factor = 1, .longest = 5}, 16),
            (std::vector<Backoff::Time>{0, 5, 10, 15}));
}

TEST(BackoffTest, WhatNeverFailedIsAlwaysReady) {
  const Backoff backoff(kSchedule);
  EXPECT_TRUE(backoff.Ready(0));
  EXPECT_FALSE(backoff.failed());
}

TEST(BackoffTest, ForgivesAfterSuccessesInARow) {
  Backoff backoff(kSchedule);
  backoff.Fail(0);
  backoff.Fail(1);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(backoff.failed()) << i;
    backoff.Succeed();
  }
  EXPECT_FALSE(backoff.failed());
  // The waits begin anew.
  backoff.Fail(100);
  EXPECT_FALSE(backoff.Ready(100));
  EXPECT_TRUE(backoff.Ready(101));
}

TEST(BackoffTest, WhatFailsEveryOtherTimeIsTriedEverMoreRarely) {
  Backoff backoff(kSchedule);
  int failures = 0;
  bool fails = true;
  for (Backoff::Time now = 0; now < 1000; ++now) {
    if (!backoff.Ready(now)) continue;
    fails ? backoff.Fail(now) : backoff.Succeed();
    failures += fails;
    fails = !fails;
  }
  // One in seventeen: a wait of sixteen, and a success.
  EXPECT_LT(failures, 1000 / 16 + 8);
  EXPECT_GT(failures, 1000 / 18);
}

}  // namespace
}  // namespace reprise::base
