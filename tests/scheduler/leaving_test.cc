// A plan that the program leaves again and again, while it is validated or
// when it is replayed, is split there or given up: nobody pays for it for ever.

#include <gtest/gtest.h>

#include "tests/scheduler/twin_programs.h"

namespace reprise::scheduler {
namespace {

class LeavingTest : public TwinPrograms {
 protected:
  static constexpr int kOps = 8;

  // kOps ops and, if it is asked for, two more; then the host looks.
  void Step(float x, bool longer) {
    Both([&](Side& side) {
      Held held;
      sim::ModelTensor h = side.program->Make(x, 64);
      for (int i = 0; i < kOps; ++i) {
        h = side.program->Add(side.program->Scale(h, 1.25f),
                              side.weights[static_cast<size_t>(i)]);
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
      if (entry->ops == 40) runs = entry->runs;
    }
  });
  EXPECT_GT(runs, 0u) << Traces();
  EXPECT_LT(runs, 20u) << Traces();
}

}  // namespace
}  // namespace reprise::scheduler
