// Runs of bytes against a naive walk over the elements.

#include "kernels/byte_runs.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

#include "kernels/strided_layout.h"
#include "tests/kernels/random_layout.h"

namespace reprise::kernels {
namespace {

TEST(ByteRunsTest, RunsCoverExactlyTheBytesOfTheElements) {
  std::mt19937 random(3);
  for (int round = 0; round < 3000; ++round) {
    const Layout layout = RandomLayout(random);
    const ByteRuns runs = ByteRunsOf(layout);
    const int64_t span = SpanBytes(layout);
    std::vector<bool> covered(span);
    for (int64_t i = 0; i < runs.runs(); ++i) {
      int64_t rest = i;
      int64_t offset = 0;
      for (int d = 0; d < runs.rank; ++d) {
        offset += rest % runs.sizes[d] * runs.strides_bytes[d];
        rest /= runs.sizes[d];
      }
      for (int64_t b = 0; b < runs.run_bytes; ++b)
        covered.at(offset + b) = true;
    }
    EXPECT_EQ(covered, BytesOf(layout, span));
  }
}

TEST(ByteRunsTest, ContiguousAndPermutedTensorsAreOneRun) {
  EXPECT_EQ(ByteRunsOf(Strided(4, {2, 3, 5}, {15, 5, 1})).run_bytes, 120);
  EXPECT_EQ(ByteRunsOf(Strided(4, {2, 3, 5}, {1, 2, 6})).run_bytes, 120);
  EXPECT_EQ(ByteRunsOf(Strided(2, {1, 8, 1}, {99, 1, 77})).run_bytes, 16);
}

TEST(ByteRunsTest, GapsEndARunAndFurtherDimensionsFold) {
  const ByteRuns runs = ByteRunsOf(Strided(4, {2, 3, 5}, {24, 8, 1}));
  EXPECT_EQ(runs.run_bytes, 20);
  EXPECT_EQ(runs.rank, 1);
  EXPECT_EQ(runs.sizes[0], 6);
  EXPECT_EQ(runs.strides_bytes[0], 32);
}

TEST(IsDenseTest, TellsGapsOverlapAndExpansion) {
  EXPECT_TRUE(IsDense(Strided(4, {}, {})));
  EXPECT_TRUE(IsDense(Strided(4, {0, 3}, {3, 1})));
  EXPECT_TRUE(IsDense(Strided(4, {2, 3}, {3, 1})));
  EXPECT_TRUE(IsDense(Strided(4, {2, 3}, {1, 2})));
  EXPECT_TRUE(IsDense(Strided(4, {2, 1, 3}, {3, 100, 1})));
  EXPECT_FALSE(IsDense(Strided(4, {2, 3}, {4, 1})));
  EXPECT_FALSE(IsDense(Strided(4, {2, 3}, {0, 1})));
  EXPECT_FALSE(IsDense(Strided(4, {2, 2}, {1, 1})));
  EXPECT_FALSE(IsDense(Strided(4, {3}, {2})));
}

}  // namespace
}  // namespace reprise::kernels
