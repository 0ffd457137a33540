// Which operators get a hook, and of which kind, in a process that has none
// yet.

#include "bindings/torch/hook/hook_registrar.h"

#include <ATen/ATen.h>
#include <ATen/ops/empty_ops.h>
#include <ATen/ops/matmul_ops.h>
#include <ATen/ops/neg_ops.h>
#include <ATen/ops/sin_ops.h>
#include <gtest/gtest.h>
#include <torch/library.h>

#include <memory>
#include <string>

#include "tests/bindings/torch/fake_session.h"

namespace reprise::bindings {
namespace {

c10::OperatorHandle Op(const std::string& name, const char* overload = "") {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name.c_str(), overload);
}
bool IsHooked(const c10::OperatorHandle& op) {
  return op.hasKernelForDispatchKey(c10::DispatchKey::BackendSelect);
}

TEST(HookRegistrarTest, OperatorsOfTorchAreHookedOnceByTheirSignature) {
  HookRegistrar registrar;
  EXPECT_FALSE(IsHooked(Op("aten::neg")));
  registrar.Add<at::_ops::neg>();
  EXPECT_TRUE(IsHooked(Op("aten::neg")));
  EXPECT_EQ(registrar.unboxed(), 1u);
  registrar.Add<at::_ops::neg>();
  registrar.AddBoxed(Op("aten::neg"));
  EXPECT_EQ(registrar.unboxed(), 1u);
  EXPECT_EQ(registrar.boxed(), 0u);
  EXPECT_TRUE(at::neg(at::ones({2})).equal(at::full({2}, -1.f)));
}

TEST(HookRegistrarTest, CompositesAreNotHooked) {
  HookRegistrar registrar;
  registrar.Add<at::_ops::matmul>();
  registrar.AddBoxed(Op("aten::matmul"));
  EXPECT_EQ(registrar.unboxed() + registrar.boxed(), 0u);
  EXPECT_FALSE(IsHooked(Op("aten::matmul")));
}

// Torch gives them a kernel that picks the backend, which a hook takes over.
TEST(HookRegistrarTest, FactoriesAreHookedAsSuchAlone) {
  HookRegistrar registrar;
  registrar.Add<at::_ops::empty_memory_format>();
  registrar.AddFactory<at::_ops::sin>();
  EXPECT_EQ(registrar.unboxed(), 0u);
  EXPECT_FALSE(IsHooked(Op("aten::sin")));
  registrar.AddFactory<at::_ops::empty_memory_format>();
  EXPECT_EQ(registrar.unboxed(), 1u);
  EXPECT_EQ(at::empty({2}).device(), at::Device(at::kCPU));
}

// Behind the ones above: this hooks all operators that there are.
class BoxedRegistrarTest : public ::testing::Test {
 protected:
  void Define() {
    library_.reset();
    library_ = std::make_unique<torch::Library>(
        torch::Library::DEF, name_, std::nullopt, __FILE__, __LINE__);
    library_->def("op(Tensor a) -> Tensor");
    library_->impl(
        "op", torch::dispatch(c10::DispatchKey::CPU,
                              torch::CppFunction(
                                  [](const at::Tensor& a) { return a + 1; })));
  }
  c10::OperatorHandle Own() const { return Op(name_ + "::op"); }
  size_t Seen() {
    session_.Record();
    torch::jit::Stack stack{a_};
    Own().callBoxed(stack);
    session_.Pass();
    size_t seen = 0;
    for (const SeenOp& op : session_.seen()) seen += op.name == name_ + "::op";
    return seen;
  }

  const std::string name_ =
      ::testing::UnitTest::GetInstance()->current_test_info()->name();
  const at::Tensor a_ = at::ones({2});
  FakeSession session_;
  std::unique_ptr<torch::Library> library_;
};

TEST_F(BoxedRegistrarTest, OperatorsOfOthersAreHookedOnce) {
  Define();
  HookRegistrar registrar;
  registrar.AddBoxed(Own());
  EXPECT_TRUE(IsHooked(Own()));
  EXPECT_EQ(registrar.boxed(), 1u);
  registrar.AddBoxed(Own());
  EXPECT_EQ(registrar.boxed(), 1u);
  EXPECT_EQ(Seen(), 1u);
}

TEST_F(BoxedRegistrarTest, CallsOfAForgottenOperatorInterrupt) {
  Define();
  HookRegistrar().AddBoxed(Own());
  EXPECT_EQ(Seen(), 1u);
  EXPECT_EQ(session_.interrupts(), 0u);
  HookRegistrar::Forget(Own().operator_name());
  EXPECT_EQ(Seen(), 0u);
  EXPECT_GT(session_.interrupts(), 0u);
  // Its hook stays, and is that of what comes in its place.
  HookRegistrar again;
  again.AddBoxed(Own());
  EXPECT_EQ(again.boxed(), 0u);
  EXPECT_EQ(Seen(), 1u);
}

TEST_F(BoxedRegistrarTest, NobodyIsTroubledByAnOperatorWithoutAHook) {
  HookRegistrar::Forget({"reprise_none::op", ""});
  EXPECT_EQ(session_.interrupts(), 0u);
}

TEST_F(BoxedRegistrarTest, WhatIsShownIfReplacedIsNotShownBefore) {
  const auto op = Op("aten::square");
  ASSERT_FALSE(IsHooked(op));
  const OpInfo* const info = HookRegistrar().AddIfReplaced(op);
  ASSERT_NE(info, nullptr);
  EXPECT_TRUE(IsHooked(op));
  EXPECT_EQ(HookRegistrar().AddIfReplaced(op), nullptr) << "it has a hook";
  session_.Record();
  at::square(a_);
  session_.Pass();
  for (const SeenOp& seen : session_.seen()) {
    EXPECT_NE(seen.name, "aten::square");
  }
  EXPECT_FALSE(session_.seen().empty()) << "what it is made of is";
}

}  // namespace
}  // namespace reprise::bindings
