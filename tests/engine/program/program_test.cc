// How a program is cut, and what that costs in launches.

#include "engine/program/program.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/program/effects.h"
#include "tests/engine/fake_frontend.h"
#include "tests/engine/trace_builder.h"

namespace reprise::engine {
namespace {

class ArrangeTest : public testing::Test {
 protected:
  static constexpr uint64_t kMiB = uint64_t{1} << 20;

  // A chain of ops of one launch, each of which makes so much.
  std::vector<Segment> Arranged(uint32_t ops, uint64_t made_bytes) {
    TraceBuilder builder(&frontend_, made_bytes);
    ValueId value = builder.External();
    for (uint32_t i = 0; i < ops; ++i) value = builder.Op({value}, {}, 1);
    Program program(builder.Take());
    program.effects =
        Effects(program.trace.get(), {}, {}, Effects::Remake::kWhatLasts);
    for (const Value& one : program.trace->values) {
      program.place_bytes.push_back(one.external ? 0 : one.size_bytes);
    }
    Arrangement how;
    how.launches.assign(ops, 1);
    how.segment_launches = 100;
    how.max_arena_bytes = ~uint64_t{0};
    EXPECT_TRUE(Arrange(program, *program.trace, how));
    return program.segments;
  }

  FakeFrontend frontend_;
};

TEST_F(ArrangeTest, SmallOpsAreCutByLaunchesAlone) {
  EXPECT_EQ(Arranged(250, kMiB / 64).size(), 3u);
}

TEST_F(ArrangeTest, LargeOpsAreCutForMemorysSakeOncePerTwentyOpsAtMost) {
  const size_t segments = Arranged(250, 40 * kMiB).size();
  EXPECT_GT(segments, 3u);
  EXPECT_LE(segments, 250u / 20u);
}

TEST_F(ArrangeTest, OpsWithoutMemoryAreCutByLaunchesAlone) {
  EXPECT_EQ(Arranged(120, 0).size(), 2u);
}

}  // namespace
}  // namespace reprise::engine
