// The node of autograd's graph that a region's call is: what its backward pass
// gives, by a tape or by Python.

#include "bindings/torch/region/region_node.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>
#include <torch/library.h>

#include <cstdint>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/bindings/torch/host_runtime.h"

namespace reprise::bindings {
namespace {

using Tensors = std::vector<at::Tensor>;

// What Python was asked last, and how often.
struct Asked {
  int times = 0;
  int64_t name = 0;
  Tensors arguments;
  Tensors saved;
};
Asked g_asked;

// In Python's place: gives ten times the gradient, and twenty times.
std::tuple<Tensors, std::vector<int64_t>> Differentiate(
    int64_t name, at::TensorList arguments, at::TensorList saved,
    const at::Tensor& gradient) {
  ++g_asked.times;
  g_asked.name = name;
  g_asked.arguments = arguments.vec();
  g_asked.saved = saved.vec();
  return {{gradient * 10, gradient * 20}, {0, 1}};
}

TORCH_LIBRARY(reprise, library) {
  library.def(
      "differentiate(int name, Tensor[] arguments, Tensor[] saved, Tensor "
      "gradient) -> (Tensor[], int[])",
      torch::dispatch(c10::DispatchKey::CompositeImplicitAutograd,
                      TORCH_FN(Differentiate)));
}

// A call of x and w that gives x * w, and saves both.
class RegionNodeTest : public HostRuntimeTest {
 protected:
  RegionNodeTest() { g_asked = {}; }

  RegionHistory::Parts Both() const {
    return {.name = 7,
            .outputs = 1,
            .tracked = 0,
            .saved = {0, 1},
            .of_others = {},
            .targets = {0, 1},
            .leaves = {},
            .replayed = replayed_};
  }
  static std::shared_ptr<RegionHistory> Make(RegionHistory::Parts parts) {
    return std::make_shared<RegionHistory>(std::move(parts));
  }
  // The output, with that history.
  at::Tensor Call(const std::shared_ptr<RegionHistory>& history) {
    at::Tensor output;
    {
      const at::NoGradGuard no_grad;
      output = x_ * w_;
    }
    Tensors outputs = {output, x_, w_};
    const Tensors arguments = {x_, w_};
    history->Attach(outputs, arguments);
    return outputs[0];
  }
  // Backward passes run a tape from now on.
  void Record(RegionHistory& history, std::vector<size_t> gives) {
    const at::NoGradGuard no_grad;
    const auto variants = std::make_shared<RegionVariants>(TapePass::kBackward);
    const Tensors given = {x_.variable_data(), w_.variable_data(),
                           at::ones({3})};
    RegionVariants::Learned learned;
    for (int times = 0; times < 2; ++times) {
      ASSERT_EQ(variants->Run({given, {}}).step, RegionVariants::Step::kRecord);
      ASSERT_TRUE(variants->Begin(given, {}, {}));
      learned = variants->End({given[2] * given[1], given[2] * given[0]}, {});
    }
    ASSERT_EQ(learned.verdict, RegionVariants::Verdict::kTrusted);
    history.Keep(variants, learned.tape, std::move(gives));
  }

