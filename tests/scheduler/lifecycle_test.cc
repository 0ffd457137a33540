// A trace goes from state to state up to a plan that may stand for eager, and
// back where that is no good any more.

#include "scheduler/lifecycle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "tests/scheduler/twin_programs.h"

namespace reprise::scheduler {
namespace {

using sim::ModelProgram;
using sim::ModelTensor;
using State = TraceEntry::State;
using ::testing::ElementsAre;

constexpr float kRounding = 0x1p-20f;

class LifecycleTest : public TwinPrograms {
 protected:
  static constexpr uint32_t kOps = 4;

  // Of one trace.
  void Pass() {
    Both([this](Side& side) {
      ModelTensor h = side.weights[7];
      for (uint32_t op = 0; op + 1 < kOps; ++op) {
        h = side.program->Add(h, side.weights[op]);
      }
      h = side.program->Scale(h, factor_);
      side.program->Read(h);
      return Held{h};
    });
  }
  // Its states behind passes, each as often as it has come anew.
  std::vector<State> StatesUntil(State last, int passes = 40) {
    std::vector<State> states;
    while (passes-- > 0 && (states.empty() || states.back() != last)) {
      Pass();
      const State state = StateNow();
      if (states.empty() || states.back() != state) states.push_back(state);
    }
    return states;
  }
  State StateNow() {
    State state = State::kSeen;
    Look([&state](const TraceEntry& entry) { state = entry.state; });
    return state;
  }
  // At the entry of that trace.
  template <typename Use>
  void Look(const Use& use) {
    int found = 0;
    session_->Inspect(
        [&](const Journal&, const auto& entries, const engine::Frontend&) {
          for (const TraceEntry* entry : entries) {
            if (entry->ops != kOps) continue;
            ++found;
            use(*entry);
          }
        });
    EXPECT_EQ(found, 1);
  }

  float factor_ = 1.25f;
};

TEST_F(LifecycleTest, ATraceIsRecordedTwiceBuiltAndValidatedTwice) {
  EXPECT_THAT(StatesUntil(State::kReady),
              ElementsAre(State::kRecord, State::kConfirm, State::kBuilding,
                          State::kCheckOps, State::kCheckWhole, State::kReady));
  EXPECT_EQ(stats().recorded, 2u);
  EXPECT_EQ(stats().builds, 1u);
  EXPECT_EQ(stats().validated, 2u);
  // The pass at whose head it was found to be ready.
  EXPECT_EQ(stats().replays, 1u);
  EXPECT_EQ(stats().traces, 6u);
}

TEST_F(LifecycleTest, WhoeverWaitsNeedNoHead) {
  StatesUntil(State::kBuilding);
  session_->Settle();
  EXPECT_EQ(StateNow(), State::kCheckOps);
  Pass();
  session_->Settle();
  EXPECT_EQ(StateNow(), State::kCheckWhole);
  Pass();
  session_->Settle();
  EXPECT_EQ(StateNow(), State::kReady);
  EXPECT_EQ(stats().replays, 0u);
}

TEST_F(LifecycleTest, WhatFailsTwiceIsTriedOnceMore) {
  failing_builds_ = 2;
  StatesUntil(State::kReady);
  EXPECT_EQ(StateNow(), State::kReady) << Traces();
  EXPECT_EQ(builds_run_, 3);
  EXPECT_EQ(stats().rejected, 2u);
  Look([](const TraceEntry& entry) { EXPECT_EQ(entry.reason, ""); });
}

TEST_F(LifecycleTest, WhatFailsThreeTimesIsGivenUpForGood) {
  failing_builds_ = 3;
  StatesUntil(State::kGivenUp);
  ASSERT_EQ(StateNow(), State::kGivenUp) << Traces();
  Look([](const TraceEntry& entry) {
    EXPECT_EQ(entry.reason, "told to fail");
    EXPECT_EQ(entry.recording(), nullptr) << "nothing is kept of it";
  });
  EXPECT_EQ(plans_->stats().entries, 0u);
  for (int i = 0; i < 20; ++i) Pass();
  EXPECT_EQ(StateNow(), State::kGivenUp);
  EXPECT_EQ(builds_run_, 3);
}

TEST_F(LifecycleTest, ATraceWhosePlanIsEvictedIsRecordedAnew) {
  for (int i = 0; i < 100; ++i) Pass();
  ASSERT_EQ(StateNow(), State::kReady);
  session_->ReleasePlans();
  EXPECT_EQ(plans_->stats().entries, 0u);
  EXPECT_THAT(StatesUntil(State::kReady),
              ElementsAre(State::kConfirm, State::kBuilding, State::kCheckOps,
                          State::kCheckWhole, State::kReady));
  EXPECT_EQ(stats().recorded, 4u);
}

// One of its recordings is still good.
TEST_F(LifecycleTest, ATraceWhoseNumberChangesAfterAllIsRecordedOnceMore) {
  StatesUntil(State::kReady);
  factor_ = 1.75f;
  Pass();
  EXPECT_EQ(StateNow(), State::kConfirm);
  EXPECT_EQ(plans_->stats().entries, 0u) << "its plan is dropped";
  Look([](const TraceEntry& entry) { EXPECT_NE(entry.recording(), nullptr); });
  for (int i = 0; i < 8; ++i) {
    factor_ += 0.5f;
    Pass();
  }
  EXPECT_EQ(StateNow(), State::kReady) << Traces();
  EXPECT_EQ(stats().recorded, 3u);
}

TEST_F(LifecycleTest, PlansGoWithWhatIsForgotten) {
  StatesUntil(State::kReady);
  EXPECT_EQ(plans_->stats().entries, 1u);
  session_->Reset();
  EXPECT_EQ(plans_->stats().entries, 0u);
  StatesUntil(State::kReady);
  EXPECT_EQ(plans_->stats().entries, 1u);
  session_.reset();
  EXPECT_EQ(plans_->stats().entries, 0u);
}

// An op that is found to be nondeterministic concerns all traces that have it.

// Sums that repeat their bits until they are told to vary.
class LateTest : public TwinPrograms {
 protected:
  LateTest() { sim::g_sums_vary = false; }
  ~LateTest() override { sim::g_sums_vary = true; }

