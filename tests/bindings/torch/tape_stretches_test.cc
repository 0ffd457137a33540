// When runs of a tape learn, and which stretches are kept.

#include "bindings/torch/region/tape_stretches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "engine/program/program.h"

namespace reprise::bindings {
namespace {

using Plan = std::shared_ptr<const engine::Program>;

Plan MakePlan() { return std::make_shared<const engine::Program>(nullptr); }

std::shared_ptr<const TapeStretch> Stretch(const Plan& plan, size_t first_call,
                                           size_t calls) {
  auto stretch = std::make_shared<TapeStretch>();
  stretch->first_call = first_call;
  stretch->program = plan;
  stretch->calls.resize(calls);
  return stretch;
}

class TapeStretchesTest : public testing::Test {
 protected:
  // A run that finds these, with a replay under way.
  void Learn(TapeStretchList found) {
    stretches_.Begin();
    stretches_.Note(std::move(found), {.has_learned = true});
  }
  std::shared_ptr<const TapeStretchList> Known() {
    TapeStretches::Start start = stretches_.Begin();
    EXPECT_FALSE(start.learns);
    stretches_.Note({}, {});
    return start.known;
  }
  // Runs that go over what is known, until one learns; at most `most`.
  uint64_t RunsUntilOneLearns(uint64_t most) {
    uint64_t runs = 0;
    while (runs < most && !stretches_.Begin().learns) ++runs;
    return runs;
  }

  const Plan plan_ = MakePlan();
  TapeStretches stretches_;
};

TEST_F(TapeStretchesTest, RunsLearnUntilAReplayWasSeen) {
  for (int i = 0; i < 5; ++i) {
    const TapeStretches::Start start = stretches_.Begin();
    EXPECT_TRUE(start.learns);
    EXPECT_EQ(start.known, nullptr);
    stretches_.Note({}, {.has_learned = false});
  }
  Learn({Stretch(plan_, 0, 4)});
  const auto known = Known();
  ASSERT_NE(known, nullptr);
  EXPECT_EQ(known->size(), 1u);
}

TEST_F(TapeStretchesTest, RunsLearnSoonWhereAStretchWasOfNoUse) {
  Learn({Stretch(plan_, 0, 4)});
  EXPECT_EQ(RunsUntilOneLearns(1000), 254u);
  Learn({Stretch(plan_, 4, 4)});
  stretches_.Note({}, {.missed = true});
  EXPECT_EQ(RunsUntilOneLearns(1000), 2u);
}

TEST_F(TapeStretchesTest, RunsLearnSoonWhereMoreIsShown) {
  Learn({Stretch(plan_, 0, 4)});
  stretches_.Note({}, {.shown = kFewestOpsOfStretch});
  EXPECT_EQ(RunsUntilOneLearns(1000), 2u);
}

TEST_F(TapeStretchesTest, NothingNewIsLearnedEverMoreRarely) {
  Learn({Stretch(plan_, 0, 4)});
  uint64_t before = 0;
  for (int i = 0; i < 5; ++i) {
    Learn({Stretch(plan_, 0, 4)});
    stretches_.Note({}, {.missed = true});
    const uint64_t runs = RunsUntilOneLearns(1000);
    EXPECT_GT(runs, before);
    before = runs;
  }
}

TEST_F(TapeStretchesTest, TheLongerOfTwoIsKept) {
  Learn({Stretch(plan_, 0, 4)});
  Learn({Stretch(plan_, 0, 3)});
  EXPECT_EQ(Known()->front()->calls.size(), 4u);
  Learn({Stretch(plan_, 0, 6)});
  ASSERT_EQ(Known()->size(), 1u);
  EXPECT_EQ(Known()->front()->calls.size(), 6u);
}

TEST_F(TapeStretchesTest, StretchesOfPlansThatAreGoneAreForgotten) {
  Learn({Stretch(MakePlan(), 0, 4)});
  Learn({Stretch(plan_, 8, 4)});
  ASSERT_EQ(Known()->size(), 1u);
  EXPECT_EQ(Known()->front()->first_call, 8u);
}

TEST_F(TapeStretchesTest, TheLastOnesOfAPlaceAreKept) {
  std::vector<Plan> plans;
  for (int i = 0; i < 40; ++i) {
    plans.push_back(MakePlan());
    Learn({Stretch(plans.back(), 2, 4)});
  }
  const auto known = Known();
  EXPECT_EQ(known->size(), 16u);
  EXPECT_EQ(known->front()->program.lock(), plans.back());
}

TEST_F(TapeStretchesTest, KnownOnesAscend) {
  Learn({Stretch(plan_, 7, 4), Stretch(plan_, 0, 4), Stretch(plan_, 20, 4)});
  EXPECT_TRUE(std::ranges::is_sorted(
      *Known(), {}, [](const auto& stretch) { return stretch->first_call; }));
}

TEST_F(TapeStretchesTest, EachPlaceOfAPlanIsTriedOnce) {
  for (int i = 0; i < 3; ++i) stretches_.Begin();
  EXPECT_TRUE(stretches_.Tries(5, plan_));
  EXPECT_FALSE(stretches_.Tries(5, plan_));
  EXPECT_TRUE(stretches_.Tries(6, plan_));
  const Plan other = MakePlan();
  EXPECT_TRUE(stretches_.Tries(5, other));
  // The last ones are remembered, and no more.
  for (size_t call = 100; call < 132; ++call) {
    EXPECT_TRUE(stretches_.Tries(call, plan_));
  }
  EXPECT_TRUE(stretches_.Tries(5, plan_));
}

TEST_F(TapeStretchesTest, NothingIsTriedWhereARunHasJustLearned) {
  for (int i = 0; i < 3; ++i) stretches_.Begin();
  Learn({Stretch(plan_, 0, 4)});
  EXPECT_FALSE(stretches_.Tries(5, plan_));
}

}  // namespace
}  // namespace reprise::bindings
