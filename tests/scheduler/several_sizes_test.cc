// Proves that a loop whose passes have several sizes, in random order and with
// nothing between them that parts them, is replayed.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <random>

#include "tests/scheduler/twin_programs.h"

namespace reprise::scheduler {
namespace {

using sim::ModelTensor;

class SeveralSizesTest : public TwinPrograms {
 protected:
  SeveralSizesTest() { Restart(size_t{1} << 24); }

  // Layers on so many elements; its result.
  static ModelTensor Layers(Side& side, ModelTensor x, size_t layers) {
    for (size_t layer = 0; layer < layers; ++layer) {
      const ModelTensor sum =
          side.program->Add(x, side.weights[layer % side.weights.size()]);
      x = side.program->Scale(sum, 0.5f + 0.125f * static_cast<float>(layer));
      side.program->Mix(x, sum);
    }
    return x;
  }
  // A pass begins with no op on a weight.
  static ModelTensor Begun(Side& side, float seed, size_t elements) {
    const ModelTensor x = side.program->Make(seed, elements);
    return side.program->Add(side.program->Scale(x, 0.25f), x);
  }
  // `pass(side, seed, elements)`, of so many sizes in random order.
  template <typename Pass>
  void Run(int count, size_t sizes, Pass pass) {
    for (int i = 0; i < count; ++i) {
      const auto seed = static_cast<float>(++passes_);
      const size_t elements = 8 * (1 + random_() % sizes);
      ASSERT_NO_FATAL_FAILURE(
          Both([&](Side& side) { return Held{pass(side, seed, elements)}; }));
    }
  }
  // Of so many passes nearly all is followed.
  template <typename Passes>
  void ExpectFollowed(uint64_t count, Passes passes) {
    const Stats before = stats();
    ASSERT_NO_FATAL_FAILURE(passes(static_cast<int>(count)));
    EXPECT_GT(FollowedSince(before), 0.9) << Traces();
    EXPECT_GE(stats().replays - before.replays, count * 9 / 10) << Traces();
  }

  std::mt19937 random_{3};
  uint64_t passes_ = 0;
};

TEST_F(SeveralSizesTest, BatchesOfAFewLengthsAreReplayed) {
  const auto passes = [this](int count) {
    Run(count, 5, [](Side& side, float seed, size_t elements) {
      return Layers(side, side.program->Make(seed, elements), 8);
    });
  };
  ASSERT_NO_FATAL_FAILURE(passes(150));
  ExpectFollowed(100, passes);
}

// What begins a pass, where nothing goes from one to the next, is on the input
// alone: the next batch's size is no part of the trace before.
TEST_F(SeveralSizesTest, PassesThatBeginWithoutAWeightEndBehindOne) {
  const auto passes = [this](int count) {
    Run(count, 5, [](Side& side, float seed, size_t elements) {
      return side.program->Add(Layers(side, Begun(side, seed, elements), 8),
                               side.weights.front());
    });
  };
  ASSERT_NO_FATAL_FAILURE(passes(150));
  ExpectFollowed(100, passes);
}

// Nor is it where a few ops without a weight end the pass.
TEST_F(SeveralSizesTest, PassesMayEndSoonBehindAWeight) {
  const auto passes = [this](int count) {
    Run(count, 5, [](Side& side, float seed, size_t elements) {
      const ModelTensor last = side.program->Add(
          Layers(side, Begun(side, seed, elements), 8), side.weights.front());
      return side.program->Scale(side.program->Scale(last, 0.75f), 0.875f);
    });
  };
  ASSERT_NO_FATAL_FAILURE(passes(150));
  ExpectFollowed(100, passes);
}

// Evaluation behind training: its passes are how training's begin.
TEST_F(SeveralSizesTest, ShorterPassesAreReplayedBehindLongerOnes) {
  const auto passes = [this](int count, bool longer) {
    Run(count, 5, [longer](Side& side, float seed, size_t elements) {
      ModelTensor last = side.program->Add(
          Layers(side, Begun(side, seed, elements), 6), side.weights.front());
      for (size_t k = 0; longer && k < 12; ++k) {
        last = side.program->Add(side.program->Scale(last, 0.75f),
                                 side.weights[k % side.weights.size()]);
      }
      return last;
    });
  };
  ASSERT_NO_FATAL_FAILURE(passes(150, /*longer=*/true));
  ASSERT_NO_FATAL_FAILURE(passes(250, /*longer=*/false));
  ExpectFollowed(50, [&](int count) { passes(count, /*longer=*/false); });
}

// Its first layers are used on several sizes in each pass.
TEST_F(SeveralSizesTest, APassThatUsesItsLayersOnSeveralSizesStaysOneTrace) {
  const auto pass = [this] {
    const auto seed = static_cast<float>(++passes_);
    Both([&](Side& side) {
      Held made;
      for (size_t level = 0; level < 4; ++level) {
        const ModelTensor x = side.program->Make(seed, 8 * (level + 1));
        made.push_back(Layers(side, x, 3));
      }
      ModelTensor sum = side.program->Make(seed, 64);
      for (const ModelTensor& weight : side.weights) {
        sum = side.program->Add(sum, weight);
      }
      made.push_back(sum);
      return made;
    });
  };
  for (int i = 0; i < 40; ++i) ASSERT_NO_FATAL_FAILURE(pass());
  const Stats before = stats();
  for (int i = 0; i < 20; ++i) ASSERT_NO_FATAL_FAILURE(pass());
  EXPECT_GT(FollowedSince(before), 0.9) << Traces();
  EXPECT_LE(stats().replays - before.replays, 2 * 20u) << Traces();
}

}  // namespace
}  // namespace reprise::scheduler
