// Where values lie: in places that start where a kernel may expect it, one
// after the other where their lifetimes allow it, temporaries of different ops
// in one zone, nothing outside.

#include "engine/program/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "tests/engine/fake_frontend.h"
#include "tests/engine/trace_builder.h"

namespace reprise::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Each value and temporary takes just its own bytes.
std::vector<uint64_t> Bytes(const Trace& trace) {
  std::vector<uint64_t> bytes;
  for (const Value& value : trace.values) bytes.push_back(value.size_bytes);
  for (const TracedOp& op : trace.ops) {
    for (const Allocation& temporary : op.temporaries) {
      bytes.push_back(temporary.size_bytes);
    }
  }
  return bytes;
}

Lifetimes AllLive(const Trace& trace) {
  return {std::vector<uint32_t>(trace.ops.size(), 0),
          std::vector<uint32_t>(trace.values.size(), Lifetimes::kNever),
          std::vector<bool>(trace.values.size(), true)};
}

class LayoutTest : public testing::Test {
 protected:
  Trace& trace() { return builder_.trace(); }

  FakeFrontend frontend_;
  TraceBuilder builder_{&frontend_};
};

TEST_F(LayoutTest, EmptyTraceNeedsNoMemory) {
  const ArenaLayout layout = LayOut(trace(), Bytes(trace()), AllLive(trace()));
  EXPECT_EQ(layout.size_bytes, 0u);
  EXPECT_THAT(layout.places, IsEmpty());
}

TEST_F(LayoutTest, ValuesFollowEachOtherInWholeSteps) {
  const ValueId x = builder_.External();
  const ValueId a = builder_.Op({x}, {}, 3);
  trace().values[a].size_bytes = 1;
  trace().values[a + 1].size_bytes = kPlaceAlignment;
  trace().values[a + 2].size_bytes = kPlaceAlignment + 1;
  const ArenaLayout layout = LayOut(trace(), Bytes(trace()), AllLive(trace()));
  EXPECT_THAT(layout.places,
              ElementsAre(kNoPlace, 0, kPlaceAlignment, 2 * kPlaceAlignment));
  EXPECT_EQ(layout.size_bytes, 4 * kPlaceAlignment);
}

// An empty tensor has an address too, and no other tensor may have it.
TEST_F(LayoutTest, EmptyValuesHavePlacesOfTheirOwn) {
  const ValueId a = builder_.Op({}, {}, 2);
  trace().values[a].size_bytes = 0;
  trace().values[a + 1].size_bytes = 0;
  const ArenaLayout layout = LayOut(trace(), Bytes(trace()), AllLive(trace()));
  EXPECT_NE(layout.places[a], layout.places[a + 1]);
  EXPECT_GT(layout.size_bytes, layout.places[a + 1]);
}

TEST_F(LayoutTest, TemporariesOfAnOpLieBehindAllValuesAndAreSharedByOps) {
  const ValueId a = builder_.Op({}, {}, 1);
  builder_.Op({a}, {}, 1);
  builder_.Op({a}, {});
  trace().ops[0].temporaries = {{0x1000, 10}, {0x2000, 600}};
  trace().ops[2].temporaries = {{0x3000, 2000}};
  const ArenaLayout layout = LayOut(trace(), Bytes(trace()), AllLive(trace()));
  const uint64_t zone = 2 * kPlaceAlignment;
  EXPECT_THAT(layout.temporaries,
              ElementsAre(ElementsAre(zone, zone + kPlaceAlignment), IsEmpty(),
                          ElementsAre(zone)));
  EXPECT_EQ(layout.size_bytes, zone + 4 * kPlaceAlignment);
}

TEST_F(LayoutTest, EachLaneHasAZoneForTemporariesButForLargeOnes) {
  for (int i = 0; i < 4; ++i) builder_.Op({}, {});
  trace().ops[0].temporaries = {{0x1000, 600}};
  trace().ops[1].temporaries = {{0x2000, 10}, {0x3000, 10}};
  trace().ops[2].temporaries = {{0x4000, 2000}};
  trace().ops[3].temporaries = {{0x5000, 10}};
  const std::vector<uint8_t> lanes = {0, 2, 1, 2};
  const auto laid_out = [&](uint64_t zone_bytes) {
    return LayOut(trace(), Bytes(trace()), AllLive(trace()),
                  {.of_ops = lanes, .zone_bytes = zone_bytes});
  };
  constexpr uint64_t kStep = kPlaceAlignment;
  ArenaLayout layout = laid_out(8 * kStep);
  EXPECT_THAT(layout.temporaries,
              ElementsAre(ElementsAre(0), ElementsAre(6 * kStep, 7 * kStep),
                          ElementsAre(2 * kStep), ElementsAre(6 * kStep)));
  EXPECT_EQ(layout.size_bytes, 8 * kStep);
  layout = laid_out(2 * kStep);
  EXPECT_THAT(layout.temporaries,
              ElementsAre(ElementsAre(0), ElementsAre(4 * kStep, 5 * kStep),
                          ElementsAre(0), ElementsAre(4 * kStep)));
  EXPECT_EQ(layout.size_bytes, 6 * kStep);
}

