// Kernels that the program registers in the place of torch's are found when
// somebody says that there may be some.

#include "bindings/torch/hook/kernel_watch.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>
#include <torch/library.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "bindings/torch/runtime/kernel_state.h"
#include "tests/bindings/torch/fake_session.h"

namespace reprise::bindings {
namespace {

void Negate(const c10::OperatorHandle&, torch::jit::Stack* stack) {
  const at::Tensor tensor = torch::jit::pop(*stack).toTensor();
  torch::jit::push(*stack, tensor * -1);
}

// The same, and another kernel.
void NegateAnew(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Negate(op, stack);
}

class KernelWatchTest : public ::testing::Test {
 protected:
  KernelWatchTest() { Look(); }
  ~KernelWatchTest() override {
    library_.reset();
    Look();
  }
  // As Python does.
  void Replace(const char* op) {
    Register(op, torch::CppFunction::makeFromBoxedFunction<&Negate>());
  }
  void ReplaceAnew(const char* op) {
    Register(op, torch::CppFunction::makeFromBoxedFunction<&NegateAnew>());
  }
  static void Look() {
    KernelsMayHaveChanged();
    LookAtKernels();
  }
  static bool IsReplaced(const char* name) {
    return RunsProgramsKernel({name, ""});
  }

  FakeSession session_;
  std::unique_ptr<torch::Library> library_;

 private:
  void Register(const char* op, torch::CppFunction kernel) {
    library_.reset();
    library_ = std::make_unique<torch::Library>(torch::Library::IMPL, "aten",
                                                c10::DispatchKey::CPU,
                                                "/tmp/program.py", __LINE__);
    library_->impl(op, std::move(kernel));
  }
};

TEST_F(KernelWatchTest, TorchsOwnAreNotThePrograms) {
  EXPECT_EQ(KernelState(), 0u);
  EXPECT_FALSE(IsReplaced("aten::neg"));
}

TEST_F(KernelWatchTest, AReplacedKernelIsFoundAndForgottenWhenItGoes) {
  Replace("neg");
  Look();
  EXPECT_NE(KernelState(), 0u);
  EXPECT_TRUE(IsReplaced("aten::neg"));
  EXPECT_FALSE(IsReplaced("aten::sin"));
  library_.reset();
  Look();
  EXPECT_EQ(KernelState(), 0u);
  EXPECT_FALSE(IsReplaced("aten::neg"));
}

TEST_F(KernelWatchTest, EachKernelMakesAnotherState) {
  Replace("neg");
  Look();
  const uint64_t neg = KernelState();
  Replace("sin");
  Look();
  EXPECT_NE(KernelState(), neg);
  EXPECT_NE(KernelState(), 0u);
  Replace("neg");
  Look();
  EXPECT_EQ(KernelState(), neg) << "what was recorded with it is replayed";
}

TEST_F(KernelWatchTest, NothingIsLookedAtUntilSomebodySaysSo) {
  Replace("neg");
  LookAtKernels();
  EXPECT_EQ(KernelState(), 0u);
  Look();
  EXPECT_NE(KernelState(), 0u);
}

// Of an operator that is made of others, too.
TEST_F(KernelWatchTest, CompositesMayBeReplaced) {
  Replace("square");
  Look();
  EXPECT_TRUE(IsReplaced("aten::square"));
  session_.Record();
  (void)at::ones({3}).square();
  session_.Pass();
  ASSERT_FALSE(session_.seen().empty());
  EXPECT_EQ(session_.seen().back().name, "aten::square");
  EXPECT_NE(session_.seen().back().cut, "");
}

TEST_F(KernelWatchTest, AKernelThatIsTakenForTorchsIsNotThePrograms) {
  ReplaceAnew("cos");
  ASSERT_TRUE(TakeKernelForTorchs({"aten::cos", ""}, c10::DispatchKey::CPU));
  LookAtKernels();  // it has said so itself
  EXPECT_FALSE(IsReplaced("aten::cos"));
  EXPECT_NE(KernelState(), 0u) << "what was recorded without is not replayed";
  // It was that kernel, and that operator.
  Replace("cos");
  Look();
  EXPECT_TRUE(IsReplaced("aten::cos"));
  ReplaceAnew("sin");
  Look();
  EXPECT_TRUE(IsReplaced("aten::sin"));
}

TEST_F(KernelWatchTest, WhatIsNotThereIsNotTaken) {
  EXPECT_FALSE(
      TakeKernelForTorchs({"aten::no_such_op", ""}, c10::DispatchKey::CPU));
  EXPECT_FALSE(TakeKernelForTorchs({"aten::neg", "no_such_overload"},
                                   c10::DispatchKey::CPU));
}

TEST_F(KernelWatchTest, WarningsThatAlwaysComeAreAnotherState) {
  {
    const c10::WarningUtils::WarnAlways always(true);
    Look();
    EXPECT_NE(KernelState(), 0u);
    EXPECT_FALSE(IsReplaced("aten::neg"));
  }
  Look();
  EXPECT_EQ(KernelState(), 0u);
}

}  // namespace
}  // namespace reprise::bindings
