// What is known of the program's kernels is what was found last.

#include "bindings/torch/runtime/kernel_state.h"

#include <gtest/gtest.h>

#include "bindings/torch/runtime/runtime_epoch.h"

namespace reprise::bindings {
namespace {

TEST(KernelStateTest, NobodyHasLookedAtFirst) {
  EXPECT_TRUE(KernelChanges().Due());
  KernelChanges().LookedAt(KernelChanges().noted());
  EXPECT_FALSE(KernelChanges().Due());
}

TEST(KernelStateTest, ChangesAreToldToEachThread) {
  KernelChanges().LookedAt(KernelChanges().noted());
  const uint64_t epoch = g_runtime_epoch.load();
  const uint64_t activations = g_activations.load();
  KernelsMayHaveChanged();
  EXPECT_TRUE(KernelChanges().Due());
  EXPECT_NE(g_runtime_epoch.load(), epoch);
  EXPECT_EQ(g_activations.load(), activations) << "no other runtime is active";
}

TEST(KernelStateTest, OperatorsAreThoseThatWereFoundLast) {
  SetKernelState(7, {{"aten::neg", ""}, {"aten::add", "Tensor"}});
  EXPECT_EQ(KernelState(), 7u);
  EXPECT_TRUE(RunsProgramsKernel({"aten::neg", ""}));
  EXPECT_TRUE(RunsProgramsKernel({"aten::add", "Tensor"}));
  EXPECT_FALSE(RunsProgramsKernel({"aten::add", "Scalar"}));
  SetKernelState(8, {{"aten::sin", ""}});
  EXPECT_EQ(KernelState(), 8u);
  EXPECT_FALSE(RunsProgramsKernel({"aten::neg", ""}));
  EXPECT_TRUE(RunsProgramsKernel({"aten::sin", ""}));
  SetKernelState(0, {});
  EXPECT_FALSE(RunsProgramsKernel({"aten::sin", ""}));
}

}  // namespace
}  // namespace reprise::bindings