TEST_F(LayoutTest, ValuesFollowOnlyThoseThatTheyMay) {
  for (int i = 0; i < 3; ++i) builder_.Op({}, {}, 1);
  const Lifetimes lifetimes{{0, 1, 2}, {1, 2, 3}, std::vector<bool>(3, false)};
  Lanes lanes;
  const auto places = [&] {
    return LayOut(trace(), Bytes(trace()), lifetimes, lanes).places;
  };
  EXPECT_THAT(places(), ElementsAre(0, 0, 0));
  lanes.may_follow = [](ValueId earlier, ValueId later) {
    return earlier == 0 && later == 2;
  };
  EXPECT_THAT(places(), ElementsAre(0, kPlaceAlignment, 0));
}

TEST_F(LayoutTest, ValuesFollowThoseThatAreDone) {
  const ValueId a = builder_.Op({}, {}, 1);
  const ValueId b = builder_.Op({a}, {}, 1);
  const ValueId c = builder_.Op({b}, {}, 1);
  const ValueId d = builder_.Op({c}, {}, 1);
  for (const ValueId v : {a, b, c, d}) trace().values[v].size_bytes = 600;
  trace().values[c].size_bytes = 100;
  const std::vector<bool> none(4, false);
  Lifetimes lifetimes{{0, 1, 2, 3}, {2, 3, 4, 5}, none};
  const auto places = [&] {
    return LayOut(trace(), Bytes(trace()), lifetimes).places;
  };
  constexpr uint64_t kStep = 2 * kPlaceAlignment;
  EXPECT_THAT(places(), ElementsAre(0, kStep, 0, kPlaceAlignment));
  // Launched too early to follow; then with room behind the last one.
  lifetimes.launched_at = {0, 1, 1, 3};
  EXPECT_THAT(places(), ElementsAre(0, kStep, 2 * kStep, 0));
  lifetimes = {{0, 1, 2, 3}, {2, 4, 3, 5}, none};
  trace().values[d].size_bytes = 1500;
  EXPECT_THAT(places(), ElementsAre(0, 3 * kPlaceAlignment, 0, 0));
  lifetimes.free_from[b] = 3;
  EXPECT_THAT(places(), ElementsAre(0, kStep, 0, 0));
  EXPECT_EQ(LayOut(trace(), Bytes(trace()), lifetimes).size_bytes, 2 * kStep);
  // Alive behind the pass, until the next one begins and for longer.
  lifetimes.free_from[d] = Lifetimes::kNever;
  EXPECT_THAT(places(), ElementsAre(0, kStep, 0, 0));
  lifetimes.held[d] = true;
  EXPECT_THAT(places(),
              ElementsAre(3 * kPlaceAlignment, 3 * kPlaceAlignment + kStep,
                          3 * kPlaceAlignment, 0));
}

// As they come, the second one lies behind the first, and the third one, which
// has more than the first one's place left, behind the second.
TEST_F(LayoutTest, TheLargestComesFirstWhereThatTakesLess) {
  const std::vector<uint64_t> steps = {4, 1, 6};
  for (ValueId v = 0; v < 3; ++v) {
    builder_.Op({}, {}, 1);
    trace().values[v].size_bytes = steps[v] * kPlaceAlignment;
  }
  const Lifetimes lifetimes{{0, 1, 2}, {2, 5, 5}, std::vector<bool>(3, false)};
  EXPECT_EQ(LayOut(trace(), Bytes(trace()), lifetimes).size_bytes,
            7 * kPlaceAlignment);
}

