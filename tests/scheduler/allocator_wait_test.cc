#include "scheduler/allocator_wait.h"

#include <gtest/gtest.h>

namespace reprise::scheduler {
namespace {

TEST(AllocatorWaitTest, WhoFollowsMayBeWaitedForUntilTheReplayEnds) {
  AllocatorWait wait;
  EXPECT_FALSE(wait.MayWait());
  wait.BeginFollowing();
  EXPECT_TRUE(wait.MayWait());
  wait.EndFollowing();
  EXPECT_FALSE(wait.MayWait());
}

TEST(AllocatorWaitTest, WhoMayWaitForTheAllocatorIsNotWaitedFor) {
  AllocatorWait wait;
  wait.SetMayAllocate(true);
  wait.BeginFollowing();
  EXPECT_FALSE(wait.MayWait());
  wait.SetMayAllocate(false);
  EXPECT_TRUE(wait.MayWait());
}

}  // namespace
}  // namespace reprise::scheduler
