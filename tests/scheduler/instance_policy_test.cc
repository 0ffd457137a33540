// What another instance may cost, and what it has to save.

#include "scheduler/instance_policy.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace reprise::scheduler {
namespace {

constexpr uint64_t kMiB = 1 << 20;

TEST(InstancePolicyTest, FewOutputsEscapeHoweverLargeTheyAre) {
  EXPECT_FALSE(AnotherInstancePays(1, 100 * kMiB, 100 * kMiB));
  EXPECT_FALSE(
      AnotherInstancePays(kFewestHeldOutputs - 1, 100 * kMiB, 100 * kMiB));
  EXPECT_TRUE(AnotherInstancePays(kFewestHeldOutputs, 100 * kMiB, 100 * kMiB));
}

TEST(InstancePolicyTest, MoreOutputsJustifyMoreMemory) {
  const uint64_t held_bytes = 2 * kMiB;
  for (const uint32_t held : {4u, 13u, 100u}) {
    const uint64_t most = held_bytes + held * kBytesAHeldOutput;
    EXPECT_TRUE(AnotherInstancePays(held, held_bytes, most)) << held;
    EXPECT_FALSE(AnotherInstancePays(held, held_bytes, most + 1)) << held;
  }
}

TEST(InstancePolicyTest, MemoryThatEscapingTakesAnywayIsNotCounted) {
  const uint64_t instance_bytes = 400 * kMiB;
  EXPECT_FALSE(AnotherInstancePays(8, 0, instance_bytes));
  EXPECT_TRUE(AnotherInstancePays(8, 390 * kMiB, instance_bytes));
}

}  // namespace
}  // namespace reprise::scheduler