TEST_F(LayoutTest, RandomTracesOverlapNowhereThatIsUsedAtOnce) {
  int followers = 0;
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    TraceBuilder builder(&frontend_);
    for (uint32_t k = random() % 12; k > 0; --k) {
      if (random() % 2 == 0) builder.External();
      builder.Op({}, {}, random() % 4);
    }
    Trace& trace = builder.trace();
    for (Value& value : trace.values) value.size_bytes = random() % 3000;
    for (TracedOp& op : trace.ops) {
      for (uint32_t t = random() % 4; t > 0; --t) {
        op.temporaries.push_back({0x1000u * t, random() % 3000});
      }
    }
    Lifetimes lifetimes = AllLive(trace);
    for (uint32_t k = 1; k < trace.ops.size(); ++k) {
      lifetimes.launched_at[k] =
          lifetimes.launched_at[k - 1] +
          random() % (k + 1 - lifetimes.launched_at[k - 1]);
    }
    for (ValueId v = 0; v < trace.values.size(); ++v) {
      const Value& value = trace.values[v];
      if (value.external || random() % 4 == 0) continue;
      lifetimes.held[v] = false;
      if (random() % 4 == 0) continue;
      lifetimes.free_from[v] = value.birth_op + 1 + random() % 3;
    }
    const ArenaLayout layout = LayOut(trace, Bytes(trace), lifetimes);
    std::vector<bool> values_use(layout.size_bytes, false);
    std::vector<std::vector<ValueId>> owners(layout.size_bytes);
    const auto claim = [&layout](std::vector<bool>& used, uint64_t place,
                                 uint64_t size_bytes) {
      ASSERT_EQ(place % kPlaceAlignment, 0u);
      ASSERT_LE(place + size_bytes, layout.size_bytes);
      for (uint64_t i = place; i < place + size_bytes; ++i) {
        ASSERT_FALSE(used[i]) << "byte " << i;
        used[i] = true;
      }
    };
    for (size_t v = 0; v < trace.values.size(); ++v) {
      if (trace.values[v].external) {
        ASSERT_EQ(layout.places[v], kNoPlace);
        continue;
      }
      const uint64_t place = layout.places[v];
      ASSERT_EQ(place % kPlaceAlignment, 0u);
      ASSERT_LE(place + trace.values[v].size_bytes, layout.size_bytes);
      for (uint64_t i = place; i < place + trace.values[v].size_bytes; ++i) {
        for (const ValueId earlier : owners[i]) {
          ASSERT_LE(lifetimes.free_from[earlier],
                    lifetimes.launched_at[trace.values[v].birth_op])
              << earlier << v;
          ASSERT_FALSE(lifetimes.held[v]);
        }
        followers += i == place && !owners[i].empty() ? 1 : 0;
        owners[i].push_back(v);
        values_use[i] = true;
      }
    }
    ASSERT_EQ(layout.temporaries.size(), trace.ops.size());
    for (size_t k = 0; k < trace.ops.size(); ++k) {
      std::vector<bool> used = values_use;
      ASSERT_EQ(layout.temporaries[k].size(), trace.ops[k].temporaries.size());
      for (size_t t = 0; t < layout.temporaries[k].size(); ++t) {
        claim(used, layout.temporaries[k][t],
              trace.ops[k].temporaries[t].size_bytes);
      }
    }
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(followers, 200);
}

TEST_F(LayoutTest, IsSplitWhereHalfOfItHasCome) {
  const ValueId x = builder_.External();
  const ValueId a = builder_.Op({x}, {}, 1);
  const ValueId b = builder_.Op({a}, {}, 1);
  const ValueId c = builder_.Op({b}, {}, 1);
  builder_.Op({c}, {}, 1);
  const auto split = [&](std::vector<uint64_t> steps) {
    for (uint64_t& bytes : steps) bytes *= kPlaceAlignment;
    return HalfWay(MemoryDemand::Of(builder_.trace(), builder_.trace(), steps));
  };
  EXPECT_EQ(split({90, 1, 1, 1, 1}), 2u);
  EXPECT_EQ(split({90, 1, 1, 1, 9}), 3u);
  EXPECT_EQ(split({90, 9, 1, 1, 1}), 1u);
  EXPECT_EQ(split({90, 0, 9, 0, 0}), 2u);
  EXPECT_EQ(split({90, 0, 0, 0, 9}), std::nullopt);
}

TEST_F(LayoutTest, DemandIsWhatLivesAtOnceWithTheTemporariesOfThatOp) {
  TraceBuilder other(&frontend_);
  ValueId a = 0;
  ValueId b = 0;
  for (TraceBuilder* builder : {&builder_, &other}) {
    const ValueId x = builder->External();
    a = builder->Op({x}, {}, 1);
    b = builder->Op({a}, {}, 1);
    const ValueId c = builder->Op({b}, {}, 1);
    builder->Op({c}, {}, 1);
  }
  trace().ops[1].temporaries = {{0x1000, 1}, {0x2000, 1}};
  const auto step = [](uint64_t steps) { return steps * kPlaceAlignment; };
  // The external, a to d, the temporaries.
  const std::vector<uint64_t> bytes = {9000,    step(1), step(2), step(3),
                                       step(4), step(5), step(1)};
  const auto at_once = [&] {
    return MemoryDemand::Of(trace(), other.trace(), bytes).at_once;
  };
  EXPECT_THAT(MemoryDemand::Of(trace(), other.trace(), bytes).made,
              ElementsAre(step(1), step(2), step(3), step(4)));
  EXPECT_EQ(at_once(), step(10));
  // In one of the recordings only.
  trace().values[a].dead_at = 1;
  trace().values[b].dead_at = 3;
  EXPECT_EQ(at_once(), step(10));
  other.trace().values[a].dead_at = 2;
  other.trace().values[b].dead_at = 2;
  EXPECT_EQ(at_once(), step(9));  // a, b and the temporaries
  other.trace().values[a].dead_at = 1;
  EXPECT_EQ(at_once(), step(8));
}

TEST_F(LayoutTest, ArenaOverItsBudgetIsNamedWithItsNumbers) {
  const base::Error error = TooLarge(12345, 4567, 678);
  EXPECT_EQ(error.code(), base::Code::kFailedPrecondition);
  EXPECT_THAT(error.message(), HasSubstr("12345 bytes (4567 in use at once)"));
  EXPECT_THAT(error.message(), HasSubstr("max_arena_bytes=678"));
}

}  // namespace
}  // namespace reprise::engine
