// Traces that always come one behind the other become one, and two again where
// the program goes several ways.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/scheduler/twin_programs.h"

namespace reprise::scheduler {
namespace {

class JoinedTracesTest : public TwinPrograms {
 protected:
  static constexpr char kJoined[] =
      "two traces that always came together are one";
  static constexpr int kLooks = 12;  // steps after which each layer is a trace

  // A step of `layers` layers, with a look of the host behind each, or behind
  // the last one only.
  void Step(size_t layers, bool looks_between) {
    const float x = 0.25f * static_cast<float>(number_++);
    Both([&](Side& side) {
      sim::ModelProgram& p = *side.program;
      sim::ModelTensor h = p.Make(x, 64);
      Held held;
      for (size_t i = 0; i < layers; ++i) {
        h = p.Add(h, side.weights[i]);
        for (size_t n = 0; n <= i; ++n) p.Negate(h);  // each is another one
        h = p.Scale(h, 0.5f);
        p.Mix(h, side.weights[i]);
        h = p.Scale(h, 0.25f);
        if (looks_between && i + 1 < layers) p.Read(h);
      }
      p.Read(h);
      held.push_back(h);
      return held;
    });
  }
  void Steps(int count, size_t layers, bool looks_between) {
    for (int i = 0; i < count; ++i) Step(layers, looks_between);
  }
  uint64_t ReplaysOfAStep(size_t layers) {
    const Stats before = stats();
    Step(layers, false);
    EXPECT_EQ(stats().squashes, before.squashes) << Traces();
    EXPECT_GT(stats().followed, before.followed) << Traces();
    return stats().replays - before.replays;
  }

