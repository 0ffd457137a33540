// How operators are treated, by their schemas, tags and names.

#include "bindings/torch/runtime/op_policy.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/library.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace reprise::bindings {
namespace {

c10::OperatorHandle Op(const char* name, const char* overload = "") {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, overload);
}

// Why no call of it is part of a trace; "": some are.
std::string CutOf(const char* name, const char* overload = "") {
  const OpInfo info = DescribeOp(Op(name, overload), /*factory=*/false);
  return info.cut == nullptr ? "" : info.cut;
}

// An operator with one kernel, while this lives.
class OwnOperator {
 public:
  OwnOperator(c10::DispatchKey key, const char* schema,
              torch::CppFunction kernel, const char* file = __FILE__)
      : library_(torch::Library::DEF, kNamespace, std::nullopt, file,
                 __LINE__) {
    library_.def(schema);
    library_.impl("op", torch::dispatch(key, std::move(kernel)));
  }
  static c10::OperatorHandle Handle() { return Op("reprise_policy::op"); }

 private:
  static constexpr const char* kNamespace = "reprise_policy";
  torch::Library library_;
};

torch::CppFunction Typed() {
  return torch::CppFunction([](const at::Tensor& a) { return a; });
}
void DoNothing(const c10::OperatorHandle&, torch::jit::Stack*) {}
torch::CppFunction Boxed() {
  return torch::CppFunction::makeFromBoxedFunction<&DoNothing>();
}

TEST(OpPolicyTest, NamesHaveOverloads) {
  EXPECT_EQ(FullName({"aten::add", "Tensor"}), "aten::add.Tensor");
  EXPECT_EQ(FullName({"aten::mm", ""}), "aten::mm");
}

TEST(OpPolicyTest, HooksStandBeforeKernelsOfDevices) {
  EXPECT_TRUE(MayBeHooked(Op("aten::add", "Tensor")));
  EXPECT_TRUE(MayBeHooked(Op("aten::add_", "Tensor")));
  EXPECT_TRUE(MayBeHooked(Op("aten::zeros_like")));
  // A storage is work; so is what writes one.
  EXPECT_TRUE(MayBeHooked(Op("aten::set_", "source_Storage")));
  EXPECT_TRUE(MayBeHooked(Op("aten::resize_")));
}

TEST(OpPolicyTest, HooksStandBeforeNoViewsAndNoComposites) {
  EXPECT_FALSE(MayBeHooked(Op("aten::t")));
  EXPECT_FALSE(MayBeHooked(Op("aten::t_"))) << "in place on metadata";
  EXPECT_FALSE(MayBeHooked(Op("aten::_unsafe_view"))) << "does not say so";
  EXPECT_FALSE(MayBeHooked(Op("aten::is_same_size")));
  EXPECT_FALSE(MayBeHooked(Op("aten::matmul"))) << "made of others";
}

TEST(OpPolicyTest, HooksStandBeforeOperatorsOfOthersWithKernelsForDevices) {
  constexpr const char* kSchema = "op(Tensor a) -> Tensor";
  {
    const OwnOperator op(c10::DispatchKey::CPU, kSchema, Typed());
    EXPECT_TRUE(MayBeHooked(OwnOperator::Handle()));
    EXPECT_TRUE(HasKernel(OwnOperator::Handle()));
    EXPECT_EQ(CutOf("reprise_policy::op"), "");
  }
  {
    const OwnOperator op(c10::DispatchKey::CompositeImplicitAutograd, kSchema,
                         Typed());
    EXPECT_FALSE(MayBeHooked(OwnOperator::Handle()));
    EXPECT_TRUE(HasKernel(OwnOperator::Handle()));
  }
  const OwnOperator op(c10::DispatchKey::Meta, kSchema, Typed());
  EXPECT_FALSE(MayBeHooked(OwnOperator::Handle()));
  EXPECT_FALSE(HasKernel(OwnOperator::Handle()));
}

