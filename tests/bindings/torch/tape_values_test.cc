// The tensors of one run of a tape: whose they are, who holds them, and for how
// long.

#include "bindings/torch/region/tape_values.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "tests/bindings/torch/recording.h"

namespace reprise::bindings {
namespace {

const TapeCall& CallOf(const Recording& tape, size_t index) {
  return tape->record().calls.at(index);
}
int32_t ResultOf(const Recording& tape, size_t call) {
  return CallOf(tape, call).results.at(0);
}
int32_t ForeignOf(const Recording& tape) {
  return static_cast<int32_t>(tape->given().foreign.at(0));
}

class TapeValuesTest : public testing::Test {
 protected:
  // The sum of the argument and `foreign_`.
  Recording Sum() {
    return Record({x_}, [this] { return Tensors{x_ + foreign_}; });
  }

  const at::NoGradGuard no_grad_;
  const at::Tensor x_ = at::randn({1 << 15});
  at::Tensor foreign_ = at::randn({1 << 15});  // too large to be a constant
  torch::jit::Stack stack_;
};

TEST_F(TapeValuesTest, WhatIsGoneIsMissedAtOnce) {
  const Recording tape = Sum();
  const TapeInputs inputs = {{&x_, 1}, {}};
  EXPECT_TRUE(TapeValues(*tape, /*held=*/false).Begin(inputs));
  foreign_.reset();
  EXPECT_FALSE(TapeValues(*tape, /*held=*/false).Begin(inputs));
}

TEST_F(TapeValuesTest, OfWhatOthersHoldOneReferenceIsTakenWhenACallIsGivenIt) {
  const Recording tape = Sum();
  const int32_t reg = ForeignOf(tape);
  const size_t before = foreign_.use_count();
  {
    TapeValues values(*tape, /*held=*/true);
    ASSERT_TRUE(values.Begin({{&x_, 1}, {}}));
    EXPECT_EQ(values.Look(reg), foreign_.unsafeGetTensorImpl());
    EXPECT_EQ(foreign_.use_count(), before);
    EXPECT_TRUE(values.Take(reg).is_same(foreign_));
    EXPECT_TRUE(values.Take(reg).is_same(foreign_));
    EXPECT_EQ(foreign_.use_count(), before + 1);
  }
  EXPECT_EQ(foreign_.use_count(), before);
  TapeValues holding(*tape, /*held=*/false);
  ASSERT_TRUE(holding.Begin({{&x_, 1}, {}}));
  EXPECT_EQ(foreign_.use_count(), before + 1);
}

TEST_F(TapeValuesTest, AllThatComesFromOutsideIsTaken) {
  const Recording tape = Sum();
  const size_t before = foreign_.use_count();
  TapeValues values(*tape, /*held=*/true);
  ASSERT_TRUE(values.Begin({{&x_, 1}, {}}));
  EXPECT_TRUE(values.TakeAll());
  EXPECT_EQ(foreign_.use_count(), before + 1);
  EXPECT_TRUE(values.TakeAll());
  EXPECT_EQ(foreign_.use_count(), before + 1) << "it is taken already";
}

TEST_F(TapeValuesTest, WhatHasGoneMeanwhileIsNotTaken) {
  const Recording tape = Sum();
  TapeValues values(*tape, /*held=*/true);
  ASSERT_TRUE(values.Begin({{&x_, 1}, {}}));
  foreign_.reset();
  EXPECT_FALSE(values.TakeAll());
}

TEST_F(TapeValuesTest, NothingIsWhereNoRegisterIs) {
  const Recording tape = Sum();
  TapeValues values(*tape, /*held=*/true);
  ASSERT_TRUE(values.Begin({{&x_, 1}, {}}));
  for (const int32_t reg : {TapeArgument::kUndefined, TapeArgument::kNone}) {
    EXPECT_FALSE(values.Take(reg).defined());
    EXPECT_EQ(values.Look(reg), nullptr);
  }
  EXPECT_EQ(values.Look(ResultOf(tape, 0)), nullptr) << "it is not made yet";
}

TEST_F(TapeValuesTest, ACallIsMadeOnWhatIsGivenAndItsResultIsKept) {
  const Recording tape = Sum();
  const at::Tensor y = at::randn({1 << 15});
  TapeValues values(*tape, /*held=*/true);
  const TapeInputs inputs = {{&y, 1}, {}};
  ASSERT_TRUE(values.Begin(inputs));
  stack_ = {1, 2, 3};  // what lies there is nobody's
  ASSERT_TRUE(values.Make(CallOf(tape, 0), inputs, stack_));
  EXPECT_TRUE(values.Take(ResultOf(tape, 0)).equal(y + foreign_));
  EXPECT_EQ(values.Look(ResultOf(tape, 0)),
            values[ResultOf(tape, 0)].unsafeGetTensorImpl());
}

// Of two recordings whose number differs it is known that it varies.
TEST_F(TapeValuesTest, NumbersAreThoseOfTheRun) {
  const auto by = [this](double number) {
    return [this, number] { return Tensors{at::mul(x_, -number)}; };
  };
  const Recording first = Record({x_}, by(0.25), {.numbers = {0.25}});
  const Recording tape =
      Record({x_}, by(0.5), {.numbers = {0.5}, .expected = {first}});
  const std::vector<double> numbers = {0.75};
  const TapeInputs inputs = {{&x_, 1}, numbers};
  TapeValues values(*tape, /*held=*/true);
  ASSERT_TRUE(values.Begin(inputs));
  ASSERT_TRUE(values.Make(CallOf(tape, 0), inputs, stack_));
  EXPECT_TRUE(values.Take(ResultOf(tape, 0)).equal(x_ * -0.75));
}

TEST_F(TapeValuesTest, AnotherValueThatIsReadEndsTheRun) {
  const at::Tensor one = at::ones({});
  const at::Tensor two = at::full({}, 2);
  const Recording tape = Record({one}, [&] {
    (void)one.item();
    return Tensors{one + 1};
  });
  for (const at::Tensor& given : {one, two}) {
    const TapeInputs inputs = {{&given, 1}, {}};
    TapeValues values(*tape, /*held=*/true);
    ASSERT_TRUE(values.Begin(inputs));
    EXPECT_EQ(values.Make(CallOf(tape, 0), inputs, stack_), given.is_same(one));
  }
}

TEST_F(TapeValuesTest, CallsAreMadeInTheirGradMode) {
  const at::Tensor leaf = at::randn({3}).requires_grad_();
  const at::AutoGradMode grad(true);
  const Recording tape = Record({leaf},
                                [&] {
                                  const at::Tensor tracked = leaf * 2;
                                  const at::NoGradGuard none;
                                  return Tensors{tracked, leaf * 3};
                                },
                                {.level = TapeLevel::kAboveAutograd});
  TapeValues values(*tape, /*held=*/true);
  const TapeInputs inputs = {{&leaf, 1}, {}};
  ASSERT_TRUE(values.Begin(inputs));
  at::GradMode::set_enabled(false);
  ASSERT_TRUE(values.Make(CallOf(tape, 0), inputs, stack_));
  at::GradMode::set_enabled(true);
  ASSERT_TRUE(values.Make(CallOf(tape, 1), inputs, stack_));
  EXPECT_TRUE(values.Take(ResultOf(tape, 0)).requires_grad());
  EXPECT_FALSE(values.Take(ResultOf(tape, 1)).requires_grad());
}

TEST_F(TapeValuesTest, ConstantsAreCopiesOfEachRun) {
  const at::Tensor x = at::randn({3});
  const auto program = [&x] {
    const at::Tensor two =
        at::detail::scalar_tensor_static(2, at::kFloat, at::kCPU);
    return Tensors{x * two.add_(1)};
  };
  const Recording first = Record({x}, program);
  const Recording tape = Record({x}, program, {.expected = {first}});
  ASSERT_EQ(tape->given().constants.size(), 1u);
  const auto constant = static_cast<int32_t>(tape->given().constants[0]);
  const TapeInputs inputs = {{&x, 1}, {}};
  for (int run = 0; run < 2; ++run) {
    TapeValues values(*tape, /*held=*/true);
    ASSERT_TRUE(values.Begin(inputs));
    EXPECT_EQ(values.Take(constant).item<float>(), 2);
    ASSERT_TRUE(values.Make(CallOf(tape, 0), inputs, stack_));  // writes it
    EXPECT_EQ(values.Take(constant).item<float>(), 3);
  }
}

TEST_F(TapeValuesTest, ViewsAreMadeFromTheirForms) {
  const at::Tensor x = at::randn({4, 3});
  const Recording tape =
      Record({x}, [&] { return Tensors{x.sin().t().exp()}; });
  ASSERT_TRUE(CallOf(tape, 1).only_views);
  TapeValues values(*tape, /*held=*/true);
  const TapeInputs inputs = {{&x, 1}, {}};
  ASSERT_TRUE(values.Begin(inputs));
  ASSERT_TRUE(values.Make(CallOf(tape, 0), inputs, stack_));
  values.MakeViews(CallOf(tape, 1));
  at::Tensor& made = values[ResultOf(tape, 0)];
  const at::Tensor& view = values.Take(ResultOf(tape, 1));
  EXPECT_TRUE(view.is_alias_of(made));
  EXPECT_TRUE(view.equal(made.t()));
  EXPECT_EQ(view.strides(), made.t().strides());
  const auto version = view._version();
  made.add_(1);
  EXPECT_EQ(view._version(), version + 1) << "writes of one are the other's";
}

TEST_F(TapeValuesTest, ValuesGoBehindTheirLastUse) {
  const Recording tape =
      Record({x_}, [this] { return Tensors{x_.sin().cos()}; });
  TapeValues values(*tape, /*held=*/true);
  const TapeInputs inputs = {{&x_, 1}, {}};
  ASSERT_TRUE(values.Begin(inputs));
  ASSERT_TRUE(values.Make(CallOf(tape, 0), inputs, stack_));
  values.DropBehind(CallOf(tape, 0));
  EXPECT_EQ(x_.use_count(), 1u);
  ASSERT_TRUE(values.Make(CallOf(tape, 1), inputs, stack_));
  const at::Tensor sin = values[ResultOf(tape, 0)];
  EXPECT_EQ(sin.use_count(), 2u);
  values.DropBehind(CallOf(tape, 1));
  EXPECT_EQ(sin.use_count(), 1u);
  EXPECT_TRUE(values.Take(ResultOf(tape, 1)).defined()) << "an output";
}

TEST_F(TapeValuesTest, GradientsThatAreReplacedAreDropped) {
  const at::AutoGradMode grad(true);
  at::Tensor leaf = at::randn({3}).requires_grad_();
  const at::Tensor x = at::randn({3});
  const auto step = [&] {
    leaf.mutable_grad().reset();
    (leaf * x).sum().backward();
    return Tensors{};
  };
  step();
  const Recording tape = Record({x}, step, {.watched = {leaf}});
  TapeValues values(*tape, /*held=*/true);
  ASSERT_TRUE(values.Begin({{&x, 1}, {}}));
  ASSERT_TRUE(leaf.grad().defined());
  values.DropGradients();
  EXPECT_FALSE(leaf.grad().defined());
}

// One that is there before, and that calls read, is there or nothing is begun.
TEST_F(TapeValuesTest, GradientsThatAreReadAreGiven) {
  const at::AutoGradMode grad(true);
  at::Tensor leaf = at::randn({3}).requires_grad_();
  const at::Tensor x = at::randn({3});
  leaf.mutable_grad() = at::ones({3});
  const Recording tape = Record({x},
                                [&] {
                                  const at::NoGradGuard none;
                                  return Tensors{leaf.grad() * x};
                                },
                                {.watched = {leaf}});
  ASSERT_EQ(tape->given().gradients.size(), 1u);
  const auto gradient = static_cast<int32_t>(tape->given().gradients[0]);
  TapeValues values(*tape, /*held=*/true);
  ASSERT_TRUE(values.Begin({{&x, 1}, {}}));
  EXPECT_TRUE(values.Take(gradient).is_same(leaf.grad()));
  leaf.mutable_grad().reset();
  EXPECT_FALSE(TapeValues(*tape, /*held=*/true).Begin({{&x, 1}, {}}));
}

}  // namespace
}  // namespace reprise::bindings
