// Every operator that works on a device has a hook, once for all.

#include "bindings/torch/hook/register_hooks.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "bindings/torch/runtime/op_policy.h"
#include "bindings/torch/runtime/thread_state.h"
#include "tests/bindings/torch/fake_session.h"

namespace reprise::bindings {
namespace {

TEST(RegisterHooksTest, AllThatMayBeHookedAreHooked) {
  const HookCounts counts = RegisterHooksOnce();
  EXPECT_GT(counts.unboxed, 0u);
  EXPECT_GT(counts.boxed, 0u);
  size_t hooked = 0;
  for (const c10::OperatorName& name :
       c10::Dispatcher::singleton().getAllOpNames()) {
    const auto op = c10::Dispatcher::singleton().findSchema(name);
    if (!op.has_value() || !MayBeHooked(*op)) continue;
    EXPECT_TRUE(op->hasKernelForDispatchKey(c10::DispatchKey::BackendSelect))
        << name;
    ++hooked;
  }
  EXPECT_GE(hooked, counts.unboxed + counts.boxed);
}

TEST(RegisterHooksTest, ASecondTimeNothingIsDone) {
  const HookCounts first = RegisterHooksOnce();
  const HookCounts second = RegisterHooksOnce();
  EXPECT_EQ(first.unboxed, second.unboxed);
  EXPECT_EQ(first.boxed, second.boxed);
}

// They write memory through pointers of their own.
class PastOperatorsTest : public ::testing::Test {
 protected:
  FakeSession session_;
};

TEST_F(PastOperatorsTest, ReplaysEndBeforeThemAndNoneOfItIsShown) {
  at::Tensor state = at::zeros({2, 30}, at::kLong);
  session_.Record();
  at::_sobol_engine_initialize_state_(state, 2);
  EXPECT_EQ(session_.interrupts(), 1u);
  EXPECT_EQ(session_.interrupts_by_noted(), 1u) << "it is in the book of ops";
  EXPECT_TRUE(session_.seen().empty());
  EXPECT_FALSE(t_thread_state.under_way());
  session_.Pass();
  EXPECT_NE(state.sum().item<int64_t>(), 0) << "it does its work";
}

TEST_F(PastOperatorsTest, InsideOfAnOpTheyArePartOfIt) {
  at::Tensor state = at::zeros({2, 30}, at::kLong);
  {
    const DepthGuard inside;
    at::_sobol_engine_initialize_state_(state, 2);
  }
  EXPECT_EQ(session_.interrupts(), 0u);
}

TEST_F(PastOperatorsTest, EachHasOne) {
  for (const std::string_view name : NamesThatWritePastOperators()) {
    const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(
        std::string(name).c_str(), "");
    for (const auto key :
         {c10::DispatchKey::AutogradCPU, c10::DispatchKey::AutogradCUDA,
          c10::DispatchKey::BackendSelect}) {
      EXPECT_TRUE(op.hasKernelForDispatchKey(key)) << name;
    }
  }
}

}  // namespace
}  // namespace reprise::bindings
