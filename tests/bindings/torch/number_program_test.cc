#include "bindings/torch/region/number_program.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

namespace reprise::bindings {
namespace {

using Nodes = std::vector<NumberNode>;

NumberNode Given(uint32_t index) {
  return {.op = NumberOp::kGiven, .left = index};
}
NumberNode Read(uint32_t index) {
  return {.op = NumberOp::kRead, .left = index};
}
NumberNode Constant(double value) {
  return {.op = NumberOp::kConstant, .value = value};
}
NumberNode Of(NumberOp op, uint32_t left, uint32_t right = 0) {
  return {.op = op, .left = left, .right = right};
}

std::optional<double> Compute(NumberOp op, double left, double right = 0) {
  std::vector<double> values;
  const Nodes nodes = {Given(0), Given(1), Of(op, 0, 1)};
  const double given[] = {left, right};
  if (!ComputeNumbers(nodes, given, {}, values)) return std::nullopt;
  return values.back();
}

TEST(NumberProgramTest, ComputesAsFloatsDo) {
  EXPECT_EQ(Compute(NumberOp::kNegate, 2), -2);
  EXPECT_EQ(Compute(NumberOp::kAbsolute, -2.5), 2.5);
  EXPECT_EQ(Compute(NumberOp::kAdd, 0.1, 0.2), 0.1 + 0.2);
  EXPECT_EQ(Compute(NumberOp::kSubtract, 1, 0.9), 1 - 0.9);
  EXPECT_EQ(Compute(NumberOp::kMultiply, 3, 0.1), 3 * 0.1);
  EXPECT_EQ(Compute(NumberOp::kDivide, 1, 3), 1.0 / 3);
  EXPECT_EQ(Compute(NumberOp::kLess, 1, 2), 1);
  EXPECT_EQ(Compute(NumberOp::kLess, 2, 2), 0);
  EXPECT_EQ(Compute(NumberOp::kLessEqual, 2, 2), 1);
  EXPECT_EQ(Compute(NumberOp::kEqual, 2, 3), 0);
}

// A compiler that knows the exponent may make a square or a root of it, which
// the library's function need not be.
TEST(NumberProgramTest, PowersAreTheLibrarysOwn) {
  double (*const volatile power)(double, double) = &std::pow;
  for (const double base : {0.9, 0.999, 1.1, 3.7, 1e-5}) {
    for (const double exponent : {0.5, 2.0, -1.0, 17.0, 40.0}) {
      const double expected = power(base, exponent);
      const auto found = Compute(NumberOp::kPower, base, exponent);
      ASSERT_TRUE(std::isfinite(expected));
      EXPECT_EQ(found, expected);
    }
  }
}

// As CPython has them: positive powers of zero are zero, odd and even ones.
TEST(NumberProgramTest, PositivePowersOfZeroAreZero) {
  for (const double exponent : {0.5, 1.0, 2.0, 3.0, 1e9}) {
    const auto found = Compute(NumberOp::kPower, 0, exponent);
    ASSERT_TRUE(found);
    EXPECT_EQ(*found, 0);
    EXPECT_FALSE(std::signbit(*found));
    EXPECT_FALSE(Compute(NumberOp::kPower, -0.0, exponent));
  }
  EXPECT_FALSE(Compute(NumberOp::kPower, 0, 0));
  EXPECT_FALSE(Compute(NumberOp::kPower, 0, INFINITY));
  EXPECT_FALSE(Compute(NumberOp::kPower, 0, NAN));
}

TEST(NumberProgramTest, RefusesWherePythonRaisesOrLeavesTheFloats) {
  EXPECT_FALSE(Compute(NumberOp::kDivide, 1, 0));
  EXPECT_FALSE(Compute(NumberOp::kDivide, 1, -0.0));
  EXPECT_FALSE(Compute(NumberOp::kPower, -2, 0.5));
  EXPECT_FALSE(Compute(NumberOp::kPower, 0, -1));
  EXPECT_FALSE(Compute(NumberOp::kPower, 10, 400));
  EXPECT_FALSE(Compute(NumberOp::kMultiply, 1e200, 1e200));
  EXPECT_FALSE(Compute(NumberOp::kAdd, NAN, 1));
}

TEST(NumberProgramTest, OperandsAreEarlierNumbers) {
  EXPECT_TRUE(
      IsWhole(Nodes{Given(0), Read(0), Of(NumberOp::kAdd, 0, 1)}, 1, 1));
  EXPECT_FALSE(IsWhole(Nodes{Given(1)}, 1, 1));
  EXPECT_FALSE(IsWhole(Nodes{Read(1)}, 1, 1));
  EXPECT_FALSE(IsWhole(Nodes{Of(NumberOp::kNegate, 0)}, 1, 1));
  EXPECT_FALSE(IsWhole(Nodes{Given(0), Of(NumberOp::kAdd, 0, 1)}, 1, 1));
  EXPECT_FALSE(IsWhole(Nodes{Of(static_cast<NumberOp>(99), 0)}, 1, 1));
}

TEST(NumberProgramTest, NodesAreReadFromWords) {
  const std::vector<int64_t> words = {0, 1, 0, 0, 2, 0, 0, 0, 5, 0, 1, 1};
  const std::vector<double> values = {4, 0.5, 4.5};
  const Nodes nodes = NodesOf(words, values);
  ASSERT_EQ(nodes.size(), 3);
  EXPECT_EQ(nodes[0], Given(1));
  EXPECT_EQ(nodes[1], Constant(0.5));
  NumberNode sum = Of(NumberOp::kAdd, 0, 1);
  sum.looked_at = true;
  EXPECT_EQ(nodes[2], sum);
  EXPECT_TRUE(NodesOf(words, std::vector<double>{1}).empty());
}

// 1 - 0.9 ** step, of 50 counters that stand for one.
TEST(NumberProgramTest, WhatIsTheSameIsComputedOnce) {
  constexpr uint32_t kCounters = 50;
  Nodes nodes = {Constant(1), Constant(0.9)};
  std::vector<uint32_t> used;
  for (uint32_t k = 0; k < kCounters; ++k) {
    const auto at = static_cast<uint32_t>(nodes.size());
    nodes.push_back(Read(k));
    nodes.push_back(Of(NumberOp::kPower, 1, at));
    nodes.push_back(Of(NumberOp::kSubtract, 0, at + 1));
    used.push_back(at + 2);
  }
  const std::vector<uint32_t> one(kCounters, 0);
  const NumberProgram program(nodes, one, used, {}, {});
  EXPECT_EQ(program.size(), 5);
  const std::vector<double> reads(kCounters, 3);
  const auto values = program.Run({}, reads);
  ASSERT_TRUE(values.has_value());
  EXPECT_EQ(*values, std::vector<double>(kCounters, 1 - std::pow(0.9, 3)));
}

TEST(NumberProgramTest, NumbersHaveToBeWhatTheyWere) {
  const Nodes nodes = {Read(0), Constant(5), Of(NumberOp::kLess, 0, 1)};
  const uint32_t stands_for[] = {0};
  const NumberProgram program(nodes, stands_for, {}, {{.node = 2, .value = 1}},
                              {});
  EXPECT_FALSE(program.empty());
  EXPECT_TRUE(program.Run({}, std::vector<double>{4}));
  EXPECT_FALSE(program.Run({}, std::vector<double>{5}));
}

TEST(NumberProgramTest, NumbersHaveToBeEqualInEachBit) {
  const Nodes nodes = {Given(0), Read(0), Of(NumberOp::kNegate, 1)};
  const uint32_t stands_for[] = {0};
  const NumberProgram program(nodes, stands_for, {}, {},
                              {{.one = 0, .other = 2}});
  EXPECT_TRUE(program.Run(std::vector<double>{-3}, std::vector<double>{3}));
  EXPECT_FALSE(program.Run(std::vector<double>{3}, std::vector<double>{3}));
  EXPECT_FALSE(program.Run(std::vector<double>{0}, std::vector<double>{0}));
}

TEST(NumberProgramTest, AProgramOfNothingIsEmpty) {
  EXPECT_TRUE(NumberProgram().empty());
  EXPECT_TRUE(NumberProgram(Nodes{Given(0)}, {}, {}, {}, {}).empty());
}

}  // namespace
}  // namespace reprise::bindings
