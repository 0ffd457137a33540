// A loop's body begins where the fewest values cross, and of equal places at
// one that does not depend on where the loop was found.

#include "scheduler/loop_body.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/trace/open_trace.h"
#include "scheduler/op_history.h"
#include "tests/engine/fake_frontend.h"
#include "tests/scheduler/op_on_storages.h"

namespace reprise::scheduler {
namespace {

using ToldBy = LoopBody::ToldBy;

class LoopBodyTest : public testing::Test {
 protected:
  // An op on such storages, that makes another one; its number.
  uint64_t Op(engine::OpId op, const std::vector<uint64_t>& storages,
              int64_t size = 4) {
    WithOp(op, storages, size, [this](const engine::OpView& view) {
      const cache::Signature hash = cache::HashWords(view.words);
      const auto values = open_.Enter(view, hash);
      ops_.Add(view.op, hash.lo, view.operands, values, open_);
      const engine::ResultView result = ResultIn(made_);
      open_.Leave({&result, 1});
    });
    return made_++;
  }
  // So many ops of a ring of four: each takes what the one before made.
  void Ring(uint64_t first, uint64_t count, bool on_weights = false) {
    for (uint64_t i = first; i < first + count; ++i) {
      std::vector<uint64_t> storages = {last_};
      if (on_weights) storages.push_back(1 + i % 4);
      last_ = Op(static_cast<engine::OpId>(20 + i % 4), storages);
    }
  }
  // Of the ring: which op begins the body.
  uint64_t BeginOfRing(uint64_t next, bool has_weights = false) const {
    const LoopBody body(&ops_, 4, ToldBy::kWords, has_weights);
    return (next + body.OpsToBegin()) % 4;
  }

  engine::OpenTrace open_;
  OpHistory ops_;
  uint64_t made_ = 1000;
  uint64_t last_ = 999;
};

TEST_F(LoopBodyTest, BeginsWhereTheFewestValuesCross) {
  for (int pass = 0; pass < 2; ++pass) {
    const uint64_t a = Op(21, {1});
    const uint64_t b = Op(22, {a});
    Op(23, {a, b});
  }
  EXPECT_EQ(LoopBody(&ops_, 3, ToldBy::kWords, false).OpsToBegin(), 0u);
  Op(21, {1});
  EXPECT_EQ(LoopBody(&ops_, 3, ToldBy::kWords, false).OpsToBegin(), 2u);
}

// The state of a simulation goes from body to body, and the first body has it
// from outside.
TEST_F(LoopBodyTest, WhatTheFirstBodyWasGivenCrosses) {
  uint64_t x = 50;
  uint64_t v = 51;
  for (int pass = 0; pass < 2; ++pass) {
    const uint64_t force = Op(21, {x, 1});
    const uint64_t kick = Op(22, {force});
    v = Op(23, {v, kick});
    x = Op(24, {x, v});
  }
  // x and v cross here, and one more value everywhere else.
  EXPECT_EQ(LoopBody(&ops_, 4, ToldBy::kWords, false).OpsToBegin(), 0u);
}

TEST_F(LoopBodyTest, OfEqualsTheFirstOpOfAllIsChosen) {
  Ring(2, 8);
  EXPECT_EQ(BeginOfRing(2), 2u);
}

TEST_F(LoopBodyTest, BehindAPreambleItIsTheSameOpWhereverTheLoopWasFound) {
  std::optional<uint64_t> begin;
  for (uint64_t first = 0; first < 4; ++first) {
    open_.Clear();
    ops_.Clear();
    Op(5, {900});
    Op(6, {901});
    Op(7, {902});
    Ring(first, 8);
    if (!begin.has_value()) begin = BeginOfRing(first);
    EXPECT_EQ(BeginOfRing(first), *begin) << first;
  }
}

TEST_F(LoopBodyTest, AnOpThatItsWeightTellsIsPreferredWhereThereAreWeights) {
  Op(5, {900});
  for (int pass = 0; pass < 2; ++pass) {
    last_ = Op(30, {last_});
    last_ = Op(29, {last_, 7});
    last_ = Op(28, {last_});
  }
  EXPECT_EQ(LoopBody(&ops_, 3, ToldBy::kWords, true).OpsToBegin(), 1u);
}

// Each body is of another size.
TEST_F(LoopBodyTest, TheCodeOfALoopBeginsWhereAWeightTellsIt) {
  for (int64_t size = 4; size < 6; ++size) {
    last_ = Op(21, {last_}, size);
    for (engine::OpId op = 30; op < 45; ++op) last_ = Op(op, {last_}, size);
    last_ = Op(46, {last_, 1}, size);
  }
  // Behind the op on a weight, or with it: nine ops at most.
  const size_t left = LoopBody(&ops_, 17, ToldBy::kCode, true).OpsToBegin();
  EXPECT_TRUE(left < 9 || left == 16) << left;
  EXPECT_EQ(LoopBody::EndBefore(ops_, 17, 17), 16u);
  EXPECT_EQ(LoopBody::EndBefore(ops_, 12, 17), std::nullopt);
}

TEST_F(LoopBodyTest, CodeWithoutAWeightBeginsNowhere) {
  for (int64_t size = 4; size < 6; ++size) {
    for (engine::OpId op = 30; op < 40; ++op) last_ = Op(op, {last_}, size);
  }
  EXPECT_GT(LoopBody(&ops_, 10, ToldBy::kCode, false).OpsToBegin(), 10u);
}

}  // namespace
}  // namespace reprise::scheduler
