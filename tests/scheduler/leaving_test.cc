// A plan that the program leaves again and again, while it is validated or
// when it is replayed, is split there or given up: nobody pays for it for ever.

#include <gtest/gtest.h>

#include "tests/scheduler/twin_programs.h"

namespace reprise::scheduler {
namespace {

class LeavingTest : public TwinPrograms {
 protected:
  static constexpr size_t kOps = 8;

  // Twice as many ops and, if it is asked for, two more; then the host looks.
  void Step(float x, bool longer, size_t ops = kOps) {
    Both([&](Side& side) {
      Held held;
      sim::ModelTensor h = side.program->Make(x, 64);
      for (size_t i = 0; i < ops; ++i) {
        h = side.program->Add(side.program->Scale(h, 1.25f),
                              side.weights[i % side.weights.size()]);
      }
      if (longer) h = side.program->Scale(side.program->Scale(h, 7), 9);
      side.program->Read(h);
      held.push_back(h);
      return held;
    });
  }
};

// The recordings were of passes that were longer than all that follow.
TEST_F(LeavingTest, ValidationThatIsLeftAtTheSameOpIsSplitThere) {
  int i = 0;
  for (; i < 4; ++i) Step(static_cast<float>(i), /*longer=*/true);
  for (; i < 60; ++i) Step(static_cast<float>(i), /*longer=*/false);
  const Stats before = stats();
  for (; i < 100; ++i) Step(static_cast<float>(i), /*longer=*/false);
  EXPECT_GT(FollowedSince(before), 0.9) << Traces();
  EXPECT_LT(stats().validated, 8u) << Traces();
}

// One pass in ten ends earlier, by two ops of 52: that costs little, and pieces
// would have to be learned.
TEST_F(LeavingTest, PlanThatIsLeftNearItsEndNowAndThenIsKept) {
  constexpr size_t kMany = 25;
  int i = 0;
  for (; i < 8; ++i) Step(static_cast<float>(i), /*longer=*/true, kMany);
  const Stats before = stats();
  ASSERT_GT(before.replays, 0u) << Traces();
  for (; i < 108; ++i) {
    Step(static_cast<float>(i), /*longer=*/i % 10 != 9, kMany);
  }
  EXPECT_GE(stats().squashes, 9u);
  EXPECT_EQ(stats().rejected, 0u) << Traces();
  EXPECT_GT(FollowedSince(before), 0.97) << Traces();
}

// So does every other one of the first twenty: a program that gets ready.
TEST_F(LeavingTest, PlanThatIsLeftNearItsEndOftenForAWhileIsKept) {
  constexpr size_t kMany = 25;
  int i = 0;
  for (; i < 8; ++i) Step(static_cast<float>(i), /*longer=*/true, kMany);
  const Stats before = stats();
  ASSERT_GT(before.replays, 0u) << Traces();
  for (; i < 28; ++i) {
    Step(static_cast<float>(i), /*longer=*/i % 2 == 0, kMany);
  }
  for (; i < 48; ++i) Step(static_cast<float>(i), /*longer=*/true, kMany);
  EXPECT_GE(stats().squashes, 9u);
  EXPECT_EQ(stats().rejected, 0u) << Traces();
  EXPECT_GT(FollowedSince(before), 0.97) << Traces();
}

// Each pass ends there from now on.
TEST_F(LeavingTest, PlanThatIsAlwaysLeftNearItsEndIsSplit) {
  constexpr size_t kMany = 25;
  int i = 0;
  for (; i < 8; ++i) Step(static_cast<float>(i), /*longer=*/true, kMany);
  for (; i < 160; ++i) Step(static_cast<float>(i), /*longer=*/false, kMany);
  const Stats before = stats();
  for (; i < 180; ++i) Step(static_cast<float>(i), /*longer=*/false, kMany);
  EXPECT_GT(FollowedSince(before), 0.97) << Traces();
  EXPECT_EQ(stats().squashes, before.squashes);
}

// It is left at another op each time: validated ever more rarely.
TEST_F(LeavingTest, ValidationThatIsLeftAnywhereRests) {
  for (int k = 8; k < 40; ++k) {
    for (Side* side : {&watched_, &plain_}) {
      side->weights.push_back(side->program->Make(static_cast<float>(k), 64));
    }
  }
  const auto step = [&](int i, int ops) {
    Both([&](Side& side) {
      sim::ModelTensor h = side.program->Make(static_cast<float>(i), 64);
      for (int k = 0; k < ops; ++k) {
        h = side.program->Add(h, side.weights[static_cast<size_t>(k)]);
      }
      side.program->Read(h);
      return Held{h};
    });
  };
  int i = 0;
  for (; i < 3; ++i) step(i, 40);
  ASSERT_EQ(stats().recorded, 2u) << Traces();
  uint64_t runs = 0;
  for (; i < 300; ++i) {
    step(i, 9 + i % 29);
  }
  session_->Inspect([&runs](const Journal&,
                            const std::vector<const TraceEntry*>& entries,
                            const engine::Frontend&) {
    for (const TraceEntry* entry : entries) {
      if (entry->ops == 40) runs = entry->leavings.runs();
    }
  });
  EXPECT_GT(runs, 0u) << Traces();
  EXPECT_LT(runs, 20u) << Traces();
}

}  // namespace
}  // namespace reprise::scheduler
