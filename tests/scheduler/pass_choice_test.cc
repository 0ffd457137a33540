// What a head begins: by the state of the trace that it promises, by what may
// be learned now, and by how often a plan is to be validated.

#include "scheduler/pass_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tests/scheduler/twin_programs.h"

namespace reprise::scheduler {
namespace {

using sim::ModelTensor;
using ::testing::ElementsAre;

class PassChoiceTest : public TwinPrograms {
 protected:
  static constexpr int kOps = 4;

  void Passes(int passes) {
    for (int i = 0; i < passes; ++i) {
      Both([](Side& side) {
        ModelTensor h = side.weights[7];
        for (size_t op = 0; op < kOps; ++op) {
          h = side.program->Add(h, side.weights[op]);
        }
        side.program->Read(h);
        return Held{h};
      });
    }
  }
  // What passes do, in order; those that are let pass or watched, nothing.
  std::vector<Doing> DoingIn(int passes) {
    const Timeline::Position begin = timeline_.Start();
    Passes(passes);
    std::vector<Doing> done;
    for (const Timeline::Event& event : timeline_.Since(begin).events) {
      if (event.doing != Doing::kBuilding) done.push_back(event.doing);
    }
    timeline_.Stop();
    return done;
  }
};

TEST_F(PassChoiceTest, EachPassDoesWhatTheTraceWaitsFor) {
  EXPECT_THAT(DoingIn(7),
              ElementsAre(Doing::kRecording, Doing::kRecordingAgain,
                          Doing::kValidatingOps, Doing::kValidatingWhole,
                          Doing::kReplaying, Doing::kReplaying));
}

// The head of the next pass takes no build that is not there.
TEST_F(PassChoiceTest, WhatIsBeingBuiltIsLetPass) {
  Passes(2);
  const auto pass = [this] {
    ModelTensor h = watched_.weights[7];
    for (size_t op = 0; op < kOps; ++op) {
      h = watched_.program->Add(h, watched_.weights[op]);
    }
    watched_.program->Read(h);
  };
  pass();  // builds_ does not run
  ASSERT_EQ(stats().recorded, 2u);
  const int observed = watched_.program->observed();
  for (int i = 0; i < 5; ++i) pass();
  EXPECT_EQ(watched_.program->observed(), observed);
  EXPECT_EQ(stats().builds, 0u);
  builds_.RunAll();
  pass();
  EXPECT_EQ(stats().builds, 1u);
  EXPECT_GT(watched_.program->observed(), observed) << "it is validated";
}

TEST_F(PassChoiceTest, WhatIsGivenUpIsLetPassButForOnePassInSome) {
  failing_builds_ = 3;
  Passes(20);
  ASSERT_EQ(failing_builds_, 0);
  const int observed = watched_.program->observed();
  Passes(16);
  EXPECT_EQ(watched_.program->observed() - observed, kOps);
}

TEST_F(PassChoiceTest, WithoutLeaveToRecordNothingIsValidated) {
  Passes(3);  // it is built
  recording_forbidden_ = true;
  const Stats before = stats();
  Passes(10);
  EXPECT_EQ(stats().validated, before.validated);
  EXPECT_EQ(stats().replays, 0u);
  recording_forbidden_ = false;
  Passes(3);
  EXPECT_EQ(stats().validated, before.validated + 2);
  EXPECT_EQ(stats().replays, 1u);
}

TEST_F(PassChoiceTest, APlanThatReplaysIsValidatedAsOftenAsItIsTold) {
  validate_share_ = 0.25;
  Restart();
  Passes(105);
  const Stats now = stats();
  EXPECT_GE(now.replays, 75u);
  EXPECT_NEAR(static_cast<double>(now.validated) - 2,
              static_cast<double>(now.replays) / 4, 1);
  validate_share_ = 0;
  Restart();
  Passes(105);
  EXPECT_EQ(stats().validated, 2u);
  EXPECT_EQ(stats().replays, 100u);
}

}  // namespace
}  // namespace reprise::scheduler
