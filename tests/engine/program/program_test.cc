// How a program is cut, and what that costs in launches; what ops that run side
// by side cost in memory.

#include "engine/program/program.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
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

// Two chains, one behind the other in the program, of values that are dropped
// at once.
class LanesTest : public ArrangeTest {
 protected:
  std::unique_ptr<Program> Arranged(uint64_t made_bytes,
                                    std::vector<Reach> reach,
                                    uint64_t max_arena_bytes = ~uint64_t{0}) {
    TraceBuilder builder(&frontend_, made_bytes);
    for (int tower = 0; tower < 2; ++tower) {
      ValueId value = builder.External();
      for (uint32_t i = 0; i < kOps; ++i) {
        value = builder.Op({value}, {}, 1);
        builder.trace().values[value].dead_at = builder.ops() + 1;
      }
      builder.trace().ops.back().temporaries = {{0x1000, made_bytes}};
    }
    auto program = std::make_unique<Program>(builder.Take());
    const Trace& trace = *program->trace;
    program->effects = Effects(&trace, {}, {}, Effects::Remake::kWhatLasts);
    for (const Value& one : trace.values) {
      program->place_bytes.push_back(one.external ? 0 : one.size_bytes);
    }
    for (int tower = 0; tower < 2; ++tower) {
      program->place_bytes.push_back(made_bytes);
    }
    EXPECT_TRUE(Arrange(*program, trace,
                        {.launches = std::vector<uint32_t>(2 * kOps, 1),
                         .reach = std::move(reach),
                         .segment_launches = 1,
                         .max_arena_bytes = max_arena_bytes,
                         .lanes_bytes = 16 * kMiB}));
    return program;
  }
  // Ops of the second chain that wait for one of the first.
  static int Waiting(const Program& program) {
    const auto waits = program.branches.Waits(0, 2 * kOps);
    int waiting = 0;
    for (uint32_t k = kOps; k < 2 * kOps; ++k) {
      for (const uint32_t op : waits[k]) waiting += op < kOps ? 1 : 0;
    }
    return waiting;
  }

  static constexpr uint32_t kOps = 20;
  const std::vector<Reach> all_known_ = std::vector<Reach>(2 * kOps);
};

TEST_F(LanesTest, ValuesOfSeveralSharePlacesWhereTheyWouldTakeMuchMore) {
  const auto small = Arranged(kMiB / 8, all_known_);
  EXPECT_EQ(small->branches.size(), 2u);
  EXPECT_EQ(Waiting(*small), 0);
  const auto large = Arranged(16 * kMiB, all_known_);
  EXPECT_EQ(large->branches.size(), 2u);
  EXPECT_GT(Waiting(*large), 0);
  const auto line = Arranged(16 * kMiB, {});
  EXPECT_EQ(line->branches.size(), 1u);
  // Their temporaries are too large for zones of their own.
  EXPECT_EQ(large->layout.size_bytes, line->layout.size_bytes);
}

TEST_F(LanesTest, TakeNoMoreMemoryThanThereMayBe) {
  const auto line = Arranged(kMiB / 8, {});
  const auto tight = Arranged(kMiB / 8, all_known_, line->layout.size_bytes);
  EXPECT_EQ(tight->layout.size_bytes, line->layout.size_bytes);
  EXPECT_GT(Waiting(*tight), 0);
}

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
