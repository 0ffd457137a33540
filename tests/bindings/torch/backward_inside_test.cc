// Backward passes inside of a callable, by the calls that their engine makes.

#include "bindings/torch/region/backward_inside.h"

#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>

#include <string>
#include <utility>
#include <vector>

#include "bindings/torch/base/torch_versions.h"

namespace reprise::bindings {
namespace {

// What the engine's calls of one node show.
struct Noted {
  TapeRecord record = {};
  BackwardInside inside = {};
  TapeFault fault = {};
  bool was_here = false;
  bool sees_runs = true;
  bool calls = true;
};

class NotingNode final : public torch::autograd::Node {
 public:
  explicit NotingNode(Noted* noted) : noted_(*noted) {}

  torch::autograd::variable_list apply(
      torch::autograd::variable_list&& gradients) override {
    if (noted_.sees_runs) noted_.inside.NoteRun();
    if (noted_.calls) noted_.inside.NoteCall(noted_.record, noted_.fault);
    noted_.was_here = BackwardInside::IsHere();
    if (num_outputs() == 0) return {};
    return std::move(gradients);
  }

 private:
  Noted& noted_;
};

// A tensor whose history is such a node, which goes on to a leaf.
at::Tensor TensorOf(Noted* noted) {
  const NodePtr node = MakeNode<NotingNode>(noted);
  const at::Tensor leaf = at::randn({3}).requires_grad_();
  node->set_next_edges(torch::autograd::collect_next_edges(leaf));
  at::Tensor tensor = at::randn({3});
  torch::autograd::create_gradient_edge(tensor, node);
  return tensor;
}

TEST(BackwardInsideTest, CallsOfOthersAreNone) {
  BackwardInside inside;
  TapeFault fault;
  inside.NoteCall({}, fault);
  EXPECT_FALSE(BackwardInside::IsHere());
  EXPECT_FALSE(inside.any());
  EXPECT_FALSE(fault.refused());
}

TEST(BackwardInsideTest, UsesHistoriesUp) {
  Noted noted;
  const at::Tensor x = TensorOf(&noted);
  const at::Tensor other = TensorOf(&noted);
  BackwardInside::SetSavingFunctions({x.grad_fn()->name()});
  x.sin().sum().backward();
  EXPECT_TRUE(noted.was_here);
  EXPECT_TRUE(noted.inside.any());
  EXPECT_FALSE(noted.fault.refused()) << noted.fault.reason();
  EXPECT_TRUE(noted.inside.HasUsedUp(x.grad_fn()));
  EXPECT_FALSE(noted.inside.HasUsedUp(other.grad_fn()));
  // Whatever was not run, or runs again: there is no way on from x.
  EXPECT_TRUE(noted.inside.HasUsedUp((x + x).grad_fn()));
  EXPECT_TRUE(noted.inside.HasUsedUp(at::stack({x.sin(), x}).grad_fn()));
  EXPECT_FALSE(noted.inside.HasUsedUp((x + other).grad_fn()));
  EXPECT_FALSE(noted.inside.HasUsedUp(at::stack({x, other}).grad_fn()));
}

TEST(BackwardInsideTest, FunctionsThatSaveNothingRunAgain) {
  Noted noted;
  const at::Tensor x = TensorOf(&noted);
  BackwardInside::SetSavingFunctions({});
  x.sum().backward();
  EXPECT_FALSE(noted.inside.HasUsedUp(x.grad_fn()));
  EXPECT_FALSE(noted.inside.HasUsedUp((x + x).grad_fn()));
}

TEST(BackwardInsideTest, KeptGraphsAreNotUsedUp) {
  for (const bool create_graph : {false, true}) {
    Noted noted;
    const at::Tensor x = TensorOf(&noted);
    BackwardInside::SetSavingFunctions({x.grad_fn()->name()});
    x.sin().sum().backward({}, /*retain_graph=*/true, create_graph);
    EXPECT_TRUE(noted.inside.any());
    EXPECT_FALSE(noted.fault.refused()) << noted.fault.reason();
    EXPECT_FALSE(noted.inside.HasUsedUp(x.grad_fn()));
    x.sin().sum().backward();
    EXPECT_TRUE(noted.inside.HasUsedUp(x.grad_fn()));
  }
}

// A pass for some gradients goes through the function: what it has saved is
// freed.
TEST(BackwardInsideTest, WhatWasGoneThroughForSomeGradientsIsUsedUp) {
  for (const bool saves : {false, true}) {
    Noted noted;
    const NodePtr node = MakeNode<NotingNode>(&noted);
    BackwardInside::SetSavingFunctions(saves ? std::vector{node->name()}
                                             : std::vector<std::string>{});
    const at::Tensor asked = at::randn({3}).requires_grad_();
    const at::Tensor other = at::randn({3}).requires_grad_();
    node->set_next_edges(torch::autograd::collect_next_edges(asked + other));
    at::Tensor tensor = at::randn({3});
    torch::autograd::create_gradient_edge(tensor, node);
    tensor.sum().backward({}, /*retain_graph=*/false, /*create_graph=*/false,
                          std::vector{asked});
    EXPECT_TRUE(noted.inside.any());
    EXPECT_EQ(noted.inside.HasUsedUp(node), saves);
    // Nobody has gone there.
    EXPECT_FALSE(noted.inside.HasUsedUp((tensor + other).grad_fn()));
  }
}

TEST(BackwardInsideTest, GoesOutsideWhereAFunctionWasThereBefore) {
  Noted noted;
  const at::Tensor made_before = TensorOf(&noted);
  noted.inside = BackwardInside();  // begins here
  TensorOf(&noted).sin().sum().backward();
  EXPECT_TRUE(noted.inside.any());
  EXPECT_FALSE(noted.inside.went_outside());
  (TensorOf(&noted) * made_before).sum().backward();
  EXPECT_TRUE(noted.inside.went_outside());
}

TEST(BackwardInsideTest,
     GoesOutsideThroughAFunctionThatOnlyHandsItsGradientOn) {
  Noted noted;
  const at::Tensor made_before = TensorOf(&noted);
  noted.inside = BackwardInside();
  noted.calls = false;
  made_before.sum().backward();
  EXPECT_FALSE(noted.inside.any());
  EXPECT_TRUE(noted.inside.went_outside());
}

TEST(BackwardInsideTest, AFunctionWhoseHooksCallFirstIsNotOutside) {
  Noted noted;
  noted.sees_runs = false;  // not yet
  TensorOf(&noted).sum().backward();
  EXPECT_TRUE(noted.inside.any());
  EXPECT_FALSE(noted.inside.went_outside());
}

TEST(BackwardInsideTest, MayHaveGoneOutsideIfNobodyIsToldOfFunctions) {
  Noted noted;
  const at::Tensor x = TensorOf(&noted);
  const at::DisableRecordFunctionGuard untold;
  x.sum().backward();
  EXPECT_TRUE(noted.inside.went_outside());
}

TEST(BackwardInsideTest, ALeafIsNeverUsedUp) {
  Noted noted;
  BackwardInside::SetSavingFunctions({});  // it has let go of nothing
  const NodePtr node = MakeNode<NotingNode>(&noted);
  at::Tensor tensor = at::randn({3});
  torch::autograd::create_gradient_edge(tensor, node);
  tensor.sum().backward();
  EXPECT_TRUE(noted.inside.any());
  EXPECT_FALSE(noted.inside.HasUsedUp(node));
}

TEST(BackwardInsideTest, TheTapeOfABackwardPassIsNotDifferentiatedAgain) {
  Noted noted{.record = {.pass = TapePass::kBackward}};
  TensorOf(&noted).sum().backward({}, /*retain_graph=*/true,
                                  /*create_graph=*/true);
  EXPECT_EQ(noted.fault.reason(), SentenceOf(Refusal::kBackwardTwice));
}

TEST(BackwardInsideTest, RefusesThemWhereResultsHaveGradientsToo) {
  Noted noted{.record = {.level = TapeLevel::kAboveAutograd}};
  TensorOf(&noted).sum().backward();
  EXPECT_EQ(noted.fault.reason(), SentenceOf(Refusal::kBackwardAndGradients));
}

}  // namespace
}  // namespace reprise::bindings
