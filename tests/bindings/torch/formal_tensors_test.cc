// Calls that give tensors without data.

#include "bindings/torch/region/formal_tensors.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>

#include <optional>
#include <vector>

namespace reprise::bindings {
namespace {

using Values = std::vector<c10::IValue>;

c10::OperatorHandle Op(const char* name, const char* overload = "") {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, overload);
}

class FormalTensorsTest : public testing::Test {
 protected:
  bool AreAll(const c10::OperatorHandle& op, const Values& arguments) const {
    return formal_.AreAllThatIsMade(op, arguments);
  }

  FormalTensors formal_;
  const at::Tensor x_ = at::randn({3});
  const at::Tensor meta_ = at::empty({3}, at::kMeta);
};

TEST_F(FormalTensorsTest, CopiesToMetaGiveForms) {
  const c10::IValue none;
  const auto to = Op("aten::_to_copy");
  EXPECT_TRUE(
      AreAll(to, {x_, none, none, c10::Device(at::kMeta), none, false, none}));
  EXPECT_FALSE(
      AreAll(to, {x_, none, none, c10::Device(at::kCPU), none, false, none}));
}

TEST_F(FormalTensorsTest, SoDoesWhatFollowsFromThem) {
  EXPECT_FALSE(AreAll(Op("aten::sin"), {meta_})) << "it comes from outside";
  EXPECT_TRUE(formal_.NoteMade(meta_));
  EXPECT_TRUE(AreAll(Op("aten::sin"), {meta_}));
  EXPECT_FALSE(formal_.NoteMade(x_)) << "it has data";
  EXPECT_TRUE(AreAll(Op("aten::sin", "out"), {meta_, meta_}));
  EXPECT_FALSE(AreAll(Op("aten::sin", "out"), {meta_, x_})) << "it is written";
  EXPECT_FALSE(AreAll(Op("aten::bernoulli"), {meta_, c10::IValue()}));
  EXPECT_FALSE(AreAll(Op("aten::sin"), {x_}));
}

TEST_F(FormalTensorsTest, AZeroIsTakenOnce) {
  const at::Tensor zero = at::_efficientzerotensor({2, 3}, at::kDouble);
  const Values arguments = FormalTensors::ArgumentsOf(zero);
  EXPECT_TRUE(AreAll(FormalTensors::ZeroOperator(), arguments));
  EXPECT_FALSE(formal_.TakeZero(zero)) << "nobody has told of it";
  EXPECT_TRUE(formal_.NoteMade(zero));
  EXPECT_TRUE(formal_.TakeZero(zero));
  EXPECT_FALSE(formal_.TakeZero(zero));
  EXPECT_TRUE(formal_.NoteMade(zero));
  EXPECT_FALSE(formal_.TakeZero(zero.t())) << "a view";
  EXPECT_TRUE(formal_.TakeZero(zero.detach())) << "what stands in its place";
  std::vector<c10::IValue> stack = arguments;
  FormalTensors::ZeroOperator().callBoxed(&stack);
  EXPECT_TRUE(stack[0].toTensor()._is_zerotensor());
  EXPECT_EQ(stack[0].toTensor().sizes(), zero.sizes());
  EXPECT_EQ(stack[0].toTensor().dtype(), zero.dtype());
}

}  // namespace
}  // namespace reprise::bindings
