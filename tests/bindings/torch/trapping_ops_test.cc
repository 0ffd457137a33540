// Operators whose data may stop the device, by their schemas alone.

#include "bindings/torch/runtime/trapping_ops.h"

#include <ATen/core/function_schema.h>
#include <ATen/core/jit_type.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace reprise::bindings {
namespace {

bool MayTrap(const std::string& name, const std::string& overload = "") {
  return bindings::MayTrap(c10::FunctionSchema(name, overload, {}, {}));
}
bool HoldsIndices(const std::string& name) {
  return bindings::HoldsIndices(c10::Argument(name, c10::TensorType::get()));
}

TEST(TrappingOpsTest, OfOtherLibrariesNothingIsKnown) {
  EXPECT_TRUE(MayTrap("torchvision::nms"));
  EXPECT_TRUE(MayTrap("mine::add"));
  EXPECT_FALSE(MayTrap("aten::add", "Tensor"));
}

TEST(TrappingOpsTest, SomeCheckTheirDataInAllOverloads) {
  EXPECT_TRUE(MayTrap("aten::poisson"));
  EXPECT_TRUE(MayTrap("aten::poisson", "out"));
  EXPECT_TRUE(MayTrap("aten::binary_cross_entropy"));
  EXPECT_TRUE(MayTrap("aten::_convert_indices_from_coo_to_csr"));
}

TEST(TrappingOpsTest, OthersInSomeOverloads) {
  EXPECT_TRUE(MayTrap("aten::bernoulli"));
  EXPECT_FALSE(MayTrap("aten::bernoulli", "p"));
  EXPECT_TRUE(MayTrap("aten::bernoulli_", "Tensor"));
  EXPECT_FALSE(MayTrap("aten::bernoulli_", "float"));
  EXPECT_TRUE(MayTrap("aten::normal", "Tensor_Tensor_out"));
  EXPECT_FALSE(MayTrap("aten::normal", "Tensor_float"));
}

TEST(TrappingOpsTest, PlacesAreToldByTheirNames) {
  for (const char* name : {"index", "indices", "target", "offs", "repeats",
                           "pivots", "crow_indices", "cu_seqlens_q"}) {
    EXPECT_TRUE(HoldsIndices(name)) << name;
  }
  EXPECT_FALSE(HoldsIndices("self"));
  EXPECT_FALSE(HoldsIndices("weight"));
}

}  // namespace
}  // namespace reprise::bindings
