// An op that may have tried out kernels while it was recorded, or that was
// recorded well before, is recorded again.

#include <gtest/gtest.h>

#include "tests/scheduler/twin_programs.h"

namespace reprise::scheduler {
namespace {

class KernelTrialsTest : public TwinPrograms {
 protected:
  // What is refused stands in the middle.
  void Call(int calls) {
    for (int i = 0; i < calls; ++i) {
      Both([&](Side& side) {
        sim::ModelTensor h = side.program->Make(static_cast<float>(i), 64);
        for (size_t k = 0; k < 4; ++k) {
          h = side.program->Scale(side.program->Scale(h, 7), 9);
          if (k == 2) h = side.program->Add(h, side.weights[k]);
        }
        side.program->Read(h);
        return Held{h};
      });
    }
  }
};

TEST_F(KernelTrialsTest, TrialsAreNotRecorded) {
  watched_.program->tries_kernels = sim::ModelOp::kAdd;
  refusals_left_ = 2;
  Call(20);
  EXPECT_EQ(refusals_left_, 0);
  const Stats before = stats();
  Call(10);
  EXPECT_EQ(FollowedSince(before), 0.9) << Traces();  // all but what reads
  EXPECT_EQ(Cuts("told to refuse"), 2u);
}

TEST_F(KernelTrialsTest, WhatIsAlwaysRefusedIsACut) {
  watched_.program->tries_kernels = sim::ModelOp::kAdd;
  refusals_left_ = 1000;
  Call(40);
  EXPECT_EQ(refusals_left_, 997);
  const Stats before = stats();
  Call(10);
  EXPECT_EQ(FollowedSince(before), 0.8) << Traces();
}

TEST_F(KernelTrialsTest, WhatWasRecordedBeforeIsNoCutAtOnce) {
  while (stats().recorded == 0) Call(1);
  EXPECT_EQ(stats().builds, 0u);
  refusals_left_ = 2;
  Call(20);
  EXPECT_EQ(refusals_left_, 0);
  const Stats before = stats();
  Call(10);
  EXPECT_EQ(FollowedSince(before), 0.9) << Traces();
}

TEST_F(KernelTrialsTest, WhatTriesNoKernelsIsACutAtOnce) {
  refusals_left_ = 1000;
  Call(20);
  EXPECT_EQ(refusals_left_, 999);
  EXPECT_GT(stats().replays, 0u);
}

}  // namespace
}  // namespace reprise::scheduler
