// The cost model: what it costs to change arguments, and when to go over to
// another way of doing so.

#include "scheduler/patch_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <optional>

namespace reprise::scheduler {
namespace {

using base::Patching;

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

constexpr PatchShape kSmall{.launches = 6, .in_table = 6, .table_bytes = 256};

// Costs with those of the device as an H200 has them.
constexpr PatchCosts kDeviceToo = [] {
  PatchCosts costs = kCosts;
  costs.device_table = 2000;
  costs.device_read = 100;
  return costs;
}();

// Replays until it goes over; nothing if it does not in ten thousand.
std::optional<Patching> GoesOver(PatchPolicy& policy, Patching now,
                                 size_t changed, const PatchShape& shape,
                                 int* replays = nullptr,
                                 const PatchCosts& costs = kCosts,
                                 bool busy = false) {
  for (int i = 0; i < 10'000; ++i) {
    if (policy.AsksForStream()) policy.SawStream(busy);
    policy.Saw(changed);
    const auto better = policy.Better(now, costs, shape);
    if (!better.has_value()) continue;
    if (replays != nullptr) *replays = i + 1;
    return better;
  }
  return std::nullopt;
}

TEST(PatchPolicyTest, CostsAreWhatIsCalled) {
  EXPECT_EQ(ThreadCostOf(Patching::kSetParams, kCosts, kShape, 64), 12'800);
  EXPECT_EQ(ThreadCostOf(Patching::kTable, kCosts, kShape, 64), 400 + 512);
  EXPECT_EQ(ThreadCostOf(Patching::kExecUpdate, kCosts, kShape, 64),
            6400 + 1000 + 6400);
  for (const Patching one :
       {Patching::kSetParams, Patching::kTable, Patching::kExecUpdate}) {
    EXPECT_EQ(ThreadCostOf(one, kCosts, kShape, 0), 0);
  }
  // Half of the launches in the table, one in four replays changes one launch.
  const PatchShape half{.launches = 64, .in_table = 32, .table_bytes = 1024};
  EXPECT_EQ(ThreadCostOf(Patching::kTable, kCosts, half, 0.25),
            0.125 * 200 + 0.125 * (400 + 256));
}

// Launches read the table whether or not it was written.
TEST(PatchPolicyTest, TablesCostTheDeviceWhereReplaysWaitForIt) {
  EXPECT_EQ(DeviceCostOf(Patching::kTable, kDeviceToo, kShape, 64),
            2000 + 6400);
  EXPECT_EQ(DeviceCostOf(Patching::kTable, kDeviceToo, kShape, 0), 6400);
  EXPECT_EQ(DeviceCostOf(Patching::kTable, kDeviceToo, kNoTable, 64), 0);
  for (const Patching one : {Patching::kSetParams, Patching::kExecUpdate}) {
    EXPECT_EQ(DeviceCostOf(one, kDeviceToo, kShape, 64), 0);
  }
  EXPECT_EQ(CostOf(Patching::kTable, kDeviceToo, kShape, {64, 0}), 912);
  EXPECT_EQ(CostOf(Patching::kTable, kDeviceToo, kShape, {64, 0.5}),
            912 + 4200);
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

// A few launches save the thread less than a table costs the device.
TEST(PatchPolicyTest, FewLaunchesThatWaitForTheDeviceStay) {
  PatchPolicy idle;
  EXPECT_EQ(GoesOver(idle, Patching::kSetParams, 4, kSmall, nullptr, kDeviceToo,
                     /*busy=*/false),
            Patching::kTable);
  PatchPolicy busy;
  EXPECT_EQ(GoesOver(busy, Patching::kSetParams, 4, kSmall, nullptr, kDeviceToo,
                     /*busy=*/true),
            std::nullopt);
  EXPECT_EQ(busy.use().busy, 1);
  PatchPolicy many;
  EXPECT_EQ(GoesOver(many, Patching::kSetParams, 64, kShape, nullptr,
                     kDeviceToo, /*busy=*/true),
            Patching::kTable);
}

// What a plan goes over to makes its stream wait, what it goes back to does
// not: it does not go to and fro for ever.
TEST(PatchPolicyTest, GoesToAndFroMoreAndMoreRarely) {
  PatchPolicy policy;
  Patching now = Patching::kSetParams;
  std::array<int, 4> replays{};
  for (int& before_a_move : replays) {
    const auto next = GoesOver(policy, now, 4, kSmall, &before_a_move,
                               kDeviceToo, now == Patching::kTable);
    ASSERT_TRUE(next.has_value());
    now = *next;
  }
  EXPECT_GT(replays[2], 2 * replays[0]);
  EXPECT_GT(replays[3], 2 * replays[1]);
}

TEST(PatchPolicyTest, LooksAtTheStreamNowAndThen) {
  PatchPolicy policy;
  int looks = 0;
  const auto replay = [&](size_t changed) {
    if (policy.AsksForStream()) {
      policy.SawStream(true);
      ++looks;
    }
    policy.Saw(changed);
  };
  for (int i = 0; i < 100; ++i) replay(0);
  EXPECT_EQ(looks, 0);
  for (int i = 0; i < 80; ++i) replay(1);
  EXPECT_EQ(looks, 10);
}

TEST(PatchPolicyTest, SaysWhy) {
  const std::string why =
      PatchPolicy::Explain(Patching::kTable, kCosts, kShape, {64, 0});
  EXPECT_THAT(why, HasSubstr("64 of 64 launches change a replay, 0 % of which "
                             "wait for the device: a table 0.91 us, SetParams "
                             "12.80 us"));
  EXPECT_THAT(
      PatchPolicy::Explain(Patching::kSetParams, kDeviceToo, kSmall, {4, 0.9}),
      HasSubstr("4 of 6 launches change a replay, 90 % of which wait for the "
                "device: SetParams 0.80 us, a table 0.46 us and 2.60 us of "
                "the device"));
}

}  // namespace
}  // namespace reprise::scheduler
