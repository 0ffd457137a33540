// Proves that memory which changes between two ops is found.

#include "engine/trace/seen_bytes.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <vector>

namespace reprise::engine {
namespace {

class SeenBytesTest : public ::testing::Test {
 protected:
  // [begin, end) of a storage, as a value.
  static SeenBytes::Place Of(const std::vector<char>& storage, ValueId value,
                             size_t begin, size_t end) {
    const auto base = reinterpret_cast<uint64_t>(storage.data());
    return {.value = value,
            .base = base,
            .size_bytes = storage.size(),
            .begin = base + begin,
            .end = base + end};
  }
  SeenBytes::Place All(ValueId value = 0) const {
    return Of(memory_, value, 0, memory_.size());
  }

  std::vector<char> memory_ = std::vector<char>(100'000, 'a');
  SeenBytes seen_;
};

TEST_F(SeenBytesTest, NothingIsKnownAtFirst) {
  EXPECT_FALSE(seen_.Changed(All()));
}

TEST_F(SeenBytesTest, AChangedByteIsFound) {
  for (const size_t at : {size_t{0}, size_t{50'000}, memory_.size() - 1}) {
    seen_.Wrote(All());
    seen_.Note(All());
    EXPECT_FALSE(seen_.Changed(All()));
    ++memory_[at];
    EXPECT_TRUE(seen_.Changed(All())) << at;
  }
}

TEST_F(SeenBytesTest, WhatAnOpHasWrittenIsNoChange) {
  seen_.Note(All());
  std::memset(memory_.data(), 'b', memory_.size());
  seen_.Wrote(All());
  EXPECT_FALSE(seen_.Changed(All()));
  seen_.Note(All());
  memory_[7] = 'c';
  EXPECT_TRUE(seen_.Changed(All()));
}

// Two storages over one memory.
TEST_F(SeenBytesTest, WhatAnOpHasWrittenThroughAnotherValueIsNoChange) {
  seen_.Note(All(0));
  seen_.Note(All(1));
  memory_[99'999] = 'b';
  seen_.Wrote(Of(memory_, 1, 99'999, 100'000));
  EXPECT_FALSE(seen_.Changed(All(0)));
}

TEST_F(SeenBytesTest, WhatAnOpDoesNotUseIsNotLookedAt) {
  seen_.Note(All());
  memory_[99'999] = 'b';
  EXPECT_FALSE(seen_.Changed(Of(memory_, 0, 0, 100)));
  EXPECT_TRUE(seen_.Changed(Of(memory_, 0, 99'990, 100'000)));
}

TEST_F(SeenBytesTest, WhatNoOpHasUsedIsNotKnown) {
  seen_.Note(Of(memory_, 0, 0, 100));
  memory_[99'999] = 'b';
  EXPECT_FALSE(seen_.Changed(All()));
}

TEST_F(SeenBytesTest, MemoryThatLiesElsewhereIsNotCompared) {
  seen_.Note(All());
  std::vector<char> other(memory_.size(), 'x');
  EXPECT_FALSE(seen_.Changed(Of(other, 0, 0, other.size())));
  seen_.Note(Of(other, 0, 0, other.size()));
  other[0] = 'y';
  EXPECT_TRUE(seen_.Changed(Of(other, 0, 0, other.size())));
}

TEST_F(SeenBytesTest, NoMemoryIsNothing) {
  const SeenBytes::Place nothing = {.value = 3};
  seen_.Note(nothing);
  seen_.Wrote(nothing);
  EXPECT_FALSE(seen_.Changed(nothing));
}

}  // namespace
}  // namespace reprise::engine
