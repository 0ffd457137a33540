// The cost model: what it costs to change arguments, and when to go over to
// another way of doing so.

#include "bindings/native/patch_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

namespace reprise::native {
namespace {

using ::testing::HasSubstr;

constexpr PatchCosts kCosts{.set = 200,
                            .table = 400,
                            .table_byte = 0.25,
                            .stage = 100,
                            .update = 1000,
                            .update_node = 100,
                            .build_node = 10'000};
constexpr PatchShape kShape{
    .launches = 64, .in_table = 64, .table_bytes = 2048};
constexpr PatchShape kNoTable{.launches = 64};

// Replays until it goes over; nothing if it does not in a thousand.
std::optional<Patching> GoesOver(PatchPolicy& policy, Patching now,
                                 size_t changed, const PatchShape& shape,
                                 int* replays = nullptr) {
  for (int i = 0; i < 1000; ++i) {
    policy.Saw(changed);
    const auto better = policy.Better(now, kCosts, shape);
    if (!better.has_value()) continue;
    if (replays != nullptr) *replays = i + 1;
    return better;
  }
  return std::nullopt;
}

TEST(PatchPolicyTest, CostsAreWhatIsCalled) {
  EXPECT_EQ(CostOf(Patching::kSetParams, kCosts, kShape, 64), 12'800);
  EXPECT_EQ(CostOf(Patching::kTable, kCosts, kShape, 64), 400 + 512);
  EXPECT_EQ(CostOf(Patching::kExecUpdate, kCosts, kShape, 64),
            6400 + 1000 + 6400);
  for (const Patching one :
       {Patching::kSetParams, Patching::kTable, Patching::kExecUpdate}) {
    EXPECT_EQ(CostOf(one, kCosts, kShape, 0), 0);
  }
  // Half of the launches in the table, one in four replays changes one launch.
  const PatchShape half{.launches = 64, .in_table = 32, .table_bytes = 1024};
  EXPECT_EQ(CostOf(Patching::kTable, kCosts, half, 0.25),
            0.125 * 200 + 0.125 * (400 + 256));
}

TEST(PatchPolicyTest, ManyChangesGoIntoATable) {
  PatchPolicy policy;
  int replays = 0;
  EXPECT_EQ(GoesOver(policy, Patching::kSetParams, 64, kShape, &replays),
            Patching::kTable);
  // As soon as a graph has been lost: 640 us at about 12 us a replay.
  EXPECT_GT(replays, 50);
  EXPECT_LT(replays, 60);
  EXPECT_EQ(GoesOver(policy, Patching::kTable, 64, kShape), std::nullopt);
}

TEST(PatchPolicyTest, FewChangesStay) {
  PatchPolicy policy;
  EXPECT_EQ(GoesOver(policy, Patching::kSetParams, 1, kShape), std::nullopt);
  EXPECT_EQ(GoesOver(policy, Patching::kSetParams, 0, kShape), std::nullopt);
  EXPECT_EQ(GoesOver(policy, Patching::kTable, 0, kShape), std::nullopt);
}

TEST(PatchPolicyTest, GoesBackWhenLittleChanges) {
  PatchPolicy policy;
  EXPECT_EQ(GoesOver(policy, Patching::kTable, 1, kShape),
            Patching::kSetParams);
}

TEST(PatchPolicyTest, NothingIsWonWithoutATable) {
  PatchPolicy policy;
  EXPECT_EQ(GoesOver(policy, Patching::kSetParams, 64, kNoTable), std::nullopt);
  EXPECT_EQ(GoesOver(policy, Patching::kExecUpdate, 2, kNoTable),
            Patching::kSetParams);
}

TEST(PatchPolicyTest, SaysWhy) {
  const std::string why =
      PatchPolicy::Explain(Patching::kTable, kCosts, kShape, 64);
  EXPECT_THAT(why, HasSubstr("64 of 64 launches change a replay: a table "
                             "0.91 us, SetParams 12.80 us"));
}

}  // namespace
}  // namespace reprise::native
