// Outputs whose graph is used up: which share what they are, and what they are
// given.

#include "bindings/torch/region/used_up_outputs.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace reprise::bindings {
namespace {

TEST(UsedUpOutputsTest, OthersOfOneRegisterAreShared) {
  UsedUpOutputs used_up = {{.index = 0}, {.index = 2}, {.index = 3}};
  NoteShared(used_up, std::vector<int32_t>{7, 8, 8, 9}, {9});
  EXPECT_EQ(used_up, (UsedUpOutputs{{.index = 0, .shares = false},
                                    {.index = 2, .shares = true},
                                    {.index = 3, .shares = true}}));
}

TEST(UsedUpOutputsTest, ASecondPassRaisesEagersError) {
  std::vector<at::Tensor> outputs = {at::ones({2}), at::ones({2})};
  GiveUsedUpHistories({{.index = 1}}, outputs);
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

TEST(UsedUpOutputsTest, WhatIsSharedIsAnAlias) {
  const at::Tensor made = at::ones({2});
  std::vector<at::Tensor> outputs = {made, made};
  GiveUsedUpHistories({{.index = 1, .shares = true}}, outputs);
  EXPECT_FALSE(outputs[0].requires_grad());
  EXPECT_TRUE(outputs[1].requires_grad());
  EXPECT_TRUE(outputs[1].is_alias_of(made));
  const int64_t before = made._version();
  outputs[1].detach().add_(1);
  EXPECT_EQ(made._version(), before + 1);
}

}  // namespace
}  // namespace reprise::bindings