TEST(OpPolicyTest, KernelsForBoxedValuesAreACutAndPythonsAreNotHooked) {
  constexpr const char* kSchema = "op(Tensor a) -> Tensor";
  {
    const OwnOperator op(c10::DispatchKey::CPU, kSchema, Boxed());
    EXPECT_TRUE(MayBeHooked(OwnOperator::Handle()));
    EXPECT_EQ(CutOf("reprise_policy::op"),
              "its kernel does not say what it takes");
  }
  const OwnOperator op(c10::DispatchKey::CPU, kSchema, Boxed(), "/program.py");
  EXPECT_FALSE(MayBeHooked(OwnOperator::Handle()));
}

TEST(OpPolicyTest, CutsSayWhy) {
  EXPECT_EQ(CutOf("aten::mm"), "");
  EXPECT_EQ(CutOf("aten::_local_scalar_dense"), "hands data to the host");
  EXPECT_EQ(CutOf("aten::equal"), "hands data to the host");
  EXPECT_EQ(CutOf("aten::nonzero"), "the shape of its result depends on data");
  EXPECT_EQ(CutOf("aten::resize_"), "changes a storage");
  // Only masks among indices make the shape depend on data.
  EXPECT_EQ(CutOf("aten::index", "Tensor"), "");
}

TEST(OpPolicyTest, ResultsThatAreNoTensorsAreACutUnlessShapesTellThem) {
  const OwnOperator op(
      c10::DispatchKey::CPU, "op(Tensor a) -> int",
      torch::CppFunction([](const at::Tensor& a) { return a.dim(); }));
  EXPECT_EQ(CutOf("reprise_policy::op"), "returns host data");
  EXPECT_EQ(CutOf("aten::_fused_sdp_choice"), "");
}

TEST(OpPolicyTest, CompositesMayDecideByNumbers) {
  EXPECT_TRUE(MayDecideByNumbers(Op("aten::dropout")));
  EXPECT_FALSE(MayDecideByNumbers(Op("aten::mul", "Tensor")));
  // Another name for mul.
  EXPECT_FALSE(MayDecideByNumbers(Op("aten::multiply", "Scalar")));
}

TEST(OpPolicyTest, SomeCompositesWritePastOperators) {
  const auto names = NamesThatWritePastOperators();
  ASSERT_FALSE(names.empty());
  for (const std::string_view name : names) {
    EXPECT_TRUE(WritesPastOperators(Op(std::string(name).c_str()))) << name;
  }
  EXPECT_FALSE(WritesPastOperators(Op("aten::dropout")));
  EXPECT_FALSE(WritesPastOperators(Op("aten::mm")));
}

TEST(OpPolicyTest, WhatAddsInOneOrderMayRunBesideOthers) {
  EXPECT_TRUE(MayRunBeside("aten::mm"));
  EXPECT_FALSE(MayRunBeside("other::mm")) << "nothing is known of it";
  for (const char* name :
       {"aten::index_add_", "aten::scatter_reduce.two", "aten::cumsum_",
        "aten::_foreach_mul_backward", "aten::bincount"}) {
    EXPECT_FALSE(MayRunBeside(name)) << name;
  }
}

TEST(OpPolicyTest, SwitchesFollowFromNames) {
  EXPECT_EQ(SwitchesOf("aten::add"), kNoSwitches);
  EXPECT_EQ(SwitchesOf("aten::addmm"), kMatmulSwitches);
  EXPECT_EQ(SwitchesOf("aten::convolution"),
            kMatmulSwitches | kConvolutionSwitches);
  EXPECT_EQ(SwitchesOf("aten::_scaled_dot_product_flash_attention"),
            kMatmulSwitches | kAttentionSwitches);
  EXPECT_EQ(SwitchesOf("aten::native_batch_norm"), kCudnnSwitches);
  EXPECT_EQ(SwitchesOf("aten::linalg_inv_ex"),
            kMatmulSwitches | kLinalgSwitches);
  // Of all parts of the name together.
  EXPECT_EQ(SwitchesOf("aten::_cudnn_rnn"),
            kMatmulSwitches | kRnnSwitches | kCudnnSwitches);
}

}  // namespace
}  // namespace reprise::bindings
