// Outputs whose graph is used up: which share what they are, and what they are
// given.

#include "bindings/torch/region/used_up_outputs.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace reprise::bindings {
namespace {

at::Tensor NoTensor(int32_t /*reg*/) { return {}; }

TEST(UsedUpOutputsTest, OthersOfOneRegisterAreShared) {
  UsedUpOutputs used_up = {{.index = 0}, {.index = 2}, {.index = 3}};
  NoteShared(used_up, std::vector<int32_t>{7, 8, 8, 9}, {9});
  EXPECT_EQ(used_up, (UsedUpOutputs{{.index = 0, .shares = false},
                                    {.index = 2, .shares = true},
                                    {.index = 3, .shares = true}}));
}

TEST(UsedUpOutputsTest, ASecondPassRaisesEagersError) {
  std::vector<at::Tensor> outputs = {at::ones({2}), at::ones({2})};
  GiveUsedUpHistories({{.index = 1}}, outputs, NoTensor);
  EXPECT_FALSE(outputs[0].requires_grad());
  EXPECT_TRUE(outputs[1].requires_grad());
  EXPECT_FALSE(outputs[1].is_leaf());
  try {
    outputs[1].sum().backward();
    FAIL() << "no error";
  } catch (const std::exception& error) {
    EXPECT_NE(std::string(error.what()).find("a second time"),
              std::string::npos);
  }
}

TEST(UsedUpOutputsTest, GradientsOfWhatItLedToRaiseTheErrorToo) {
  const at::Tensor leaf = at::ones({2}).requires_grad_();
  const at::Tensor another = at::ones({2}).requires_grad_();
  const at::Tensor inner = leaf.exp();
  const std::vector<at::Tensor> before = {inner.exp(), inner};
  UsedUpOutputs used_up = {{.index = 0}, {.index = 1}};
  NoteWays(used_up, before, {}, [](const at::Tensor&) { return 7; });
  EXPECT_EQ(used_up,
            (UsedUpOutputs{{.index = 0, .leads_to = {7}, .others = {1}},
                           {.index = 1, .leads_to = {7}}}));
  std::vector<at::Tensor> outputs = {at::ones({2}), at::ones({2})};
  GiveUsedUpHistories(used_up, outputs, [&](int32_t) { return leaf; });
  const auto gradient = [](const at::Tensor& of, const at::Tensor& by) {
    return torch::autograd::grad({of.sum()}, {by}, {}, std::nullopt,
                                 /*create_graph=*/false,
                                 /*allow_unused=*/true)[0];
  };
  EXPECT_ANY_THROW(gradient(outputs[0], leaf));
  EXPECT_ANY_THROW(gradient(outputs[0], outputs[1]));
  EXPECT_ANY_THROW(gradient(outputs[1], leaf));
  EXPECT_FALSE(gradient(outputs[0], another).defined());
  EXPECT_FALSE(gradient(outputs[1], outputs[0]).defined());
}

TEST(UsedUpOutputsTest, WhatIsSharedIsAnAlias) {
  const at::Tensor made = at::ones({2});
  std::vector<at::Tensor> outputs = {made, made};
  GiveUsedUpHistories({{.index = 1, .shares = true}}, outputs, NoTensor);
  EXPECT_FALSE(outputs[0].requires_grad());
  EXPECT_TRUE(outputs[1].requires_grad());
  EXPECT_TRUE(outputs[1].is_alias_of(made));
  const int64_t before = made._version();
  outputs[1].detach().add_(1);
  EXPECT_EQ(made._version(), before + 1);
}

}  // namespace
}  // namespace reprise::bindings
