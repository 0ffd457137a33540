// Proves that ways a program takes in turn, in any order, each end in replay.

#include <gtest/gtest.h>

#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "tests/scheduler/twin_programs.h"

namespace reprise::scheduler {
namespace {

using sim::ModelTensor;

constexpr int kWarm = 60;   // calls after which every way is expected to replay
constexpr int kAfter = 60;  // calls of which nearly all ops are followed
// Passes shorter than what counts as a repetition are first taken in pairs.
constexpr int kWarmWhenShort = 140;

// The order in which ways are taken, round and round; '?' is any of A and B.
struct Order {
  std::string name;
  std::string ways;
};

void PrintTo(const Order& order, std::ostream* out) { *out << order.ways; }

// Layers of one shape, as they alternate in a plain network.
ModelTensor Layers(Side& side, ModelTensor h, size_t first, size_t layers) {
  for (size_t i = first; i < first + layers; ++i) {
    h = side.program->Add(h, side.weights[i]);
    h = side.program->Scale(h, 0.5f);
  }
  return h;
}

class AlternationTest : public TwinPrograms,
                        public testing::WithParamInterface<Order> {
 protected:
  char WayOf(int call) {
    const std::string& ways = GetParam().ways;
    const char way = ways[static_cast<size_t>(call) % ways.size()];
    return way != '?' ? way : random_() % 2 == 0 ? 'A' : 'B';
  }

  // `step(side, way, seed)` in the order of the ways, until they replay; then
  // expects that nearly all is followed.
  template <typename Step>
  void ExpectFollowed(Step step, double share = 0.9, int warm = kWarm) {
    Stats before;
    for (int call = 0; call < warm + kAfter; ++call) {
      if (call == warm) before = stats();
      const char way = WayOf(call);
      const auto seed = static_cast<float>(call);
      Both([&](Side& side) { return Held{step(side, way, seed)}; });
      if (HasFatalFailure()) return;
    }
    EXPECT_GE(FollowedSince(before), share) << Traces();
  }

  std::mt19937 random_{7};
};

TEST_P(AlternationTest, TwoShapesOfFreshInputs) {
  ExpectFollowed([](Side& side, char way, float seed) {
    return Layers(side, side.program->Make(seed, way == 'A' ? 16 : 24), 0, 4);
  });
}

TEST_P(AlternationTest, TwoShapesOfTheSameInputs) {
  const ModelTensor inputs[] = {
      watched_.program->Make(3, 16), watched_.program->Make(5, 24),
      plain_.program->Make(3, 16), plain_.program->Make(5, 24)};
  ExpectFollowed([&](Side& side, char way, float) {
    return Layers(
        side, inputs[(&side == &plain_ ? 2 : 0) + (way == 'A' ? 0 : 1)], 0, 4);
  });
}

TEST_P(AlternationTest, TwoShapesOfAShortModel) {
  ExpectFollowed(
      [](Side& side, char way, float seed) {
        const size_t elements = way == 'A' ? 16 : 24;
        return Layers(side, side.program->Make(seed, elements), 0, 1);
      },
      0.9, kWarmWhenShort);
}

TEST_P(AlternationTest, TwoModelsOnOneInput) {
  const ModelTensor inputs[] = {watched_.program->Make(3),
                                plain_.program->Make(3)};
  ExpectFollowed([&](Side& side, char way, float) {
    return Layers(side, inputs[&side == &plain_ ? 1 : 0], way == 'A' ? 0 : 4,
                  4);
  });
}

TEST_P(AlternationTest, TwoModelsOnFreshInputs) {
  ExpectFollowed([](Side& side, char way, float seed) {
    return Layers(side, side.program->Make(seed), way == 'A' ? 0 : 4, 4);
  });
}

TEST_P(AlternationTest, TwoWaysBehindACommonBeginning) {
  ExpectFollowed(
      [](Side& side, char way, float seed) {
        ModelTensor h = Layers(side, side.program->Make(seed), 0, 3);
        return way == 'A'
                   ? Layers(side, side.program->Scale(h, 3), 3, 2)
                   : Layers(side, side.program->Add(h, side.weights[7]), 5, 2);
      },
      0.8);
}

TEST_P(AlternationTest, AModelThatFeedsItself) {
  ModelTensor states[] = {watched_.program->Make(3), plain_.program->Make(3)};
  ExpectFollowed([&](Side& side, char way, float) {
    ModelTensor& state = states[&side == &plain_ ? 1 : 0];
    state = Layers(side, state, way == 'A' ? 0 : 4, 4);
    return state;
  });
}

TEST_P(AlternationTest, APrologueThatVaries) {
  ExpectFollowed(
      [](Side& side, char way, float seed) {
        ModelTensor x = side.program->Make(seed);
        if (way == 'B') x = side.program->Scale(side.program->Scale(x, 5), 7);
        return Layers(side, x, 0, 5);
      },
      0.8);
}

INSTANTIATE_TEST_SUITE_P(
    Orders, AlternationTest,
    testing::Values(Order{"Alone", "A"}, Order{"Turns", "AB"},
                    Order{"Pairs", "AABB"}, Order{"Threes", "AAAB"},
                    Order{"Random", "?"}),
    [](const testing::TestParamInfo<Order>& info) { return info.param.name; });

using LayersTest = TwinPrograms;

TEST_F(LayersTest, LayersOfOneShapeBetweenCutsHavePlansOfTheirOwn) {
  Stats before;
  for (int call = 0; call < 24; ++call) {
    if (call == 8) before = stats();
    Both([&](Side& side) {
      ModelTensor h = side.program->Make(static_cast<float>(call));
      for (size_t layer = 0; layer < 5; ++layer) {
        h = Layers(side, h, layer, 4);
        side.program->Read(h);
      }
      return Held{h};
    });
    if (HasFatalFailure()) return;
  }
  const uint64_t cuts = 5 * (24 - 8);
  EXPECT_EQ(stats().followed - before.followed + cuts, stats().ops - before.ops)
      << Traces();
  EXPECT_EQ(stats().builds, 5u);
  EXPECT_EQ(stats().squashes, 0u);
}

TEST_F(LayersTest, TracesOfNoWeightsAreOneHoweverManyInputsTheySaw) {
  Held inputs;  // all alive, as weights are
  for (int call = 0; call < 24; ++call) {
    Both([&](Side& side) {
      const ModelTensor x = side.program->Make(static_cast<float>(call));
      const ModelTensor y = side.program->Make(static_cast<float>(call) + 9);
      inputs.push_back(x);
      inputs.push_back(y);
      ModelTensor sum = side.program->Add(side.program->Scale(x, 2), y);
      side.program->Read(sum);
      return Held{sum};
    });
    if (HasFatalFailure()) return;
  }
  EXPECT_EQ(stats().builds, 1u) << Traces();
  EXPECT_GT(stats().replays, 12u) << Traces();
}

}  // namespace
}  // namespace reprise::scheduler
