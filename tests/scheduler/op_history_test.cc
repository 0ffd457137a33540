// What the ops of an open trace have in common is told by their words, their
// operators and the storages that are older than the trace.

#include "scheduler/op_history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "engine/trace/open_trace.h"
#include "tests/engine/fake_frontend.h"
#include "tests/scheduler/op_on_storages.h"

namespace reprise::scheduler {
namespace {

using ::testing::ElementsAre;

class OpHistoryTest : public testing::Test {
 protected:
  // An op on such storages of that size, that makes `made`.
  void Op(engine::OpId op, const std::vector<uint64_t>& storages, uint64_t made,
          int64_t size = 4) {
    WithOp(op, storages, size, [this, made](const engine::OpView& view) {
      const cache::Signature hash = cache::HashWords(view.words);
      const auto values = open_.Enter(view, hash);
      ops_.Add(view.op, hash.lo, view.operands, values, open_);
      const engine::ResultView result = ResultIn(made);
      open_.Leave({&result, 1});
    });
  }

  engine::OpenTrace open_;
  OpHistory ops_;
};

TEST_F(OpHistoryTest, FormsAreTheWordsAndCodeIsTheOperator) {
  Op(7, {1}, 100);
  Op(7, {2}, 101);
  Op(7, {1}, 102, /*size=*/8);
  Op(8, {1}, 103);
  EXPECT_TRUE(ops_.SameForm(0, 1));
  EXPECT_FALSE(ops_.SameForm(0, 2));
  EXPECT_TRUE(ops_.SameCode(0, 2));
  EXPECT_FALSE(ops_.SameCode(0, 3));
  EXPECT_EQ(ops_[2].elements, 8);
}

TEST_F(OpHistoryTest, EachOpKnowsTheLastOneOfItsFormAndOfItsWeight) {
  Op(7, {1}, 100);
  Op(7, {2}, 101);
  Op(7, {1}, 102);
  EXPECT_EQ(ops_[0].before, 0u);
  EXPECT_EQ(ops_[2].before, 1u);
  EXPECT_EQ(ops_[1].before_on_weight, 1u);
  EXPECT_EQ(ops_[2].before_on_weight, 0u);
  const uint64_t words[] = {7, 4};
  const size_t* const last = ops_.FindLast(cache::HashWords(words).lo);
  ASSERT_NE(last, nullptr);
  EXPECT_EQ(*last, 2u);
}

TEST_F(OpHistoryTest, WeightsAreOlderThanTheTrace) {
  Op(7, {1, 2}, 100);
  Op(7, {1, 100}, 101);
  Op(7, {3, 100}, 102);
  EXPECT_THAT(ops_.SharedStorages(0, 1), ElementsAre(TokenOf(1), nullptr));
  // Both use what the trace made, which is no weight.
  EXPECT_THAT(ops_.SharedStorages(1, 2), ElementsAre(nullptr, nullptr));
  EXPECT_THAT(ops_.SameOperands(1, 2), ElementsAre(false, true));
  EXPECT_TRUE(ops_[0].has_older);
  Op(7, {102}, 103);
  EXPECT_FALSE(ops_[3].has_older);
}

// A token may come again once its storage is gone.
TEST_F(OpHistoryTest, WhatTheTraceMadeGoesByItsNumber) {
  Op(7, {}, 100);
  Op(7, {100}, 101);
  Op(7, {}, 100);
  Op(7, {100}, 102);
  EXPECT_FALSE(ops_.SameWeight(1, 3));
}

TEST_F(OpHistoryTest, StretchesUseTheSameWeights) {
  for (uint64_t i = 0; i < 4; ++i) Op(7, {1 + i}, 100 + i);
  for (uint64_t i = 0; i < 3; ++i) Op(7, {1 + i}, 104 + i);
  Op(7, {9}, 107);
  EXPECT_TRUE(ops_.UseSameWeights(0, 4, 8));   // three of four
  EXPECT_FALSE(ops_.UseSameWeights(0, 2, 4));  // none
}

TEST_F(OpHistoryTest, ValuesGoFromOpToOp) {
  for (int body = 0; body < 2; ++body) {
    Op(7, {1}, 100);
    Op(7, {100}, 101);
    Op(7, {100, 101}, 102);
    Op(7, {2}, 103);
  }
  EXPECT_THAT(ops_.Crossings(0, 4), ElementsAre(0, 1, 2, 0));
}

// What a body makes for the next one crosses where that begins, though the
// first body took it from outside.
TEST_F(OpHistoryTest, ValuesGoFromBodyToBody) {
  Op(5, {1}, 90);
  for (uint64_t body = 0; body < 2; ++body) {
    const uint64_t state = body == 0 ? 50 : 102;  // of the body before
    Op(7, {2}, 100 + 10 * body);
    Op(7, {100 + 10 * body, state}, 101 + 10 * body);
    Op(7, {101 + 10 * body}, 102 + 10 * body);
  }
  EXPECT_THAT(ops_.Crossings(1, 3), ElementsAre(1, 2, 1));
}

TEST_F(OpHistoryTest, NothingIsLeftOnceItIsCleared) {
  Op(7, {1}, 100);
  ops_.Clear();
  EXPECT_EQ(ops_.size(), 0u);
  Op(7, {1}, 101);
  EXPECT_EQ(ops_[0].before, 0u);
  EXPECT_EQ(ops_[0].before_on_weight, 0u);
}

}  // namespace
}  // namespace reprise::scheduler
