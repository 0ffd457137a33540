// Calls that are written down and made again: the same calls, on what stands
// where the recorded tensors stood.

#include "bindings/torch/region/tape.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/variable.h>

#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "bindings/torch/region/tape_recorder.h"
#include "bindings/torch/region/tape_run.h"

namespace reprise::bindings {
namespace {

using Tensors = std::vector<at::Tensor>;

TapeRecorder::Outcome Record(const Tensors& inputs,
                             const std::function<Tensors()>& callable,
                             TapeRecorder::Parts more = {}) {
  more.inputs = inputs;
  std::unique_ptr<TapeRecorder> recorder = TapeRecorder::Begin(std::move(more));
  EXPECT_NE(recorder, nullptr);
  const Tensors outputs = callable();
  return recorder->End(outputs, {});
}

Tensors OutputsOf(const Tape& tape, const Tensors& inputs,
                  const std::vector<double>& numbers = {}) {
  Tensors outputs;
  EXPECT_TRUE(tape.Fits({inputs, numbers}));
  EXPECT_EQ(RunTape(tape, {inputs, numbers}, outputs), TapeRan::kDone);
  return outputs;
}

TEST(TapeTest, MakesTheSameCallsOnOtherInputs) {
  const at::NoGradGuard no_grad;
  const at::Tensor weight = at::randn({3, 3});
  const auto function = [&weight](const at::Tensor& x) {
    return Tensors{at::linear(x, weight).relu_().t(), x};
  };
  const at::Tensor first = at::randn({2, 3});
  const auto outcome = Record({first}, [&] { return function(first); });
  ASSERT_NE(outcome.tape, nullptr) << outcome.reason;
  for (int i = 0; i < 3; ++i) {
    const at::Tensor x = at::randn({2, 3});
    const Tensors found = OutputsOf(*outcome.tape, {x});
    const Tensors expected = function(x);
    ASSERT_EQ(found.size(), 2u);
    EXPECT_TRUE(found[0].equal(expected[0]));
    EXPECT_EQ(found[0].strides(), expected[0].strides());
    EXPECT_TRUE(found[1].is_same(x));
    weight.add_(1);  // is read as it is then
  }
}

TEST(TapeTest, FitsNoOtherFormModeOrIdentity) {
  const at::NoGradGuard no_grad;
  const at::Tensor a = at::randn({2, 3});
  const at::Tensor b = at::randn({2, 3});
  const auto outcome = Record({a, b}, [&] { return Tensors{a + b}; });
  ASSERT_NE(outcome.tape, nullptr);
  const Tape& tape = *outcome.tape;
  const auto fits = [&tape](const at::Tensor& x, const at::Tensor& y) {
    return tape.Fits({Tensors{x, y}, {}});
  };
  EXPECT_TRUE(fits(b, a));
  EXPECT_FALSE(fits(a, a));
  EXPECT_FALSE(fits(a, at::randn({3, 2}).t()));
  EXPECT_FALSE(fits(a, at::randn({2, 4})));
  EXPECT_FALSE(fits(a, at::randn({2, 3}, at::kDouble)));
  EXPECT_FALSE(fits(a, at::randn({2, 3}).requires_grad_()));
  EXPECT_FALSE(tape.Fits({Tensors{a}, {}}));
  EXPECT_FALSE(tape.Fits({Tensors{a, b}, std::vector<double>{1.0}}));
  const at::AutoGradMode grad(true);
  EXPECT_FALSE(fits(a, b));
}

// What no call takes decides all the same, by what Python sees of it.
TEST(TapeTest, FitsNothingElseThanWasLookedAt) {
  const at::NoGradGuard no_grad;
  const at::Tensor x = at::randn({2});
  const auto changes = std::vector<std::function<void(at::Tensor&)>>{
      [](at::Tensor& seen) { seen.set_data(at::ones({4})); },
      [](at::Tensor& seen) { seen.set_data(at::ones({3}, at::kDouble)); },
      [](at::Tensor& seen) { seen.set_requires_grad(true); },
      [](at::Tensor& seen) { seen.mutable_grad() = at::ones({3}); },
      [](at::Tensor& seen) { seen = at::Tensor(); }};
  for (const auto& change : changes) {
    at::Tensor seen = at::ones({3});
    const auto outcome =
        Record({x}, [&] { return Tensors{x * 2}; }, {.watched = {seen}});
    ASSERT_NE(outcome.tape, nullptr) << outcome.reason;
    seen.fill_(2);
    seen.set_data(at::zeros({3}));
    EXPECT_TRUE(outcome.tape->Fits({{&x, 1}, {}}));
    change(seen);
    EXPECT_FALSE(outcome.tape->Fits({{&x, 1}, {}}));
  }
}

TEST(TapeTest, WhatPythonDoesToATensorThatIsLookedAtIsRefused) {
  const at::Tensor x = at::randn({2});
  at::Tensor seen = at::ones({3});
  const auto outcome = Record({x},
                              [&] {
                                seen.set_data(at::ones({4}));
                                return Tensors{x * 2};
                              },
                              {.watched = {seen}});
  EXPECT_EQ(outcome.tape, nullptr);
  EXPECT_NE(outcome.reason.find("another form"), std::string::npos);
}

TEST(TapeTest, MissesWhatIsGone) {
  const at::NoGradGuard no_grad;
  at::Tensor foreign = at::randn({1 << 16});  // too large to be a constant
  const at::Tensor x = at::randn({1 << 16});
  const auto outcome = Record({x}, [&] { return Tensors{x * foreign}; });
  ASSERT_NE(outcome.tape, nullptr);
  EXPECT_TRUE(outcome.tape->Fits({Tensors{x}, {}}));
  foreign.reset();
  EXPECT_FALSE(outcome.tape->Fits({Tensors{x}, {}}));
  EXPECT_FALSE(outcome.tape->Resembles({Tensors{x}, {}}));
}

TEST(TapeTest, ConstantOfTheHostIsTheSameContentEachTime) {
  const at::NoGradGuard no_grad;
  const at::Tensor x = at::randn({3});
  const auto with = [&x](double value) {
    return [&x, value] {
      return Tensors{
          x * at::detail::scalar_tensor_static(value, at::kFloat, at::kCPU)
                  .add_(1)};
    };
  };
  TapeRecorder::Parts second{.expected = {Record({x}, with(2)).tape}};
  ASSERT_NE(second.expected[0], nullptr);
  EXPECT_TRUE(second.expected[0]->Resembles({Tensors{x}, {}}));
  const auto same = Record({x}, with(2), second);
  ASSERT_TRUE(same.as_expected) << same.reason;
  for (int i = 0; i < 2; ++i) {  // a call writes it
    EXPECT_TRUE(OutputsOf(*same.tape, {x})[0].equal(x * 3));
  }
  const auto other = Record({x}, with(5), second);
  EXPECT_FALSE(other.as_expected);
  EXPECT_NE(other.reason.find("another tensor"), std::string::npos);
}

TEST(TapeTest, NumberThatWasGivenVaries) {
  const at::NoGradGuard no_grad;
  const at::Tensor x = at::randn({3});
  const auto by = [&x](double number) {
    return [&x, number] {
      return Tensors{at::add(x, x, -number), at::mul(x, number)};
    };
  };
  const auto first = Record({x}, by(0.25), {.numbers = {0.25}});
  ASSERT_NE(first.tape, nullptr);
  EXPECT_FALSE(first.tape->FitsNumbers({Tensors{x}, std::vector{0.5}}));
  const auto second =
      Record({x}, by(0.5), {.numbers = {0.5}, .expected = {first.tape}});
  ASSERT_TRUE(second.as_expected) << second.reason;
  const Tensors found = OutputsOf(*second.tape, {x}, {0.75});
  EXPECT_TRUE(found[0].equal(at::add(x, x, -0.75)));
  EXPECT_TRUE(found[1].equal(at::mul(x, 0.75)));
  // The first one stays as it was: others may be running it.
  EXPECT_FALSE(first.tape->FitsNumbers({Tensors{x}, std::vector{0.5}}));
}

TEST(TapeTest, NumberThatNothingExplainsIsADifference) {
  const at::NoGradGuard no_grad;
  const at::Tensor x = at::randn({3});
  const auto by = [&x](double number) {
    return [&x, number] { return Tensors{at::mul(x, number)}; };
  };
  const auto first = Record({x}, by(2), {.numbers = {0.25}});
  const auto second =
      Record({x}, by(3), {.numbers = {0.5}, .expected = {first.tape}});
  EXPECT_FALSE(second.as_expected);
  EXPECT_NE(second.reason.find("aten::mul"), std::string::npos);
}

TEST(TapeTest, BackwardPassLeavesGradientsAsEagerDoes) {
  const at::Tensor weight = at::randn({3}).requires_grad_();
  const at::Tensor x = at::randn({3});
  const auto step = [&weight](const at::Tensor& given) {
    weight.mutable_grad().reset();
    const at::Tensor loss = (weight * given).square().sum();
    loss.backward();
    return Tensors{loss.detach()};
  };
  const auto outcome =
      Record({x}, [&] { return step(x); }, {.watched = {weight}});
  ASSERT_NE(outcome.tape, nullptr) << outcome.reason;
  EXPECT_FALSE(outcome.tracks_gradients);
  const auto again =
      Record({x}, [&] { return step(x); }, {.watched = {weight}});
  const at::Tensor y = at::randn({3});
  const at::Tensor loss = OutputsOf(*again.tape, {y})[0];
  const at::Tensor gradient = weight.grad().clone();
  EXPECT_TRUE(step(y)[0].equal(loss));
  EXPECT_TRUE(weight.grad().equal(gradient));
}

TEST(TapeTest, AboveAutogradGradientsAreTracked) {
  const at::Tensor weight = at::randn({3}).requires_grad_();
  const at::Tensor x = at::randn({3});
  const auto function = [&weight](const at::Tensor& given) {
    return Tensors{(weight * given).sin()};
  };
  EXPECT_TRUE(Record({x}, [&] { return function(x); }).tracks_gradients);
  const auto outcome = Record({x}, [&] { return function(x); },
                              {.level = TapeLevel::kAboveAutograd});
  ASSERT_NE(outcome.tape, nullptr) << outcome.reason;
  const at::Tensor y = at::randn({3});
  OutputsOf(*outcome.tape, {y})[0].sum().backward();
  const at::Tensor gradient = weight.grad().clone();
  weight.mutable_grad().reset();
  function(y)[0].sum().backward();
  EXPECT_TRUE(weight.grad().equal(gradient));
}

TEST(TapeTest, WhatGoesToTheHostIsRefused) {
  const at::NoGradGuard no_grad;
  const at::Tensor x = at::randn({3});
  at::Tensor sum = at::zeros({});
  const auto outcome = Record({x}, [&] {
    sum.add_(x.sum());  // an effect: it cannot be tried
    return Tensors{x * sum.item()};
  });
  EXPECT_EQ(outcome.tape, nullptr);
  EXPECT_NE(outcome.reason.find("hands data to the host"), std::string::npos);
  const auto sized = Record({x}, [&] {
    sum.add_(x.sum());
    return Tensors{at::rand({3}).nonzero()};
  });
  EXPECT_EQ(sized.tape, nullptr);
  EXPECT_NE(sized.reason.find("depends on data"), std::string::npos);
}

TEST(TapeTest, WhatPythonReadsIsReadAgain) {
  const at::NoGradGuard no_grad;
  const auto function = [](const at::Tensor& x) {
    const at::Tensor doubled = x * 2;
    return Tensors{x.sum().item<float>() > 0 ? doubled.relu() : doubled + 1};
  };
  const at::Tensor plus = at::ones({3});
  const at::Tensor minus = -plus;
  const auto up = Record({plus}, [&] { return function(plus); });
  ASSERT_NE(up.tape, nullptr) << up.reason;
  Tensors outputs;
  EXPECT_EQ(RunTape(*up.tape, {Tensors{minus}, {}}, outputs), TapeRan::kOther);
  const auto down =
      Record({minus}, [&] { return function(minus); }, {.expected = {up.tape}});
  ASSERT_NE(down.tape, nullptr);
  EXPECT_TRUE(down.read_another);
  EXPECT_TRUE(OutputsOf(*down.tape, {minus})[0].equal(function(minus)[0]));
  // Each is found again among both.
  const auto again = Record({minus}, [&] { return function(minus); },
                            {.expected = {up.tape, down.tape}});
  EXPECT_TRUE(again.as_expected) << again.reason;
  EXPECT_EQ(again.expected, 1u);
}

TEST(TapeTest, ViewsWithinAreThoseOfEager) {
  const at::NoGradGuard no_grad;
  const at::Tensor weight = at::randn({4, 3});
  const auto function = [&weight](const at::Tensor& x) {
    const at::Tensor y = at::linear(x, weight).view({2, 2, 2}).transpose(0, 1);
    const Tensors parts = (y + 1).unbind(0);
    const at::Tensor kept = parts[1].unsqueeze(0);
    return Tensors{y.reshape({4, 2}) * 2, parts[0].t() + 1, kept};
  };
  const at::Tensor x = at::randn({2, 3});
  const auto outcome = Record({x}, [&] { return function(x); });
  ASSERT_NE(outcome.tape, nullptr) << outcome.reason;
  for (int i = 0; i < 2; ++i) {
    const at::Tensor given = at::randn({7, 3}).slice(0, 5 - i, 7 - i);
    const Tensors found = OutputsOf(*outcome.tape, {given});
    const Tensors expected = function(given);
    for (size_t k = 0; k < expected.size(); ++k) {
      EXPECT_TRUE(found[k].equal(expected[k]));
      EXPECT_EQ(found[k].strides(), expected[k].strides());
      EXPECT_EQ(found[k].is_view(), expected[k].is_view());
      EXPECT_EQ(found[k].key_set(), expected[k].key_set());
    }
  }
}

}  // namespace
}  // namespace reprise::bindings
