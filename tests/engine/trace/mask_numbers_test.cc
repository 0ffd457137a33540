// Proves which numbers of an op are put out of its words, and that the op keeps
// its own.

#include "engine/trace/mask_numbers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <vector>

namespace reprise::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

// An op of words 7, a, 8, b, 9 with these numbers.
class MaskNumbersTest : public testing::Test {
 protected:
  OpView Op(double a, double b) {
    words_ = {7, std::bit_cast<uint64_t>(a), 8, std::bit_cast<uint64_t>(b), 9};
    scalars_.clear();
    for (const uint32_t word : {1u, 3u}) {
      scalars_.push_back({word, NumberType::kFloat64, words_[word]});
    }
    OpView op;
    op.words = words_;
    op.scalars = scalars_;
    return op;
  }
  std::vector<uint64_t> Masked(double a, double b) {
    const auto masked = MaskNumbers(Op(a, b), room_);
    return {masked.begin(), masked.end()};
  }

  std::vector<uint64_t> words_;
  std::vector<Scalar> scalars_;
  std::vector<uint64_t> room_;
};

TEST_F(MaskNumbersTest, OpsThatDifferInSuchNumbersAreTheSame) {
  EXPECT_THAT(Masked(5, 0.25), ElementsAreArray(Masked(7, 0.75)));
  EXPECT_NE(Masked(5, 0.25), Masked(-5, 0.25));  // ops may refuse a sign
}

TEST_F(MaskNumbersTest, OnlyTheNumbersWordsAreMarkers) {
  const OpView op = Op(5, 0.25);
  const uint64_t a = *Marker(scalars_[0]);
  const uint64_t b = *Marker(scalars_[1]);
  EXPECT_THAT(MaskNumbers(op, room_), ElementsAre(7u, a, 8u, b, 9u));
  EXPECT_EQ(op.words[1], std::bit_cast<uint64_t>(5.0));
}

TEST_F(MaskNumbersTest, NumbersThatOpsDecideByStandAsTheyAre) {
  const std::vector<uint64_t> masked = Masked(1, 0.25);
  EXPECT_THAT(masked, ElementsAre(7u, std::bit_cast<uint64_t>(1.0), 8u,
                                  *Marker(scalars_[1]), 9u));
  EXPECT_NE(Masked(1, 0.25), Masked(2, 0.25));
}

TEST_F(MaskNumbersTest, AnOpWithoutSuchNumbersIsNotCopied) {
  const OpView op = Op(1, 0);
  EXPECT_EQ(MaskNumbers(op, room_).data(), op.words.data());
}

TEST_F(MaskNumbersTest, WhatTheRoomHeldBeforeIsGone) {
  room_.assign(100, 1);
  EXPECT_EQ(MaskNumbers(Op(5, 0.25), room_).size(), 5u);
}

}  // namespace
}  // namespace reprise::engine
