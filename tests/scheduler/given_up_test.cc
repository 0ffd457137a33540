// A trace that was given up stands in no other's way.

#include <gtest/gtest.h>

#include "tests/scheduler/twin_programs.h"

namespace reprise::scheduler {
namespace {

class GivenUpTest : public TwinPrograms {
 protected:
  // A loop without cuts. It may be interrupted once in its middle.
  void Step(bool interrupted = false) {
    Both([&](Side& side) {
      const sim::ModelTensor a =
          side.program->Add(side.weights[7], side.weights[0]);
      const sim::ModelTensor b = side.program->Scale(a, 1.25f);
      if (interrupted && &side == &watched_) session_->Interrupt("told to");
      const sim::ModelTensor c = side.program->Add(b, side.weights[1]);
      const sim::ModelTensor d = side.program->Scale(c, 1.25f);
      return Held{side.program->Add(d, side.weights[2])};
    });
  }
};

// The loop goes on from where it was interrupted, and what comes round from
// there to there again was given up.
TEST_F(GivenUpTest, TraceInItsMiddleIsReplayed) {
  for (int i = 0; i < 12; ++i) Step();
  ASSERT_GT(stats().replays, 0u);
  failing_builds_ = 3;
  Step(/*interrupted=*/true);
  for (int i = 0; i < 80; ++i) Step();
  EXPECT_EQ(failing_builds_, 0) << Traces();
  const Stats before = stats();
  for (int i = 0; i < 40; ++i) Step();
  EXPECT_EQ(FollowedSince(before), 1.0) << Traces();
}

// A plan that was good for long is evicted, and cannot be had again.
TEST_F(GivenUpTest, BuildsThatFailAreNotTriedForEver) {
  for (int i = 0; i < 400; ++i) Step();
  ASSERT_GT(stats().replays, 300u);
  session_->ReleasePlans();
  failing_builds_ = 1000;
  const int builds = builds_run_;
  for (int i = 0; i < 200; ++i) Step();
  EXPECT_LT(builds_run_ - builds, 10) << Traces();
}

}  // namespace
}  // namespace reprise::scheduler