  int number_ = 0;
};

TEST_F(JoinedTracesTest, LayersOfWhichNobodyLooksBetween) {
  Steps(kLooks, 8, /*looks_between=*/true);
  EXPECT_EQ(ReplaysOfAStep(8), 8u) << Traces();
  Steps(320, 8, /*looks_between=*/false);
  EXPECT_EQ(ReplaysOfAStep(8), 1u) << Traces();
}

// Not pair by pair, each of which has to be recorded.
TEST_F(JoinedTracesTest, AllOfARowAtOnce) {
  Steps(kLooks, 8, true);
  const Stats before = stats();
  Steps(100, 8, false);
  EXPECT_EQ(ReplaysOfAStep(8), 1u) << Traces();
  EXPECT_EQ(notes()[kJoined], 1u);
  EXPECT_EQ(stats().recorded - before.recorded, 2u) << Traces();
}

// The program leaves them here or there from then on.
TEST_F(JoinedTracesTest, AllOfARowComeApartWhereTheyAreLeftAnywhere) {
  Steps(kLooks, 8, true);
  Steps(100, 8, false);
  ASSERT_EQ(ReplaysOfAStep(8), 1u) << Traces();
  const auto left = [this](int count) {
    for (int i = 0; i < count; ++i) {
      Step(i % 3 == 0 ? 2 + static_cast<size_t>(5 * (i / 3) % 7) : 8, false);
    }
  };
  left(240);
  const Stats before = stats();
  left(84);
  EXPECT_GE(FollowedSince(before), 0.9) << Traces();
}

// Each takes more than a sixteenth of the budget.
TEST_F(JoinedTracesTest, LargeOnesAreJoinedLate) {
  Restart(size_t{64} << 10);
  Steps(kLooks, 2, true);
  Steps(512, 2, false);
  EXPECT_EQ(notes()[kJoined], 0u) << Traces();
  EXPECT_EQ(ReplaysOfAStep(2), 2u) << Traces();
  Steps(768, 2, false);
  EXPECT_EQ(notes()[kJoined], 1u) << Traces();
  EXPECT_EQ(ReplaysOfAStep(2), 1u) << Traces();
}

TEST_F(JoinedTracesTest, LeaveNoPlanOfAPart) {
  const auto plans = [this] {
    size_t plans = 0;
    session_->Inspect([&](const Journal&,
                          const std::vector<const TraceEntry*>& entries,
                          const engine::Frontend&) {
      plans = static_cast<size_t>(std::ranges::count_if(
          entries, [](const TraceEntry* entry) { return entry->has_plan(); }));
    });
    return plans;
  };
  Steps(kLooks, 4, true);
  ASSERT_EQ(plans(), 4u) << Traces();
  Steps(320, 4, false);
  EXPECT_EQ(ReplaysOfAStep(4), 1u) << Traces();
  EXPECT_EQ(plans(), 1u) << Traces();
  // Which may be had again.
  Steps(60, 4, true);
  const Stats before = stats();
  Steps(10, 4, true);
  EXPECT_EQ(stats().replays - before.replays, 40u) << Traces();
}

// The host looks elsewhere in the loop from then on.
TEST_F(JoinedTracesTest, NoPlanIsLeftOfALoopThatBeginsElsewhereNow) {
  Restart(size_t{128} << 10);
  Held kept;  // none lies where another one did, whatever ran before
  const auto turn = [&](bool looks_at_the_end) {
    const float x = 0.25f * static_cast<float>(number_++);
    Both([&](Side& side) {
      sim::ModelProgram& p = *side.program;
      kept.push_back(p.Make(x, 64));
      sim::ModelTensor h = p.Add(kept.back(), side.weights[0]);
      kept.push_back(h);
      h = p.Scale(h, 0.5f);
      kept.push_back(h);
      if (!looks_at_the_end) p.Read(h);
      for (size_t i = 1; i < 5; ++i) {
        h = p.Add(h, side.weights[i]);
        kept.push_back(h);
      }
      if (looks_at_the_end) p.Read(h);
      return Held{h};
    });
  };
  for (int i = 0; i < 24; ++i) turn(false);
  const Stats before = stats();
  ASSERT_GT(before.replays, 0u) << Traces();
  ASSERT_EQ(plans_->stats().entries, 1u) << Traces();
  for (int i = 0; i < 24; ++i) turn(true);
  ASSERT_GT(stats().replays, before.replays) << Traces();
  EXPECT_GE(plans_->stats().entries, 2u) << Traces();
  for (int i = 0; i < 1280; ++i) turn(true);  // they are large
  EXPECT_EQ(plans_->stats().entries, 1u) << Traces();
}

// It came to nothing: the two are what they were.
TEST_F(JoinedTracesTest, APartOfWhatDidNotJoinKeepsItsPlan) {
  Steps(kLooks, 2, true);
  for (int i = 0; i < 200 && notes()[kJoined] == 0; ++i) Step(2, false);
  ASSERT_EQ(notes()[kJoined], 1u) << Traces();
  Steps(10, 2, true);
  const Stats before = stats();
  // The beginning alone.
  Steps(200, 1, false);
  Steps(10, 2, true);
  EXPECT_EQ(stats().recorded, before.recorded) << Traces();
}

// It is recorded once more, perhaps.
TEST_F(JoinedTracesTest, APartThatComesByItselfNowAndThenKeepsItsPlan) {
  Steps(kLooks, 2, true);
  Steps(100, 2, false);
  ASSERT_EQ(ReplaysOfAStep(2), 1u) << Traces();
  const Stats before = stats();
  for (int i = 0; i < 300; ++i) Step(2, i % 40 == 39);
  EXPECT_LE(stats().recorded, before.recorded + 2) << Traces();
}

TEST_F(JoinedTracesTest, AreTwoAgainWhereTheProgramLooksBetween) {
  Steps(kLooks, 2, true);
  Steps(100, 2, false);
  ASSERT_EQ(ReplaysOfAStep(2), 1u) << Traces();
  Steps(60, 2, true);
  const Stats before = stats();
  Steps(10, 2, true);
  EXPECT_EQ(stats().replays - before.replays, 20u) << Traces();
  // And go on to be, where it does so now and then.
  for (int i = 0; i < 60; ++i) Step(2, i % 3 == 0);
  const Stats then = stats();
  for (int i = 0; i < 12; ++i) Step(2, i % 3 == 0);
  EXPECT_EQ(stats().replays - then.replays, 24u) << Traces();
}

// A loop without a cut: what comes behind its body is the body.
TEST_F(JoinedTracesTest, ATraceIsNotJoinedWithItself) {
  Steps(kLooks, 1, true);
  const Stats before = stats();
  for (int i = 0; i < 40; ++i) {
    Both([&](Side& side) {
      sim::ModelProgram& p = *side.program;
      sim::ModelTensor h = p.Make(static_cast<float>(i), 64);
      h = p.Add(h, side.weights[0]);
      p.Negate(h);
      h = p.Scale(h, 0.5f);
      p.Mix(h, side.weights[0]);
      return Held{p.Scale(h, 0.25f)};
    });
  }
  EXPECT_EQ(stats().replays - before.replays, 40u) << Traces();
}

// Layers that share their weights: a trace each, and as many each pass.
class RunsOfATraceTest : public JoinedTracesTest {
 protected:
  static constexpr char kOfARun[] =
      "a trace that always came as often in a row is one";

