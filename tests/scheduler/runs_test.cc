// When a trace is known to come so often in a row.

#include "scheduler/runs.h"

#include <gtest/gtest.h>

#include "tests/sim/model_frontend.h"

namespace reprise::scheduler {
namespace {

class RunsTest : public testing::Test {
 protected:
  RunsTest() {
    layer_.ops = 8;
    rest_.ops = 8;
  }
  void Run(int length) {
    for (int i = 0; i < length; ++i) runs_.Ended(layer_);
    runs_.Ended(rest_);
  }
  void Runs40(int length) {
    for (int i = 0; i < 40; ++i) Run(length);
  }

  Runs runs_;
  sim::ModelFrontend frontend_;
  TraceEntry layer_{Identity(Externals(&frontend_))};
  TraceEntry rest_{Identity(Externals(&frontend_))};
};

TEST_F(RunsTest, LengthThatIsAlwaysTheSameIsKnown) {
  for (int i = 0; i < 8; ++i) Run(12);
  EXPECT_FALSE(runs_.Begins(layer_));
  Runs40(12);
  EXPECT_TRUE(runs_.Begins(layer_));
  EXPECT_EQ(layer_.run.length(), 12u);
  EXPECT_FALSE(runs_.Begins(rest_));
  runs_.Ended(layer_);
  EXPECT_FALSE(runs_.Begins(layer_));  // it goes on
  Run(12);
  EXPECT_FALSE(runs_.Begins(layer_));  // that was of thirteen
}

TEST_F(RunsTest, ACutEndsARun) {
  const auto runs_behind_cuts = [&] {
    for (int i = 0; i < 40; ++i) {
      for (int k = 0; k < 12; ++k) runs_.Ended(layer_);
      runs_.Parted();
    }
  };
  runs_behind_cuts();
  EXPECT_TRUE(runs_.Begins(layer_));
  // One that was interrupted might have been another one.
  runs_.Ended(layer_);
  runs_.Broken();
  runs_.Ended(layer_);
  runs_.Parted();
  EXPECT_FALSE(runs_.Begins(layer_));
  runs_behind_cuts();
  EXPECT_TRUE(runs_.Begins(layer_));
  runs_.Ended(layer_);
  runs_.Forget(layer_);
  EXPECT_FALSE(runs_.Begins(layer_));
}

TEST_F(RunsTest, ShortAndLongOnesStayTraces) {
  Runs40(2);
  EXPECT_FALSE(runs_.Begins(layer_));
  Runs40(65);
  EXPECT_FALSE(runs_.Begins(layer_));
  Runs40(64);
  EXPECT_TRUE(runs_.Begins(layer_));
  layer_.ops = 9;  // 576 ops
  EXPECT_FALSE(runs_.Begins(layer_));
}

TEST_F(RunsTest, WhatVariesIsNotKnown) {
  for (int i = 0; i < 100; ++i) Run(12 + i % 2);
  EXPECT_FALSE(runs_.Begins(layer_));
}

}  // namespace
}  // namespace reprise::scheduler
