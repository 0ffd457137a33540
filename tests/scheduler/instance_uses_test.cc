// Proves what is known of a plan's instances.

#include "scheduler/instance_uses.h"

#include <gtest/gtest.h>

namespace reprise::scheduler {
namespace {

TEST(InstanceUsesTest, TwoValidationsMakeAnInstanceUsable) {
  InstanceUses uses;
  uses.Begin({.bytes = 8});
  EXPECT_FALSE(uses.any_usable());
  uses.Validated(0);
  EXPECT_FALSE(uses[0].usable());
  uses.Validated(0);
  EXPECT_TRUE(uses[0].usable());
  EXPECT_TRUE(uses.any_usable());
  uses.TrustNone();
  EXPECT_FALSE(uses.any_usable());
}

TEST(InstanceUsesTest, SumsAreThoseOfAll) {
  InstanceUses uses;
  uses.Begin({.bytes = 8});
  uses.Add({.bytes = 16, .shares = true});
  uses.Replayed(0, 1);
  uses.Replayed(1, 2);
  uses.Replayed(1, 3);
  EXPECT_EQ(uses.replays(), 3u);
  EXPECT_EQ(uses.bytes(), 24u);
  EXPECT_EQ(uses.front().last_replay, 1u);
  EXPECT_EQ(uses.back().last_replay, 3u);
  uses.Charge(1, 4);
  EXPECT_EQ(uses.bytes(), 28u);
  uses.Discharge(1, 4);
  uses.DropLast();
  EXPECT_EQ(uses.bytes(), 8u);
  EXPECT_EQ(uses.replays(), 1u);
}

TEST(InstanceUsesTest, TheSecondGoesOnForTheFirst) {
  InstanceUses uses;
  uses.Begin({.bytes = 8});
  for (int i = 0; i < 2; ++i) uses.Validated(0);
  uses.Replayed(0, 1);
  uses.Add({.bytes = 16});
  uses.Validated(1);
  uses.Replayed(1, 2);
  uses.DropFirst();
  ASSERT_EQ(uses.size(), 1u);
  EXPECT_EQ(uses[0].bytes, 16u);
  EXPECT_EQ(uses[0].validations, 3u);
  EXPECT_EQ(uses[0].replays, 2u);
  EXPECT_EQ(uses[0].last_replay, 2u);
}

TEST(InstanceUsesTest, AnotherPlanBeginsAnew) {
  InstanceUses uses;
  uses.Begin({.bytes = 8});
  uses.SetComplete();
  uses.Replayed(0, 1);
  uses.Begin({.bytes = 4});
  EXPECT_FALSE(uses.complete());
  EXPECT_EQ(uses.replays(), 0u);
  EXPECT_EQ(uses.bytes(), 4u);
}

}  // namespace
}  // namespace reprise::scheduler
