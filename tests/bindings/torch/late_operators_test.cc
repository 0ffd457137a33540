// Operators that come when the others have their hooks.

#include "bindings/torch/hook/late_operators.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/library.h>

#include <memory>
#include <string>

#include "bindings/torch/hook/register_hooks.h"
#include "bindings/torch/runtime/runtime_epoch.h"

namespace reprise::bindings {
namespace {

class LateOperatorsTest : public ::testing::Test {
 protected:
  LateOperatorsTest() {
    RegisterHooksOnce();  // listens
    HookLateOperators();
  }
  void Define() {
    library_ = std::make_unique<torch::Library>(
        torch::Library::DEF, name_, std::nullopt, __FILE__, __LINE__);
    library_->def("op(Tensor a) -> Tensor");
  }
  void GiveKernel() {
    library_->impl(
        "op", torch::dispatch(c10::DispatchKey::CPU,
                              torch::CppFunction(
                                  [](const at::Tensor& a) { return a + 1; })));
  }
  bool IsHooked() const {
    return c10::Dispatcher::singleton()
        .findSchemaOrThrow((name_ + "::op").c_str(), "")
        .hasKernelForDispatchKey(c10::DispatchKey::BackendSelect);
  }

  const std::string name_ =
      ::testing::UnitTest::GetInstance()->current_test_info()->name();
  std::unique_ptr<torch::Library> library_;
};

TEST_F(LateOperatorsTest, EachThreadIsToldAndHooksThem) {
  const uint64_t epoch = g_runtime_epoch.load();
  const uint64_t activations = g_activations.load();
  Define();
  GiveKernel();
  EXPECT_NE(g_runtime_epoch.load(), epoch);
  EXPECT_EQ(g_activations.load(), activations);
  EXPECT_FALSE(IsHooked()) << "the dispatcher holds a lock while it tells";
  HookLateOperators();
  EXPECT_TRUE(IsHooked());
}

TEST_F(LateOperatorsTest, OneThatHasNoKernelYetIsTriedBeforeTheNextOps) {
  Define();
  uint64_t epoch = g_runtime_epoch.load();
  HookLateOperators();
  EXPECT_FALSE(IsHooked());
  EXPECT_NE(g_runtime_epoch.load(), epoch) << "to be tried again";
  GiveKernel();
  HookLateOperators();
  EXPECT_TRUE(IsHooked());
  epoch = g_runtime_epoch.load();
  HookLateOperators();
  EXPECT_EQ(g_runtime_epoch.load(), epoch) << "all is done";
}

TEST_F(LateOperatorsTest, OneThatNeverHasAKernelTroublesNobodyInTheEnd) {
  Define();
  int tries = 0;
  for (uint64_t before = 0; before != g_runtime_epoch.load() && tries < 1000;
       ++tries) {
    before = g_runtime_epoch.load();
    HookLateOperators();
  }
  EXPECT_GT(tries, 2);
  EXPECT_LT(tries, 1000);
  // With others it is tried again.
  GiveKernel();
  HookLateOperators();
  torch::Library other(torch::Library::DEF, name_ + "_other", std::nullopt,
                       __FILE__, __LINE__);
  other.def("op(Tensor a) -> Tensor");
  HookLateOperators();
  EXPECT_TRUE(IsHooked());
}

TEST_F(LateOperatorsTest, OneThatHasGoneMeanwhileIsLeftOut) {
  Define();
  library_.reset();
  HookLateOperators();
  const uint64_t epoch = g_runtime_epoch.load();
  HookLateOperators();
  EXPECT_EQ(g_runtime_epoch.load(), epoch);
}

}  // namespace
}  // namespace reprise::bindings
