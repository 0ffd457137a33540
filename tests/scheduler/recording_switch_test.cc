// Proves that while recording is forbidden plans go on, and nothing else
// begins.

#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "tests/scheduler/twin_programs.h"

namespace reprise::scheduler {
namespace {

using sim::ModelTensor;

class RecordingSwitchTest : public TwinPrograms {
 protected:
  static ModelTensor Chain(Side& side, const ModelTensor& x, size_t weight) {
    ModelTensor h = side.program->Add(x, side.weights[weight]);
    h = side.program->Scale(h, 2.0f + static_cast<float>(weight));
    side.program->Negate(h);
    ModelTensor sum = side.program->Add(h, x);
    side.program->Read(sum);
    return sum;
  }
  void Call(size_t weight, int calls = 1) {
    for (int i = 0; i < calls; ++i) {
      Both([&](Side& side) {
        return Held{
            Chain(side, side.program->Make(static_cast<float>(i)), weight)};
      });
    }
  }
  void Forbid() {
    recording_forbidden_ = true;
    session_->StopRecording();
  }
};

TEST_F(RecordingSwitchTest, PlansGoOnAndNothingNewIsRecorded) {
  Call(0, 8);
  const Stats before = stats();
  ASSERT_GT(before.replays, 0u);
  Forbid();
  Call(0, 8);
  EXPECT_EQ(stats().replays, before.replays + 8);
  Call(1, 8);
  EXPECT_EQ(stats().recorded, before.recorded);
  recording_forbidden_ = false;
  Call(1, 8);
  EXPECT_EQ(stats().recorded, before.recorded + 2);
  EXPECT_GT(stats().replays, before.replays + 8);
}

TEST_F(RecordingSwitchTest, BuiltPlansAreNotValidatedMeanwhile) {
  Call(0, 3);
  ASSERT_EQ(stats().recorded, 2u);
  Forbid();
  Call(0, 6);
  EXPECT_EQ(stats().builds, 1u);
  EXPECT_EQ(stats().validated, 0u);
  EXPECT_EQ(stats().replays, 0u);
  recording_forbidden_ = false;
  Call(0, 6);
  EXPECT_EQ(stats().validated, 2u);
  EXPECT_GT(stats().replays, 0u);
}

TEST_F(RecordingSwitchTest, WhatIsBeingRecordedIsDroppedAtOnce) {
  Call(0);
  sim::ModelProgram& program = *watched_.program;
  const ModelTensor x = program.Make(3);
  const ModelTensor h = program.Add(x, watched_.weights[0]);
  ASSERT_EQ(recordings_open_, 1);
  Forbid();
  EXPECT_EQ(recordings_open_, 0);
  const ModelTensor scaled = program.Scale(h, 2);
  program.Negate(scaled);
  const ModelTensor sum = program.Add(scaled, x);
  program.Read(sum);
  EXPECT_EQ(stats().recorded, 0u);
  recording_forbidden_ = false;
  Call(0, 8);
  EXPECT_EQ(stats().recorded, 2u);
  EXPECT_EQ(recordings_open_, 0);
}

// That an op could not be recorded says nothing of it.
TEST_F(RecordingSwitchTest, WhatCannotGoOnIsRecordedAnotherTime) {
  for (int op = 1; op <= 4; ++op) {
    Restart();
    Call(0);
    unheard_ops_ = op;
    Call(0);
    EXPECT_EQ(unheard_ops_, 0);
    EXPECT_EQ(recordings_open_, 0) << op;
    EXPECT_EQ(stats().recorded, 0u) << op;
    clock_.Advance(std::chrono::seconds(1));
    Call(0, 8);
    EXPECT_EQ(stats().recorded, 2u) << op;
    const Stats before = stats();
    Call(0, 8);
    EXPECT_EQ(stats().replays, before.replays + 8) << op << Traces();
  }
}

}  // namespace
}  // namespace reprise::scheduler