  void Pass(int layers) {
    const float x = 0.25f * static_cast<float>(number_++);
    Both([&](Side& side) {
      sim::ModelProgram& p = *side.program;
      sim::ModelTensor h = p.Make(x, 64);
      h = p.Scale(p.Add(h, side.weights[6]), 0.5f);
      for (int layer = 0; layer < layers; ++layer) {
        for (size_t i = 0; i < 6; ++i) {
          h = p.Add(h, side.weights[i]);
          p.Negate(h);
          h = p.Scale(h, 0.5f);
        }
      }
      h = p.Add(h, side.weights[7]);
      p.Negate(h);
      p.Read(h);
      return Held{h};
    });
  }
};

TEST_F(RunsOfATraceTest, OfOneLengthIsOne) {
  for (int i = 0; i < 24; ++i) Pass(12);
  const Stats before = stats();
  Pass(12);
  EXPECT_GE(stats().replays - before.replays, 12u) << Traces();
  for (int i = 0; i < 200; ++i) Pass(12);
  EXPECT_GE(notes()[kOfARun], 1u) << Traces();
  const Stats then = stats();
  for (int i = 0; i < 10; ++i) Pass(12);
  EXPECT_LE(stats().replays - then.replays, 30u) << Traces();
  EXPECT_EQ(stats().squashes, then.squashes) << Traces();
  EXPECT_GE(FollowedSince(then), 0.95) << Traces();
}

TEST_F(RunsOfATraceTest, OfOtherLengthsIsNot) {
  for (int i = 0; i < 300; ++i) Pass(10 + i % 3);
  EXPECT_EQ(notes()[kOfARun], 0u);
  const Stats before = stats();
  for (int i = 0; i < 30; ++i) Pass(10 + i % 3);
  EXPECT_GE(FollowedSince(before), 0.95) << Traces();
}

TEST_F(RunsOfATraceTest, IsSeveralAgainWhereItsLengthChanges) {
  for (int i = 0; i < 240; ++i) Pass(12);
  ASSERT_GE(notes()[kOfARun], 1u) << Traces();
  for (int i = 0; i < 120; ++i) Pass(8 + i % 2);
  const Stats before = stats();
  for (int i = 0; i < 30; ++i) Pass(8 + i % 2);
  EXPECT_GE(FollowedSince(before), 0.95) << Traces();
}

// A loop is left early now and then, at one place or another.
TEST_F(RunsOfATraceTest, IsSeveralAgainWhereItIsLeftAnywhere) {
  for (int i = 0; i < 240; ++i) Pass(12);
  ASSERT_GE(notes()[kOfARun], 1u) << Traces();
  const auto layers = [](int i) { return i % 8 == 0 ? 3 + i / 8 % 7 : 12; };
  for (int i = 0; i < 1000; ++i) Pass(layers(i));
  const Stats before = stats();
  for (int i = 0; i < 200; ++i) Pass(layers(i));
  EXPECT_GE(FollowedSince(before), 0.97) << Traces();
}

// Passes of a program, with a look now and then: each has an input of its own.
TEST_F(RunsOfATraceTest, OnInputsOfTheProgramsIsNot) {
  std::vector<Held> inputs;
  Both([&](Side& side) {
    for (int i = 0; i < 64; ++i) {
      inputs.push_back({side.program->Make(static_cast<float>(i), 64)});
    }
    return Held{};
  });
  const auto round = [&] {
    Both([&](Side& side) {
      sim::ModelProgram& p = *side.program;
      Held last;
      for (int step = 0; step < 8; ++step) {
        const size_t input = static_cast<size_t>(number_ * 8 + step) % 64;
        sim::ModelTensor h =
            inputs[input + (&side == &watched_ ? 0 : 64)].front();
        for (size_t i = 0; i < 4; ++i) {
          h = p.Scale(p.Add(h, side.weights[i]), 0.5f);
          p.Negate(h);
        }
        last.assign(1, h);
      }
      p.Read(last.front());
      return last;
    });
    ++number_;
  };
  for (int i = 0; i < 100; ++i) round();
  const Stats before = stats();
  for (int i = 0; i < 50; ++i) round();
  EXPECT_GE(FollowedSince(before), 0.95) << Traces();
}

// Both ways begin with the same ops on the same weight, and on another input
// each time: only the order tells which one is due.
TEST_F(JoinedTracesTest, TwoWaysFromOneBeginningThatTakeTurns) {
  std::array<Held, 5> inputs;  // nor do addresses, which come again late
  const auto step = [&](int i) {
    Both([&](Side& side) {
      sim::ModelProgram& p = *side.program;
      const sim::ModelTensor x = p.Make(static_cast<float>(i), 64);
      inputs[static_cast<size_t>(i) % inputs.size()].assign(1, x);
      sim::ModelTensor h = p.Add(x, side.weights[0]);
      h = p.Scale(h, 0.5f);
      h = p.Add(h, side.weights[1]);
      h = i % 2 == 0 ? p.Scale(h, 3) : p.Add(h, h);
      return Held{p.Add(h, side.weights[2])};
    });
  };
  int i = 0;
  for (; i < 60; ++i) step(i);
  const Stats before = stats();
  for (; i < 400; ++i) step(i);
  EXPECT_EQ(stats().squashes, before.squashes) << Traces();
  EXPECT_GT(notes()[kJoined], 0u);
  const Stats then = stats();
  for (; i < 440; ++i) step(i);
  EXPECT_EQ(stats().replays - then.replays, 20u) << Traces();
}

// As where the program waits for an event there: not told by an op.
TEST_F(JoinedTracesTest, NotWhereAnInterruptLiesBetween) {
  const auto step = [this](int i) {
    Both([&](Side& side) {
      sim::ModelProgram& p = *side.program;
      sim::ModelTensor h = p.Make(static_cast<float>(i % 7), 64);
      for (size_t layer = 0; layer < 2; ++layer) {
        h = p.Add(h, side.weights[layer]);
        for (size_t n = 0; n <= layer; ++n) p.Negate(h);
        h = p.Scale(h, 0.5f);
        if (&side == &watched_) session_->Interrupt("somebody waits");
      }
      return Held{h};
    });
  };
  int i = 0;
  for (; i < 40; ++i) step(i);
  const Stats before = stats();
  for (; i < 300; ++i) step(i);
  EXPECT_EQ(stats().replays - before.replays, 520u) << Traces();
  EXPECT_EQ(notes()[kJoined], 0u);
}

// The step behind an evaluation is a step, however many come before the next.
TEST_F(JoinedTracesTest, NotWhatAlsoComesBehindAnother) {
  for (int round = 0; round < 45; ++round) {
    for (int i = 0; i <= 80; ++i) {
      Both([&](Side& side) {
        sim::ModelProgram& p = *side.program;
        const bool evaluates = i == 80;
        sim::ModelTensor h = p.Make(static_cast<float>(i), 64);
        h = p.Add(h, side.weights[evaluates ? 1 : 0]);
        if (evaluates) p.Negate(h);
        h = p.Scale(h, 0.5f);
        p.Mix(h, side.weights[2]);
        h = p.Scale(h, 0.25f);
        return Held{p.Scale(h, evaluates ? 3 : 2)};
      });
    }
  }
  EXPECT_EQ(notes()[kJoined], 0u) << Traces();
  EXPECT_GT(stats().replays, 3000u) << Traces();
}

// What is joined cannot be built: the parts are replayed as before.
TEST_F(JoinedTracesTest, AreTwoAgainWhereOneCannotBeBuilt) {
  Steps(kLooks, 2, true);
  most_ops_ = 6;
  Steps(120, 2, false);
  const Stats before = stats();
  Steps(10, 2, false);
  EXPECT_EQ(stats().replays - before.replays, 20u) << Traces();
  EXPECT_GT(stats().rejected, 0u);
  // And stay so.
  Steps(700, 2, false);
  EXPECT_EQ(notes()[kJoined], 1u) << Traces();
}

}  // namespace
}  // namespace reprise::scheduler
