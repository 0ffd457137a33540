// What an op may point into: operands, results and temporaries, and buffers
// that reuse each other's memory as one.

#include "engine/program/op_ranges.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/engine/fake_frontend.h"
#include "tests/engine/trace_builder.h"

namespace reprise::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// Where values and temporaries lie in the second recording.
constexpr uint64_t kShift = 0x20'0000'0000;
constexpr uint64_t kSizeBytes = 1024;
constexpr uint64_t kBuffer = 0x7f40'0000'0000;

class OpRangesTest : public testing::Test {
 protected:
  // a = f(x), in both recordings; `a` moves.
  OpRangesTest() {
    for (std::unique_ptr<Trace>* trace : {&first_, &second_}) {
      TraceBuilder builder(&frontend_, kSizeBytes);
      x_ = builder.External();
      a_ = builder.Op({x_}, {}, 1);
      *trace = builder.Take();
    }
    second_->values[a_].origin += kShift;
    place_bytes_ = {0, kSizeBytes};
  }

  // Numbered on from the values.
  ValueId Temporary(uint64_t address, uint64_t size_bytes) {
    first_->ops[0].temporaries.push_back({address, size_bytes});
    second_->ops[0].temporaries.push_back({address + kShift, size_bytes});
    place_bytes_.push_back(size_bytes);
    return static_cast<ValueId>(place_bytes_.size() - 1);
  }
  base::Result<OpRanges> Make() {
    return OpRanges::Of(*first_, *second_, 0, 2, place_bytes_);
  }
  // The range that begins in the value, or null.
  static const device::KnownRange* RangeOf(const OpRanges& ranges,
                                           ValueId value) {
    for (const device::KnownRange& range : ranges.ranges()) {
      if (ranges.owner(range.id).value == value) return &range;
    }
    return nullptr;
  }
  std::string Error() {
    const auto ranges = Make();
    return ranges ? "" : ranges.error().message();
  }

  FakeFrontend frontend_;
  std::unique_ptr<Trace> first_;
  std::unique_ptr<Trace> second_;
  std::vector<uint64_t> place_bytes_;
  ValueId x_, a_;
};

TEST_F(OpRangesTest, OperandsResultsAndTemporariesAreKnown) {
  const ValueId t = Temporary(kBuffer, 100);
  const auto ranges = Make();
  ASSERT_TRUE(ranges);
  EXPECT_THAT(ranges->ranges(), SizeIs(3));
  const device::KnownRange* x = RangeOf(*ranges, x_);
  ASSERT_NE(x, nullptr);
  EXPECT_EQ(x->first_address, TraceBuilder::AddressOf(x_));
  EXPECT_EQ(x->second_address, x->first_address);
  EXPECT_EQ(x->size_bytes, kSizeBytes);
  const device::KnownRange* a = RangeOf(*ranges, a_);
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(a->second_address, a->first_address + kShift);
  const device::KnownRange* temporary = RangeOf(*ranges, t);
  ASSERT_NE(temporary, nullptr);
  EXPECT_EQ(temporary->size_bytes, 512u);  // up to the end of its block
  EXPECT_THAT(place_bytes_, ElementsAre(0, kSizeBytes, 100));
}

TEST_F(OpRangesTest, EachViewOfAnExternalIsARange) {
  for (Trace* trace : {first_.get(), second_.get()}) {
    ValueRef view = trace->ops[0].operands[0];
    trace->ops[0].operands.push_back(view);  // the same one again
    view.offset_bytes = 256;
    trace->ops[0].operands.push_back(view);
  }
  const auto ranges = Make();
  ASSERT_TRUE(ranges);
  ASSERT_THAT(ranges->ranges(), SizeIs(3));
  EXPECT_EQ(ranges->owner(0).offset_bytes, 0u);
  EXPECT_EQ(ranges->owner(1).offset_bytes, 256u);
  EXPECT_EQ(ranges->ranges()[1].size_bytes, kSizeBytes - 256);
  EXPECT_EQ(ranges->owner(2).value, a_);
}

TEST_F(OpRangesTest, BuffersThatReuseMemoryAreOneOfTheResult) {
  const uint64_t origin = TraceBuilder::AddressOf(a_);
  Temporary(origin, 4096);
  Temporary(origin + 4096 - 512, 1024);
  const auto ranges = Make();
  ASSERT_TRUE(ranges);
  ASSERT_THAT(ranges->ranges(), SizeIs(2));
  EXPECT_EQ(ranges->owner(1).value, a_);
  EXPECT_EQ(ranges->ranges()[1].first_address, origin);
  EXPECT_EQ(ranges->ranges()[1].size_bytes, 4096u + 512);
  EXPECT_THAT(place_bytes_, ElementsAre(0, 4096 + 512, 4096, 1024));
}

TEST_F(OpRangesTest, AResultInTheMiddleOfABufferFails) {
  Temporary(TraceBuilder::AddressOf(a_) - 512, 4096);
  EXPECT_THAT(Error(), HasSubstr("the middle of a temporary buffer"));
}

TEST_F(OpRangesTest, WhatTheOpMadeMovesAndKeepsItsSize) {
  Temporary(kBuffer, 512);
  second_->ops[0].temporaries[0].size_bytes = 1024;
  EXPECT_THAT(Error(), HasSubstr("another size each time"));
  second_->ops[0].temporaries[0] = {kBuffer, 512};
  EXPECT_THAT(Error(), HasSubstr("buffer lay at the same address twice"));
  second_->ops[0].temporaries.clear();
  EXPECT_THAT(Error(), HasSubstr("used 1 temporary buffers, then 0"));
  second_->values[a_].origin = first_->values[a_].origin;
  EXPECT_THAT(Error(), HasSubstr("output lay at the same address twice"));
}

}  // namespace
}  // namespace reprise::engine
