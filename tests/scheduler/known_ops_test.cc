// Proves which passes of a trace that is known are watched all the same.

#include "scheduler/known_ops.h"

#include <gtest/gtest.h>

namespace reprise::scheduler {
namespace {

TEST(KnownOpsTest, AllPassesAreWatchedUntilTheOpsAreKnown) {
  KnownOps ops;
  for (int i = 0; i < 40; ++i) EXPECT_FALSE(ops.MayPass());
  ops.Know({1, 2});
  EXPECT_TRUE(ops.MayPass());
  ops.Forget();
  EXPECT_FALSE(ops.known());
  EXPECT_FALSE(ops.MayPass());
}

TEST(KnownOpsTest, OnePassInSixteenIsWatched) {
  KnownOps ops;
  ops.Know({1, 2});
  int watched = 0;
  for (int i = 0; i < 160; ++i) watched += ops.MayPass() ? 0 : 1;
  EXPECT_EQ(watched, 10);
}

TEST(KnownOpsTest, FourAreWatchedBehindALeaving) {
  KnownOps ops;
  ops.Know({1, 2});
  ops.WatchNext();
  for (int i = 0; i < 4; ++i) EXPECT_FALSE(ops.MayPass());
  EXPECT_TRUE(ops.MayPass());
}

}  // namespace
}  // namespace reprise::scheduler