  bool Learned() {
    return std::ranges::any_of(notes(), [](const auto& note) {
      return note.first.starts_with("nondeterministic");
    });
  }
  // Another trace with such a sum.
  void Other() {
    ModelProgram& p = *watched_.program;
    ModelTensor h = p.Add(p.Make(2), watched_.weights[1]);
    h = p.Sum(h, h, kRounding);
    h = p.Add(h, h);
    p.Read(p.Random(h));
    builds_.RunAll();
  }
  // Verdicts may be asked for in its middle; true if that tells. Then it goes
  // on with another number.
  bool Pass(bool settles) {
    ModelProgram& p = *watched_.program;
    const ModelTensor x = p.Make(3);
    ModelTensor h = p.Scale(x, 1.5f);
    h = p.Sum(h, h, kRounding);
    h = p.Add(h, x);
    const bool before = Learned();
    if (settles) session_->Settle();
    const bool told = Learned() && !before;
    h = p.Scale(h, told ? 0.371f : 0.713f);
    h = p.Add(h, h);
    p.Read(p.Add(h, x));
    builds_.RunAll();
    return told;
  }
};

TEST_F(LateTest, ItMayBeLearnedWhileAReplayIsUnderWay) {
  for (int pass = 0; pass < 14; ++pass) Pass(false);
  ASSERT_GT(stats().replays, 0u) << Traces();
  sim::g_sums_vary = true;
  bool told = false;
  for (int pass = 0; pass < 30 && !told; ++pass) {
    Other();
    told = Pass(true);
  }
  ASSERT_TRUE(told) << Traces();
  for (int pass = 0; pass < 30; ++pass) Pass(false);
  const uint64_t replays = stats().replays;
  for (int pass = 0; pass < 10; ++pass) Pass(false);
  EXPECT_GT(stats().replays, replays) << Traces();
}

// What was given up stays so.
TEST_F(LateTest, WhatIsLearnedBringsNothingBack) {
  const auto step = [this] {
    ModelProgram& p = *watched_.program;
    ModelTensor h = p.Scale(p.Make(3), 1.5f);
    h = p.Sum(h, h, kRounding);
    for (int k = 0; k < 6; ++k) h = p.Add(h, watched_.weights[0]);
    p.Read(h);
    builds_.RunAll();
  };
  const auto given_up = [this] {
    std::vector<cache::Signature> signatures;
    session_->Inspect([&signatures](const Journal&, const auto& entries,
                                    const engine::Frontend&) {
      for (const TraceEntry* entry : entries) {
        if (entry->state != TraceEntry::State::kGivenUp) continue;
        signatures.push_back(entry->signature);
      }
    });
    return signatures;
  };
  for (failing_builds_ = 3; failing_builds_ > 0;) step();
  for (int pass = 0; pass < 4; ++pass) step();
  const auto before = given_up();
  ASSERT_FALSE(before.empty()) << Traces();
  sim::g_sums_vary = true;
  for (int pass = 0; pass < 30 && !Learned(); ++pass) Other();
  ASSERT_TRUE(Learned());
  EXPECT_EQ(given_up(), before) << Traces();
}

// Nor does it where nobody has come for the build that failed.
TEST_F(LateTest, ABuildThatFailedLastStaysTheLast) {
  sim::g_sums_vary = true;
  const auto step = [this] {
    ModelProgram& p = *watched_.program;
    ModelTensor h = p.Scale(p.Make(2), 3);
    h = p.Add(h, watched_.weights[2]);
    h = p.Sum(h, h, kRounding);
    p.Read(p.Scale(h, 5));
    builds_.RunAll();
  };
  for (failing_builds_ = 3; failing_builds_ > 0;) step();
  for (int pass = 0; pass < 60 && !Learned(); ++pass) Other();
  ASSERT_TRUE(Learned()) << Traces();
  // Found to be outdated first, it is built anew; and not in vain.
  for (int pass = 0; pass < 20; ++pass) step();
  const uint64_t replays = stats().replays;
  for (int pass = 0; pass < 10; ++pass) step();
  EXPECT_EQ(stats().replays, replays + 10) << Traces();
}

}  // namespace
}  // namespace reprise::scheduler
