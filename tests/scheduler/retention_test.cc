// Proves which plans are found to be in nobody's use any more.

#include "scheduler/retention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "tests/engine/fake_frontend.h"

namespace reprise::scheduler {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using State = TraceEntry::State;

class RetentionTest : public testing::Test {
 protected:
  static constexpr uint64_t kBudget = 1600;

  ~RetentionTest() override { traces_.Clear(); }

  // A trace whose plan takes so much, and was made in the session's first pass.
  TraceEntry* Planned(uint64_t signature, uint64_t plan_bytes,
                      State state = State::kCheckOps) {
    TraceEntry* const entry =
        traces_
            .EntryFor({.signature = {.lo = signature},
                       .ops = 3,
                       .head_hash = signature,
                       .externals = Externals(&frontend_)})
            .entry;
    entry->state = state;
    entry->instances.Begin({.bytes = plan_bytes});
    traces_.HasPlan(entry);
    return entry;
  }

  engine::FakeFrontend frontend_;
  PlanCache plans_{kBudget};
  TraceTable traces_{size_t{1} << 20, [](TraceEntry&) {}};
  Retention retention_{&traces_, &plans_};
};

TEST_F(RetentionTest, APlanIsLargeThatTakesASixteenthOfTheBudget) {
  EXPECT_TRUE(retention_.IsLarge(*Planned(1, kBudget / 16)));
  TraceEntry* const small = Planned(2, kBudget / 16 - 10);
  EXPECT_FALSE(retention_.IsLarge(*small));
  auto recording = std::make_shared<engine::Trace>(&frontend_);
  recording->host_bytes = 10;
  small->planned = recording;
  EXPECT_TRUE(retention_.IsLarge(*small));
}

TEST_F(RetentionTest, WhatTakesTheWholeBudgetMayStayAwayFor64Passes) {
  TraceEntry* const whole = Planned(1, kBudget);
  Planned(2, kBudget / 2);
  EXPECT_THAT(retention_.Unproved(64), IsEmpty());
  EXPECT_THAT(Retention(&traces_, &plans_).Unproved(65), ElementsAre(whole));
  whole->came = 30;
  EXPECT_THAT(Retention(&traces_, &plans_).Unproved(94), IsEmpty());
}

TEST_F(RetentionTest, OnlyPlansThatAreNotProvedGoAndEachOnce) {
  Planned(1, kBudget, State::kReady);
  Planned(2, kBudget, State::kBuilding);
  Planned(3, kBudget)->stayed_away = true;
  TraceEntry* const waits = Planned(4, kBudget, State::kCheckWhole);
  EXPECT_THAT(retention_.Unproved(1000), ElementsAre(waits));
}

TEST_F(RetentionTest, LooksAgainAfterAPassForEachPlanAndNoLessThan64) {
  EXPECT_THAT(retention_.Unproved(0), IsEmpty());
  TraceEntry* const huge = Planned(0, 100 * kBudget);
  EXPECT_THAT(retention_.Unproved(63), IsEmpty());
  EXPECT_THAT(retention_.Unproved(64), ElementsAre(huge));
  for (uint64_t i = 1; i < 100; ++i) Planned(i, 0);
  EXPECT_THAT(retention_.Unproved(128), ElementsAre(huge));
  EXPECT_THAT(retention_.Unproved(227), IsEmpty());
  EXPECT_THAT(retention_.Unproved(228), ElementsAre(huge));
}

TEST_F(RetentionTest, PartsThatHaveNotComeSinceTheLastLookAreIdle) {
  TraceEntry* const whole = Planned(1, 0, State::kReady);
  TraceEntry* const away = Planned(2, 0, State::kReady);
  TraceEntry* const built = Planned(3, 0, State::kBuilding);
  TraceEntry* const without = Planned(4, 0, State::kGivenUp);
  TraceEntry* const comes = Planned(5, 0, State::kReady);
  EXPECT_THAT(retention_.IdleParts(whole), IsEmpty());
  for (const TraceEntry* part : {away, built, without, comes}) {
    whole->joined.AddPart({part->id, part->seen});
  }
  ++comes->seen;
  EXPECT_THAT(retention_.IdleParts(whole), ElementsAre(away, built));
  // Each is told of once, and one that came is looked at again.
  EXPECT_THAT(retention_.IdleParts(whole), ElementsAre(comes));
  EXPECT_THAT(retention_.IdleParts(whole), IsEmpty());
}

TEST_F(RetentionTest, TheSameLoopFromAnotherOpOnCountsAsAPart) {
  const auto of = [this](uint64_t signature, uint64_t bytes,
                         std::vector<uint64_t> hashes) {
    TraceEntry* const entry = Planned(signature, bytes, State::kReady);
    entry->known_ops.Know(std::move(hashes));
    return entry;
  };
  TraceEntry* const whole = of(1, kBudget, {1, 2, 3});
  TraceEntry* const rotated = of(2, kBudget, {2, 3, 1});
  of(3, kBudget, {1, 2, 4});
  of(4, 1, {3, 1, 2});                 // not worth it
  of(5, kBudget, {3, 1, 2})->ops = 4;  // longer
  retention_.LookForRotated(whole);
  EXPECT_THAT(retention_.IdleParts(whole), ElementsAre(rotated));
  retention_.LookForRotated(whole);
  EXPECT_FALSE(whole->joined.has_parts()) << "it was looked for twice";
}

}  // namespace
}  // namespace reprise::scheduler
