// What varies is learned so often as may help, and recordings have to show it.

#include "scheduler/variations.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tests/engine/fake_frontend.h"
#include "tests/engine/trace_builder.h"

namespace reprise::scheduler {
namespace {

using engine::Scalar;
using engine::Trace;
using engine::ValueId;

Scalar Number(uint64_t bits) {
  return {.word = 0, .type = engine::NumberType::kInt64, .bits = bits};
}

class VariationsTest : public testing::Test {
 protected:
  // Of one op with one number, and of three values.
  std::unique_ptr<Trace> Recording(uint64_t number, uint64_t origin) {
    engine::TraceBuilder builder(&frontend_);
    for (int i = 0; i < 3; ++i) builder.External();
    builder.Op({0}, {}, 1);
    std::unique_ptr<Trace> trace = builder.Take();
    trace->ops[0].slots = {{.scalar = 0, .recorded = Number(number)}};
    for (engine::Value& value : trace->values) {
      value.origin = origin;
      value.dead_at = 1;
      value.held = false;
    }
    return trace;
  }
  bool LearnNumber(uint64_t number) {
    const std::array<Scalar, 1> now = {Number(number)};
    return variations_.LearnNumbers(0, first_->ops[0], now);
  }
  bool LearnMove(bool plan_has_paid = false) {
    const std::array<ValueId, 1> moved = {1};
    return variations_.LearnMoves(moved, plan_has_paid);
  }

  engine::FakeFrontend frontend_;
  Variations variations_;
  bool AreTold(const Trace& second) {
    return variations_.AreTold(*first_, second);
  }

  const std::unique_ptr<Trace> first_ = Recording(1, 0x1000);
};

TEST_F(VariationsTest, AnyTwoRecordingsWillDoWhereNothingIsKnown) {
  EXPECT_TRUE(AreTold(*first_));
}

TEST_F(VariationsTest, ANumberThatChangedMustDifferInBothRecordings) {
  ASSERT_TRUE(LearnNumber(2));
  variations_.NumbersAreTold();
  EXPECT_FALSE(AreTold(*Recording(1, 0x2000)));
  EXPECT_TRUE(AreTold(*Recording(3, 0x2000)));
}

TEST_F(VariationsTest, ANumberThatCameAsRecordedNeedNotChange) {
  ASSERT_TRUE(LearnNumber(1));
  variations_.NumbersAreTold();
  EXPECT_TRUE(AreTold(*Recording(1, 0x2000)));
}

TEST_F(VariationsTest, NumbersAreNotLearnedForEver) {
  int learned = 0;
  while (learned < 100 && LearnNumber(2)) ++learned;
  EXPECT_EQ(learned, 16);
  int dropped = 0;
  while (dropped < 100 && !AreTold(*first_)) ++dropped;
  EXPECT_EQ(dropped, 15);
}

TEST_F(VariationsTest, WhatMovedMustLieElsewhereInBothRecordings) {
  ASSERT_TRUE(LearnMove());
  EXPECT_TRUE(AreTold(*Recording(1, 0x2000)));
  const auto second = Recording(1, 0x2000);
  second->values[1].origin = first_->values[1].origin;
  for (int dropped = 0; dropped < 4; ++dropped) {
    EXPECT_FALSE(AreTold(*second));
  }
  EXPECT_TRUE(AreTold(*second));  // waited for in vain
  ASSERT_TRUE(LearnMove());
  EXPECT_FALSE(AreTold(*second));
}

TEST_F(VariationsTest, MovesAreLearnedAgainOfAPlanThatHasPaid) {
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(LearnMove());
  EXPECT_FALSE(LearnMove());
  EXPECT_TRUE(LearnMove(/*plan_has_paid=*/true));
  for (int i = 0; i < 7; ++i) EXPECT_TRUE(LearnMove());
  EXPECT_FALSE(LearnMove());
}

TEST_F(VariationsTest, TheGeneratorIsLearnedAgainAfterManyReplays) {
  uint64_t replays = 10;
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(variations_.LearnDraw(replays));
  EXPECT_FALSE(variations_.LearnDraw(replays));
  replays += Variations::kReplaysToTryAgain - 1;
  EXPECT_FALSE(variations_.LearnDraw(replays));
  EXPECT_TRUE(variations_.LearnDraw(replays + 1));
}

TEST_F(VariationsTest, MarksWhatIsReplacedAndWhatLivesOn) {
  const std::array<ValueId, 1> replaced = {0}, outliving = {2};
  variations_.LearnReplaced(replaced);
  variations_.LearnOutliving(outliving);
  auto trace = Recording(1, 0x1000);
  variations_.Mark(*trace);
  EXPECT_TRUE(trace->values[0].comes_anew);
  EXPECT_FALSE(trace->values[2].comes_anew);
  EXPECT_FALSE(trace->values[0].held);
  EXPECT_EQ(trace->values[0].dead_at, 1u);
  EXPECT_TRUE(trace->values[2].held);
  EXPECT_EQ(trace->values[2].dead_at, engine::Value::kLives);
  // Too often: any of them may.
  for (int i = 0; i < 8; ++i) variations_.LearnOutliving(outliving);
  trace = Recording(1, 0x1000);
  variations_.Mark(*trace);
  EXPECT_TRUE(trace->values[0].held);
  EXPECT_EQ(trace->values[1].dead_at, engine::Value::kLives);
}

TEST_F(VariationsTest, CountsWhatItKeeps) {
  const size_t before = variations_.HostBytes();
  ASSERT_TRUE(LearnNumber(2));
  ASSERT_TRUE(LearnMove());
  EXPECT_GT(variations_.HostBytes(), before);
}

}  // namespace
}  // namespace reprise::scheduler
