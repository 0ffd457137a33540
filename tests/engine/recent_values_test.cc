// Values of earlier steps are found by where they lie, and found again in later
// passes only where the same step made them.

#include "engine/recent_values.h"

#include <gtest/gtest.h>

#include <vector>

namespace reprise::engine {
namespace {

class RecentValuesTest : public testing::Test {
 protected:
  void Step(uint64_t fingerprint, std::vector<uint64_t> bases) {
    recents_.Push(fingerprint) = std::move(bases);
  }

  RecentValues recents_;
};

TEST_F(RecentValuesTest, NothingIsKnownAtFirst) {
  EXPECT_EQ(recents_.Find(0x1000), Source());
  EXPECT_EQ(recents_.Base({1, 0, 7}), 0u);
  EXPECT_EQ(recents_.Base(Source()), 0u);
}

TEST_F(RecentValuesTest, ValueIsNamedByItsStepAndItsPlaceThere) {
  Step(7, {0x1000, 0x2000});
  Step(8, {0x3000});
  EXPECT_EQ(recents_.Find(0x2000), (Source{2, 1, 7}));
  EXPECT_EQ(recents_.Find(0x3000), (Source{1, 0, 8}));
  EXPECT_EQ(recents_.Find(0x4000), Source());
}

TEST_F(RecentValuesTest, NewestValueAtAnAddressCounts) {
  Step(7, {0x1000});
  Step(8, {0x1000});
  EXPECT_EQ(recents_.Find(0x1000), (Source{1, 0, 8}));
}

TEST_F(RecentValuesTest, SourceLeadsToWhereTheValueLiesInALaterPass) {
  Step(7, {0x1000, 0x2000});
  Step(8, {0x3000});
  const Source source = recents_.Find(0x2000);
  Step(7, {0x1100, 0x2200});
  Step(8, {0x3300});
  EXPECT_EQ(recents_.Base(source), 0x2200u);
}

TEST_F(RecentValuesTest, SourceLeadsNowhereAfterOtherSteps) {
  Step(7, {0x1000, 0x2000});
  const Source source = recents_.Find(0x2000);
  Step(9, {0x4000, 0x5000});
  EXPECT_EQ(recents_.Base(source), 0u);
  // The step made fewer values this time.
  Step(7, {0x1000});
  EXPECT_EQ(recents_.Base(source), 0u);
}

// Externals have no base of their own, nor have tensors without memory: such a
// value is in no step.
TEST_F(RecentValuesTest, ValueWithoutMemoryHasNoSource) {
  Step(7, {0x1000, 0, 0x2000});
  EXPECT_EQ(recents_.Find(0), Source());
}

TEST_F(RecentValuesTest, OldStepsAreForgotten) {
  Step(7, {0x1000});
  uint32_t steps = 1;
  while (recents_.Find(0x1000) != Source()) {
    EXPECT_EQ(recents_.Find(0x1000).steps_ago, steps);
    ASSERT_LT(steps, 1000u);
    Step(8, {0x2000 + uint64_t{steps++} * 0x1000});
  }
  // As many steps as are kept, the newest all there.
  for (uint32_t ago = 1; ago < steps; ++ago) {
    const uint64_t base = 0x2000 + uint64_t{steps - ago} * 0x1000;
    EXPECT_EQ(recents_.Find(base), (Source{ago, 0, 8}));
    EXPECT_EQ(recents_.Base({ago, 0, 8}), base);
  }
}

TEST_F(RecentValuesTest, ClearForgetsAll) {
  Step(7, {0x1000});
  const Source source = recents_.Find(0x1000);
  recents_.Clear();
  EXPECT_EQ(recents_.Find(0x1000), Source());
  EXPECT_EQ(recents_.Base(source), 0u);
}

}  // namespace
}  // namespace reprise::engine