  at::Tensor x_ = at::randn({3}).requires_grad_();
  at::Tensor w_ = at::randn({3}).requires_grad_();
  const std::shared_ptr<std::atomic<uint64_t>> replayed_ =
      std::make_shared<std::atomic<uint64_t>>(0);
};

TEST_F(RegionNodeTest, WithoutATapePythonIsAsked) {
  const auto history = Make(Both());
  EXPECT_EQ(history->name(), 7);
  EXPECT_EQ(history->contributions(), 2u);
  const at::Tensor output = Call(history);
  ASSERT_NE(output.grad_fn(), nullptr);
  EXPECT_EQ(output.grad_fn()->name(), "RegionBackward");
  output.backward(at::ones({3}));
  EXPECT_EQ(g_asked.times, 1);
  EXPECT_EQ(g_asked.name, 7);
  ASSERT_EQ(g_asked.saved.size(), 2u);
  EXPECT_TRUE(g_asked.saved[0].equal(x_));
  EXPECT_TRUE(g_asked.saved[1].equal(w_));
  EXPECT_TRUE(x_.grad().equal(at::full({3}, 10.f)));
  EXPECT_TRUE(w_.grad().equal(at::full({3}, 20.f)));
  EXPECT_EQ(*replayed_, 0u);
}

TEST_F(RegionNodeTest, ATapeThatFitsIsRunInPythonsPlace) {
  const auto history = Make(Both());
  Record(*history, {0, 1});
  Call(history).backward(at::full({3}, 2.f));
  EXPECT_EQ(g_asked.times, 0);
  EXPECT_EQ(*replayed_, 1u);
  EXPECT_TRUE(x_.grad().equal(w_ * 2));
  EXPECT_TRUE(w_.grad().equal(x_ * 2));
}

TEST_F(RegionNodeTest, ATapeSaysWhichContributionsItGives) {
  const auto history = Make(Both());
  Record(*history, {1, 0});
  Call(history).backward(at::ones({3}));
  EXPECT_TRUE(x_.grad().equal(x_));
  EXPECT_TRUE(w_.grad().equal(w_));
}

TEST_F(RegionNodeTest, ATapeThatDoesNotFitIsNotRun) {
  const auto history = Make(Both());
  Record(*history, {0, 1});
  // A gradient of other strides.
  Call(history).backward(at::ones({1}).expand({3}));
  EXPECT_EQ(g_asked.times, 1);
  EXPECT_EQ(*replayed_, 0u);
}

TEST_F(RegionNodeTest, APassThatIsToBeDifferentiatedGoesThroughPython) {
  auto parts = Both();
  parts.saved = {0, 1};
  parts.of_others = {0};
  const auto history = Make(std::move(parts));
  Record(*history, {0, 1});
  Call(history).backward(at::ones({3}), /*retain_graph=*/true,
                         /*create_graph=*/true);
  EXPECT_EQ(g_asked.times, 1);
  EXPECT_EQ(g_asked.saved.size(), 3u) << "with what other histories read";
  EXPECT_EQ(*replayed_, 0u);
}

TEST_F(RegionNodeTest, WhatItHasSavedGoesWithTheFirstPass) {
  const auto history = Make(Both());
  const at::Tensor output = Call(history);
  output.backward(at::ones({3}), /*retain_graph=*/true);
  output.backward(at::ones({3}));
  EXPECT_TRUE(x_.grad().equal(at::full({3}, 20.f)));
  EXPECT_THROW(output.backward(at::ones({3})), c10::Error);
  EXPECT_EQ(g_asked.times, 2);
}

TEST_F(RegionNodeTest, LeavesFromOutsideAndEarlierOutputsAreTargets) {
  at::Tensor leaf = at::randn({3}).requires_grad_();
  auto parts = Both();
  parts.targets = {RegionHistory::Parts::kLeaf, 0};
  parts.leaves = {WeakTensor(leaf.getIntrusivePtr())};
  Call(Make(parts)).backward(at::ones({3}));
  EXPECT_TRUE(leaf.grad().equal(at::full({3}, 10.f)));
  EXPECT_TRUE(x_.grad().equal(at::full({3}, 20.f)));
  EXPECT_FALSE(w_.grad().defined());

  // The second output's history goes on to the first one's.
  leaf.mutable_grad().reset();
  x_.mutable_grad().reset();
  Tensors outputs;
  {
    const at::NoGradGuard no_grad;
    outputs = {x_ * w_, x_ + w_, x_, w_};
  }
  const Tensors arguments = {x_, w_};
  auto first = Both();
  first.outputs = 2;
  auto second = first;
  second.tracked = 1;
  second.targets = {RegionHistory::Parts::kOutputs, 1};
  Make(first)->Attach(outputs, arguments);
  Make(second)->Attach(outputs, arguments);
  outputs[1].backward(at::ones({3}));
  EXPECT_TRUE(x_.grad().equal(at::full({3}, 100.f)));
  // Once by each.
  EXPECT_TRUE(w_.grad().equal(at::full({3}, 200.f + 20.f)));
}

// Python runs the callable again, which needs no more of them than their form.
TEST_F(RegionNodeTest, ArgumentsWhoseValuesNobodyReadsAreNotKept) {
  auto parts = Both();
  parts.saved = {1};
  parts.targets = {1};
  const at::Tensor output = Call(Make(std::move(parts)));
  EXPECT_THROW(output.backward(at::ones({3})), std::exception)
      << "Python gives two contributions, and there is one";
  ASSERT_EQ(g_asked.arguments.size(), 2u);
  EXPECT_TRUE(g_asked.arguments[0].equal(at::zeros({3})));
  EXPECT_TRUE(g_asked.arguments[0].requires_grad());
  EXPECT_TRUE(g_asked.arguments[1].is_same(w_));
}

}  // namespace
}  // namespace reprise::bindings
