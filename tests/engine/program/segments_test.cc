// Where a plan is cut, and which segments wait for their op.

#include "engine/program/segments.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/engine/fake_frontend.h"
#include "tests/engine/trace_builder.h"

namespace reprise::engine {
namespace {

class SegmentsTest : public testing::Test {
 protected:
  // A chain of `ops` ops of one launch each, beginning with an external.
  ValueId Chain(uint32_t ops) {
    ValueId value = builder_.External();
    for (uint32_t i = 0; i < ops; ++i) value = builder_.Op({value}, {}, 1);
    return value;
  }

  std::vector<Segment> Cut(const std::vector<ValueId>& inputs = {},
                           const SegmentSize& enough = {4, ~uint64_t{0}}) {
    const Effects effects(&builder_.trace(), inputs, {},
                          Effects::Remake::kWhatLasts);
    return CutSegments(
        effects, std::vector<SegmentSize>(builder_.ops(), {1, 100}), enough);
  }

  FakeFrontend frontend_;
  TraceBuilder builder_{&frontend_};
};

TEST_F(SegmentsTest, HoldAsManyLaunchesAsAsked) {
  Chain(10);
  const std::vector<Segment> segments = Cut();
  ASSERT_EQ(segments.size(), 3u);
  EXPECT_EQ(segments[1].first_op, 4u);
  EXPECT_EQ(segments[2].end_op, 10u);
  for (const Segment& segment : segments) EXPECT_FALSE(segment.gated);
}

TEST_F(SegmentsTest, MakeAsMuchAsAskedAndAtLeastOneLaunch) {
  Chain(7);
  const std::vector<Segment> segments = Cut({}, {4, 350});
  ASSERT_EQ(segments.size(), 3u);
  EXPECT_EQ(segments[1].first_op, 3u);
  EXPECT_EQ(segments[2].first_op, 6u);
  EXPECT_EQ(Cut({}, {4, 1}).size(), 7u);
}

TEST_F(SegmentsTest, OpsThatLaunchNothingAreNoSegment) {
  Chain(3);
  const Effects effects(&builder_.trace(), {}, {}, Effects::Remake::kWhatLasts);
  const std::vector<SegmentSize> ops = {{0, 500}, {0, 500}, {1, 500}};
  EXPECT_EQ(CutSegments(effects, ops, {4, 100}).size(), 1u);
}

TEST_F(SegmentsTest, LateExternalsAreWaitedFor) {
  const ValueId chain = Chain(2);
  const ValueId late = builder_.External();
  builder_.Op({chain, late}, {}, 1);
  const std::vector<Segment> segments = Cut({late});
  ASSERT_EQ(segments.size(), 2u);
  EXPECT_EQ(segments[1].first_op, 2u);
  EXPECT_TRUE(segments[1].gated);
}

TEST_F(SegmentsTest, OpsThatMayTrapAreWaitedFor) {
  const ValueId chain = Chain(2);
  builder_.Op({chain}, {}, 1);
  builder_.trace().ops[2].may_trap = true;
  Chain(1);
  const std::vector<Segment> segments = Cut();
  ASSERT_EQ(segments.size(), 2u);
  EXPECT_EQ(segments[1].first_op, 2u);
  EXPECT_TRUE(segments[1].gated);
}

// The program has asked for the head when the first segment is launched.
TEST_F(SegmentsTest, HeadWaitsForNothing) {
  const ValueId indices = builder_.External();
  builder_.Op({indices}, {}, 1);
  builder_.trace().ops[0].may_trap = true;
  const std::vector<Segment> segments = Cut();
  ASSERT_EQ(segments.size(), 1u);
  EXPECT_FALSE(segments[0].gated);
}

}  // namespace
}  // namespace reprise::engine
