// What was learned of a word holds for ops of its form and kernel, and is
// forgotten when there is too much of it.

#include "engine/program/unwritten_words.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>

namespace reprise::engine {
namespace {

TracedOp Op(uint64_t hash, uint64_t function = 0x10) {
  device::Launch launch;
  launch.function = reinterpret_cast<CUfunction>(function);
  launch.image.resize(64);
  TracedOp op;
  op.hash = hash;
  op.launches = {launch, std::move(launch)};
  return op;
}

TEST(UnwrittenWordsTest, HoldsForOneFormAndKernelAndPlace) {
  UnwrittenWords words;
  words.Learn(Op(1), {1, 16});
  EXPECT_TRUE(words.Knows(Op(1), {1, 16}));
  EXPECT_FALSE(words.Knows(Op(2), {1, 16}));
  EXPECT_FALSE(words.Knows(Op(1, 0x20), {1, 16}));
  EXPECT_FALSE(words.Knows(Op(1), {0, 16}));
  EXPECT_FALSE(words.Knows(Op(1), {1, 24}));
}

TEST(UnwrittenWordsTest, ForgetsWhatNobodyAskedForLongest) {
  UnwrittenWords words;
  words.Learn(Op(1), {0, 0});
  words.Learn(Op(2), {0, 0});
  for (uint64_t hash = 3; hash <= 16'384; ++hash) {
    words.Learn(Op(hash), {0, 0});
  }
  EXPECT_TRUE(words.Knows(Op(1), {0, 0}));
  words.Learn(Op(16'385), {0, 0});
  EXPECT_TRUE(words.Knows(Op(1), {0, 0}));
  EXPECT_FALSE(words.Knows(Op(2), {0, 0}));
}

}  // namespace
}  // namespace reprise::engine
