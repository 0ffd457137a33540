// Proves which ops are cuts, and when one is tried again.

#include "scheduler/cuts.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace reprise::scheduler {
namespace {

constexpr uint64_t kOp = 11;

TEST(CutsTest, AnOpIsNoCutUntilItIsLearned) {
  Cuts cuts;
  EXPECT_EQ(cuts.Why(kOp), nullptr);
  cuts.Learn(kOp, "waits");
  for (int i = 0; i < 100; ++i) {
    ASSERT_NE(cuts.Why(kOp), nullptr);
    EXPECT_EQ(*cuts.Why(kOp), "waits");
    EXPECT_TRUE(cuts.Contain(kOp));
  }
  EXPECT_FALSE(cuts.Contain(kOp + 1));
  EXPECT_EQ(cuts.Why(kOp + 1), nullptr);
}

TEST(CutsTest, ACutForNowIsTriedEverMoreRarely) {
  Cuts cuts;
  cuts.LearnForNow(kOp, "warned");
  std::vector<int> tried;
  for (int i = 0; i < 40; ++i) {
    const bool contained = cuts.Contain(kOp);
    const bool is_cut = cuts.Why(kOp) != nullptr;
    EXPECT_EQ(contained, is_cut) << i;
    if (is_cut) continue;
    tried.push_back(i);
    cuts.LearnForNow(kOp, "warned");
  }
  ASSERT_GE(tried.size(), 4u);
  for (size_t i = 2; i < tried.size(); ++i) {
    EXPECT_GT(tried[i] - tried[i - 1], tried[i - 1] - tried[i - 2]);
  }
}

TEST(CutsTest, OneThatWentWellWhenItWasTriedIsNoCut) {
  Cuts cuts;
  cuts.LearnForNow(kOp, "warned");
  int came = 0;
  while (cuts.Why(kOp) != nullptr) ASSERT_LT(++came, 100);
  cuts.Tried(kOp + 1);  // another one tells nothing of it
  cuts.Tried(kOp);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(cuts.Why(kOp), nullptr);
}

TEST(CutsTest, ForEverIsStrongerThanForNow) {
  Cuts cuts;
  cuts.Learn(kOp, "waits");
  cuts.LearnForNow(kOp, "warned");
  ASSERT_NE(cuts.Why(kOp), nullptr);
  EXPECT_EQ(*cuts.Why(kOp), "waits");
  cuts.Clear();
  EXPECT_EQ(cuts.Why(kOp), nullptr);
}

TEST(CutsTest, SoManyAreKeptAndTheOthersCounted) {
  Cuts cuts;
  for (uint64_t op = 0; op < 4100; ++op) cuts.Learn(op, "waits");
  EXPECT_EQ(cuts.forgotten(), 4u);
  EXPECT_EQ(cuts.Why(0), nullptr);
  EXPECT_NE(cuts.Why(4099), nullptr);
}

}  // namespace
}  // namespace reprise::scheduler
