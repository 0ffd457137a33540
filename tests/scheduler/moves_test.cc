// An external may lie elsewhere once recordings have shown that it moves.

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/trace/block.h"
#include "tests/scheduler/twin_programs.h"

namespace reprise::scheduler {
namespace {

using sim::ModelTensor;

// An input that is another storage in each pass, and for which the allocator
// has one of two places.
class MovesTest : public TwinPrograms {
 protected:
  MovesTest() { moves_must_be_seen_ = true; }

  void Step(int pass, bool elsewhere) {
    Both([&](Side& side) {
      const bool watched = side.program == watched_program_.get();
      const ModelTensor late =
          Input(places_[(watched ? 0 : 2) + (elsewhere ? 1 : 0)], pass);
      ModelTensor h = side.program->Make(static_cast<float>(pass % 50), 64);
      Held held;
      h = side.program->Scale(h, 1.5f);
      h = side.program->Add(h, late);
      for (size_t i = 0; i < 6; ++i) {
        h = side.program->Add(side.program->Scale(h, 0.5f), side.weights[i]);
        held.push_back(h);
      }
      return held;
    });
  }

 private:
  using Place = std::array<float, 64>;

  static ModelTensor Input(Place& place, int pass) {
    place.fill(static_cast<float>(pass % 30));
    return ModelTensor(new sim::ModelStorage(
        engine::Block(reinterpret_cast<uint64_t>(place.data()), nullptr,
                      [](void*) {}),
        place.size()));
  }

  std::array<Place, 4> places_{};
};

// The pass behind one in which it lay elsewhere never shows that it can.
TEST_F(MovesTest, WhatMovesNowAndThenIsRecordedWhereItHasMoved) {
  int pass = 0;
  const auto run = [&](int passes) {
    for (; passes > 0 && !HasFatalFailure(); --passes, ++pass) {
      Step(pass, pass >= 12 && pass % 3 == 2);
    }
  };
  run(40);
  const Stats before = stats();
  EXPECT_GT(before.recorded, 2u) << Traces();  // it was taken to stay
  EXPECT_LT(before.recorded, 7u) << Traces();
  run(60);
  EXPECT_GT(FollowedSince(before), 0.95) << Traces();
  EXPECT_EQ(stats().recorded, before.recorded) << Traces();
  EXPECT_EQ(stats().squashes, before.squashes) << Traces();
}

// The program has two inputs and gives the one or the other, as a loop over
// some batches does.
class BatchesTest : public TwinPrograms {
 protected:
  void Step(char batch) {
    ++passes_;
    Both([&](Side& side) {
      std::vector<ModelTensor>& batches =
          side.program == watched_program_.get() ? batches_ : plain_batches_;
      while (batches.size() < 2) {
        batches.push_back(
            side.program->Make(static_cast<float>(batches.size()), 64));
      }
      ModelTensor h = side.program->Make(static_cast<float>(passes_ % 50), 64);
      Held held;
      h = side.program->Scale(h, 1.5f);
      h = side.program->Add(h, batches[batch == 'A' ? 0 : 1]);
      for (size_t i = 0; i < 6; ++i) {
        h = side.program->Add(side.program->Scale(h, 0.5f), side.weights[i]);
        held.push_back(h);
      }
      return held;
    });
  }
  void Run(std::string_view batches) {
    for (const char batch : batches) {
      if (!HasFatalFailure()) Step(batch);
    }
  }

 private:
  std::vector<ModelTensor> batches_;
  std::vector<ModelTensor> plain_batches_;
  int passes_ = 0;
};

TEST_F(BatchesTest, RecordingsOfOneBatchDoNotMakeItAConstant) {
  Run("ABBBBAABAB");
  EXPECT_EQ(stats().rejected, 0u);
  const Stats before = stats();
  EXPECT_GE(before.recorded,
            3u);  // the ones that held the same told too little
  Run("ABABBAABABBABAAB");
  EXPECT_GT(FollowedSince(before), 0.95) << Traces();
  EXPECT_EQ(stats().squashes, 0u);
  EXPECT_EQ(stats().recorded, before.recorded);
}

TEST_F(BatchesTest, ConstantThatTurnsIntoAnInputBreaksNoPlanToPieces) {
  Run("AAAAAAAAAA");
  ASSERT_GT(stats().replays, 3u) << Traces();
  Run("BABABABABABABABABABABABABABABABABABABABA");
  const Stats before = stats();
  Run("ABABBAABABBABAAB");
  EXPECT_GT(FollowedSince(before), 0.95) << Traces();
  EXPECT_EQ(stats().rejected, 0u) << Traces();
  EXPECT_EQ(stats().squashes, before.squashes);
}

// It moved once and never again: that is not waited for.
TEST_F(MovesTest, WhatMovedOnceKeepsNothingFromBeingReplayed) {
  for (int pass = 0; pass < 60 && !HasFatalFailure(); ++pass) {
    Step(pass, pass == 20);
  }
  const Stats before = stats();
  for (int pass = 0; pass < 20 && !HasFatalFailure(); ++pass) {
    Step(pass, false);
  }
  EXPECT_EQ(FollowedSince(before), 1.0) << Traces();
}

}  // namespace
}  // namespace reprise::scheduler
