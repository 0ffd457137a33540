// Proves that a program whose numbers change from call to call is followed,
// with the numbers of each call, and that numbers that stay cost nothing.

#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "tests/scheduler/twin_programs.h"

namespace reprise::scheduler {
namespace {

using sim::ModelTensor;

constexpr int kWarm = 12;

float Number(int call) { return 4.1f + 0.37f * static_cast<float>(call); }

// Scale, surrounded as asked.
ModelTensor Head(Side& side, float x, float t) {
  ModelTensor h = side.program->Scale(side.program->Make(x, 64), t);
  for (size_t i = 0; i < 5; ++i) h = side.program->Add(h, side.weights[i]);
  return h;
}

ModelTensor Middle(Side& side, float x, float t) {
  ModelTensor h = side.program->Make(x, 64);
  for (size_t i = 0; i < 4; ++i) h = side.program->Add(h, side.weights[i]);
  h = side.program->Scale(h, t);
  for (size_t i = 4; i < 8; ++i) h = side.program->Add(h, side.weights[i]);
  return h;
}

ModelTensor Several(Side& side, float x, float t) {
  ModelTensor h = side.program->Make(x, 64);
  for (size_t i = 0; i < 4; ++i) {
    h = side.program->Add(h, side.weights[i]);
    h = side.program->Scale(h, i % 2 == 0 ? t : t + 0.1f);
  }
  return h;
}

using Step = ModelTensor (*)(Side&, float, float);

class ScalarSlotsTest : public TwinPrograms {
 protected:
  // With `number(call)` from `begin` to `end`.
  void Run(const std::function<ModelTensor(Side&, float, float)>& step,
           int begin, int end, const std::function<float(int)>& number) {
    for (int call = begin; call < end && !HasFatalFailure(); ++call) {
      Both([&](Side& side) {
        return Held{step(side, static_cast<float>(call), number(call))};
      });
    }
  }

  // Segments of all plans that there have been.
  size_t Segments() {
    size_t segments = 0;
    session_->Inspect([&](const Journal&,
                          const std::vector<const TraceEntry*>& entries,
                          const engine::Frontend&) {
      for (const TraceEntry* entry : entries) {
        segments += entry->summary.segments;
      }
    });
    return segments;
  }
};

class ScalarPlacesTest : public ScalarSlotsTest,
                         public testing::WithParamInterface<Step> {};

TEST_P(ScalarPlacesTest, NumberThatChangesAtEachCallIsFollowed) {
  Run(GetParam(), 0, kWarm, Number);
  const Stats before = stats();
  Run(GetParam(), kWarm, 60, Number);
  EXPECT_EQ(FollowedSince(before), 1.0) << Traces();
  EXPECT_EQ(stats().squashes, before.squashes);
  EXPECT_EQ(stats().signatures, before.signatures);
}

// Numbers by which ops may choose are in the key; either sign has its own.
TEST_P(ScalarPlacesTest, NumbersThatAreNoSlotsComeInBetween) {
  const auto number = [](int call) {
    const float other = call % 64 == 31 ? -4.25f : 1.0f;
    return call % 16 == 15 ? other : Number(call);
  };
  Run(GetParam(), 0, 40, number);
  const Stats before = stats();
  Run(GetParam(), 40, 200, number);
  EXPECT_GT(FollowedSince(before), 0.8) << Traces();
}

TEST_P(ScalarPlacesTest, NumberThatStaysCutsNoSegment) {
  Run(GetParam(), 0, kWarm, [](int) { return 4.25f; });
  const size_t segments = Segments();
  Run(GetParam(), kWarm, 40, [](int) { return 4.25f; });
  EXPECT_EQ(stats().squashes, 0u);
  const Stats before = stats();
  // From now on it changes: learned by one squash, or none at a head.
  Run(GetParam(), 40, 60, Number);
  EXPECT_LE(stats().squashes, before.squashes + 4);
  const Stats learned = stats();
  Run(GetParam(), 60, 80, Number);
  EXPECT_EQ(FollowedSince(learned), 1.0) << Traces();
  if (GetParam() != &Head) {
    EXPECT_GT(Segments(), segments);
  }
}

TEST_P(ScalarPlacesTest, NumberThatNothingExplainsLeavesTheProgramRight) {
  explains_numbers_ = false;
  Run(GetParam(), 0, 30, Number);
  EXPECT_EQ(stats().replays, 0u);
  EXPECT_GT(stats().rejected, 0u);
  // While it stays it is in the key.
  Run(GetParam(), 30, 120, [](int) { return 4.25f; });
  // A head whose only operand is an input is not found without its words.
  if (GetParam() != &Head) {
    EXPECT_GT(stats().replays, 0u) << Traces();
  }
}

INSTANTIATE_TEST_SUITE_P(Everywhere, ScalarPlacesTest,
                         testing::Values(&Head, &Middle, &Several));

TEST_F(ScalarSlotsTest, NumbersThatChangeAtDifferentTimesAreAllLearned) {
  const auto step = [](Side& side, float x, float t) {
    const int call = static_cast<int>(x);
    ModelTensor h =
        side.program->Add(side.program->Make(x, 64), side.weights[0]);
    h = side.program->Scale(h, t);
    h = side.program->Add(h, side.weights[1]);
    h = side.program->Scale(h, Number(call / 7));
    return side.program->Scale(h, Number(call / 11));
  };
  Run(step, 0, 80, Number);
  const Stats before = stats();
  Run(step, 80, 160, Number);
  EXPECT_EQ(FollowedSince(before), 1.0) << Traces();
}

// What was verified before a squash, a slot among it, is made right by running
// the op again with the number of this call.
TEST_F(ScalarSlotsTest, SquashAfterASlotKeepsItsNumber) {
  std::mt19937 random(3);
  for (int call = 0; call < 200 && !HasFatalFailure(); ++call) {
    const int leave =
        call > 20 && random() % 6 == 0 ? static_cast<int>(random() % 6) : -1;
    Both([&](Side& side) {
      Held held;
      sim::ModelProgram& p = *side.program;
      int at = 0;
      const auto left = [&] {
        if (at++ != leave) return false;
        held.push_back(p.Add(side.weights[6], side.weights[7]));
        return true;
      };
      held.push_back(
          p.Add(p.Make(static_cast<float>(call), 64), side.weights[0]));
      if (left()) return held;
      held.push_back(p.Scale(held[0], Number(call)));
      if (left()) return held;
      held.push_back(p.Add(held[1], side.weights[1]));
      if (left()) return held;
      p.Negate(held[1]);
      if (left()) return held;
      p.Mix(held[1], held[2]);
      if (left()) return held;
      held.push_back(p.Scale(held[1], Number(call) + 1.25f));
      if (left()) return held;
      p.Negate(held[1]);
      return held;
    });
  }
  EXPECT_GT(stats().squashes, 4u);
  EXPECT_GT(stats().replays, 80u) << Traces();
}

}  // namespace
}  // namespace reprise::scheduler
