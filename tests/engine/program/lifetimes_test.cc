// From when on the memory of a value may be another's.

#include "engine/program/lifetimes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/engine/fake_frontend.h"
#include "tests/engine/trace_builder.h"

namespace reprise::engine {
namespace {

using ::testing::ElementsAre;

constexpr uint32_t kNever = Lifetimes::kNever;

class LifetimesTest : public testing::Test {
 protected:
  Trace& trace() { return builder_.trace(); }
  // In both recordings.
  void Dies(ValueId value, uint32_t before) {
    trace().values[value].dead_at = before;
  }
  Lifetimes LifetimesOf(std::vector<Segment> segments,
                        Effects::Remake remake = Effects::Remake::kWhatLasts) {
    const Effects effects(&trace(), {}, {}, remake);
    return Lifetimes::Of(trace(), trace(), effects, segments);
  }

  FakeFrontend frontend_;
  TraceBuilder builder_{&frontend_};
};

TEST_F(LifetimesTest, SegmentsAreLaunchedHalfWayThroughTheOneBefore) {
  for (int k = 0; k < 10; ++k) builder_.Op({}, {}, 1);
  EXPECT_THAT(LifetimesOf({{0, 4, 4}, {4, 7, 3}, {7, 8, 1, true}, {8, 10, 2}})
                  .launched_at,
              ElementsAre(0, 0, 0, 0, 2, 2, 2, 7, 8, 8));
}

TEST_F(LifetimesTest, AValueIsDoneWhereBothRecordingsSawItDie) {
  const ValueId x = builder_.External();
  const ValueId a = builder_.Op({x}, {}, 1);
  const ValueId b = builder_.Op({a}, {}, 1);
  builder_.Op({b}, {}, 1);
  builder_.Op({b}, {}, 1);
  Dies(x, 1);
  Dies(a, 2);
  Dies(b, 4);
  const std::vector<Segment> segments = {{0, 4, 4}};
  EXPECT_THAT(LifetimesOf(segments).free_from,
              ElementsAre(kNever, 2, 4, kNever, kNever));
  TraceBuilder other(&frontend_);
  const ValueId y = other.External();
  const ValueId c = other.Op({y}, {}, 1);
  const ValueId d = other.Op({c}, {}, 1);
  other.Op({d}, {}, 1);
  other.Op({d}, {}, 1);
  other.trace().values[c].dead_at = 3;
  const Effects effects(&trace(), {}, {}, Effects::Remake::kWhatLasts);
  EXPECT_THAT(
      Lifetimes::Of(trace(), other.trace(), effects, segments).free_from,
      ElementsAre(kNever, 3, kNever, kNever, kNever));
}

TEST_F(LifetimesTest, WhatLivesOnIsHeldUnlessItWasSeenToGoBeforeTheNextPass) {
  const ValueId x = builder_.External();
  const ValueId a = builder_.Op({x}, {}, 1);
  const ValueId b = builder_.Op({a}, {}, 1);
  builder_.Op({b}, {}, 1);
  Dies(a, 2);
  trace().values[b].held = false;
  const std::vector<Segment> segments = {{0, 3, 3}};
  EXPECT_THAT(LifetimesOf(segments).held,
              ElementsAre(false, false, false, true));
  const Effects effects(&trace(), {}, {}, Effects::Remake::kWhatLasts);
  const uint64_t bytes = trace().values[b].size_bytes;
  for (const bool small : {false, true}) {
    EXPECT_THAT(Lifetimes::Of(trace(), trace(), effects, segments,
                              small ? bytes + 1 : bytes)
                    .held,
                ElementsAre(false, false, small, true));
  }
}

// Where op 3 is undone, b is made again, from a.
TEST_F(LifetimesTest, WhatIsReadWhereAnOpIsUndoneIsNeededUntilItIsAskedFor) {
  const ValueId weight = builder_.External();
  const ValueId a = builder_.Op({weight}, {}, 1);
  const ValueId b = builder_.Op({a}, {}, 1);
  const ValueId c = builder_.Op({weight}, {}, 1);
  builder_.Op({c}, {b});
  builder_.Op({b}, {}, 1);
  Dies(a, 2);
  Dies(b, 5);
  Dies(c, 4);
  EXPECT_THAT(LifetimesOf({{0, 5, 5}}).free_from,
              ElementsAre(kNever, 4, 5, 4, kNever));
  // Where it waits for the program nothing undoes it.
  EXPECT_THAT(LifetimesOf({{0, 5, 5}}, Effects::Remake::kNothing).free_from,
              ElementsAre(kNever, 2, 5, 4, kNever));
}

// To make b again, a is, for it was written over since; that takes d.
TEST_F(LifetimesTest, SoIsWhatHasToBeMadeAgainForThat) {
  const ValueId weight = builder_.External();
  const ValueId d = builder_.Op({weight}, {}, 1);
  const ValueId a = builder_.Op({d}, {}, 1);
  const ValueId b = builder_.Op({a}, {}, 1);
  builder_.Op({}, {a});
  builder_.Op({}, {b});
  builder_.Op({b}, {}, 1);
  Dies(d, 2);
  Dies(a, 5);
  Dies(b, 6);
  EXPECT_THAT(LifetimesOf({{0, 6, 6}}).free_from,
              ElementsAre(kNever, 5, 5, 6, kNever));
}

}  // namespace
}  // namespace reprise::engine
