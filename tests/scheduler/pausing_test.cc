// While a session is paused its ops run by eager, also those that were on their
// way when it was; afterwards its plans are there again.

#include <gtest/gtest.h>

#include "tests/scheduler/twin_programs.h"

namespace reprise::scheduler {
namespace {

class PausingTest : public TwinPrograms {
 protected:
  // `pause_before`: the op before which the session is paused; -1: never.
  void Step(float x, int pause_before = -1) {
    Both([&](Side& side) {
      Held held;
      sim::ModelTensor h = side.program->Make(x, 64);
      for (int i = 0; i < 8; ++i) {
        if (i == pause_before) session_->Pause();
        h = side.program->Add(side.program->Scale(h, 1.5f), side.weights[0]);
        held.push_back(h);
      }
      return held;
    });
  }
};

TEST_F(PausingTest, OpsOnTheirWayRunByEager) {
  for (int i = 0; i < 10; ++i) Step(static_cast<float>(i));
  const Stats before = stats();
  ASSERT_GT(before.replays, 0u) << Traces();
  Step(3, /*pause_before=*/4);
  const Stats paused = stats();
  EXPECT_EQ(paused.replays, before.replays + 1);
  EXPECT_EQ(paused.squashes, before.squashes + 1);
  EXPECT_EQ(paused.followed, before.followed + 8);
  for (int i = 0; i < 4; ++i) Step(static_cast<float>(i));
  EXPECT_EQ(stats().followed, paused.followed);
  EXPECT_EQ(stats().traces, paused.traces);
  EXPECT_FALSE(session_->Interrupt("nothing is open"));
  const uint64_t words[] = {1, 2};
  engine::OpView op;
  op.words = words;
  session_->Lock();
  EXPECT_EQ(session_->Enter(op), Action::kAway);
  session_->Unlock();

  session_->Resume();
  for (int i = 0; i < 4; ++i) Step(static_cast<float>(i));
  EXPECT_GT(stats().followed, paused.followed) << Traces();
  EXPECT_EQ(stats().recorded, before.recorded);
}

// Who switches Reprise on for a few ops at a time has them replayed.
TEST_F(PausingTest, WhatLiesBetweenResumingAndPausingIsATrace) {
  session_->Pause();
  const auto step = [this](float x) {
    Both([&](Side& side) {
      const bool watched = side.program == watched_program_.get();
      sim::ModelTensor h = side.program->Make(x, 64);
      for (int i = 0; i < 3; ++i) h = side.program->Scale(h, 0.5f);
      if (watched) session_->Resume();
      Held held;
      for (int i = 0; i < 6; ++i) {
        h = side.program->Add(side.program->Scale(h, 1.5f), side.weights[i]);
        held.push_back(h);
      }
      if (watched) session_->Pause();
      return held;
    });
  };
  for (int i = 0; i < 10; ++i) step(static_cast<float>(i));
  const Stats before = stats();
  EXPECT_GT(before.replays, 0u) << Traces();
  for (int i = 0; i < 20; ++i) step(static_cast<float>(i));
  EXPECT_EQ(stats().followed, before.followed + 20 * 12) << Traces();
  EXPECT_EQ(stats().squashes, 0u) << Traces();
}

TEST_F(PausingTest, ResetEndsWhatIsOpenAndStaysPaused) {
  for (int i = 0; i < 10; ++i) Step(static_cast<float>(i));
  session_->Pause();
  session_->Reset();
  Step(1);
  EXPECT_EQ(stats().traces, 0u);
  session_->Resume();
  for (int i = 0; i < 10; ++i) Step(static_cast<float>(i));
  EXPECT_GT(stats().replays, 0u) << Traces();
}

}  // namespace
}  // namespace reprise::scheduler
