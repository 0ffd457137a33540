// An external may lie elsewhere once recordings have shown that it moves.

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
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
