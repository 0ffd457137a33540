#include "scheduler/memory_ranges.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

namespace reprise::scheduler {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::IsEmpty;

TEST(MemoryRangesTest, NothingIsInTheEmptyOne) {
  MemoryRanges ranges;
  EXPECT_FALSE(ranges.Overlap(0, ~uint64_t{0}));
  ranges.Add({8, 8});
  EXPECT_THAT(ranges.all(), IsEmpty());
}

TEST(MemoryRangesTest, WhatMeetsIsOneRange) {
  MemoryRanges ranges;
  ranges.Add({30, 40});
  ranges.Add({10, 20});
  EXPECT_THAT(ranges.all(),
              ElementsAre(MemoryRange{10, 20}, MemoryRange{30, 40}));
  ranges.Add({12, 18});
  EXPECT_EQ(ranges.size(), 2u);
  ranges.Add({20, 30});
  EXPECT_THAT(ranges.all(), ElementsAre(MemoryRange{10, 40}));
}

// Against a bit an address.
TEST(MemoryRangesTest, RandomOnesAreTheUnion) {
  constexpr uint64_t kEnd = 200;
  for (uint32_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    MemoryRanges ranges;
    std::vector<bool> in(kEnd, false);
    for (int i = 0; i < 12; ++i) {
      const uint64_t begin = random() % kEnd;
      const uint64_t end = begin + random() % (kEnd - begin) / 4;
      ranges.Add({begin, end});
      for (uint64_t a = begin; a < end; ++a) in[a] = true;
      std::vector<MemoryRange> expected;
      for (uint64_t a = 0; a < kEnd; ++a) {
        if (!in[a]) continue;
        if (a == 0 || !in[a - 1]) expected.push_back({a, a});
        expected.back().end = a + 1;
      }
      ASSERT_THAT(ranges.all(), ElementsAreArray(expected));
      for (uint64_t a = 0; a + 5 <= kEnd; ++a) {
        bool any = false;
        for (uint64_t k = a; k < a + 5; ++k) any = any || in[k];
        ASSERT_EQ(ranges.Overlap(a, a + 5), any) << a;
      }
    }
  }
}

}  // namespace
}  // namespace reprise::scheduler
