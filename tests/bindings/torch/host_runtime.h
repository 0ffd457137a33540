// A runtime of the host executor behind the hooks of this process, as a program
// enables one.

#ifndef REPRISE_TESTS_BINDINGS_TORCH_HOST_RUNTIME_H_
#define REPRISE_TESTS_BINDINGS_TORCH_HOST_RUNTIME_H_

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <optional>

#include "bindings/torch/runtime/torch_runtime.h"
#include "bindings/torch/runtime_registry.h"
#include "engine/base/options.h"
#include "scheduler/runtime.h"
#include "scheduler/stats.h"

namespace reprise::bindings {

inline base::Options HostOptions() {
  base::Options options;
  options.policy = base::Policy::kAlways;
  options.validate_share = 0;
  return options;
}

// A program of one pass, which the active runtime replays from some pass on.
// Single thread.
class HostRuntimeTest : public ::testing::Test {
 protected:
  HostRuntimeTest() {
    EXPECT_TRUE(EnableRuntime({scheduler::DeviceKind::kHost}, HostOptions()));
  }
  ~HostRuntimeTest() override { EXPECT_TRUE(ActivateRuntime(nullptr)); }

  static TorchRuntime& Active() { return *TorchRuntime::Active(); }
  static scheduler::Stats Stats() { return Active().scheduler().stats(); }

  // The first half of a pass, and the rest, which ends with a cut.
  void Begin() { half_ = at::sin(at::mul(x_, x_)); }
  void Finish() {
    const at::Tensor sum = at::cos(at::add(half_, x_)).sum();
    half_.reset();
    EXPECT_EQ(sum.item<float>(), expected_);
  }
  // Begins a pass that is replayed: some pass to come, once it is known.
  void BeginReplay() {
    for (int pass = 0; pass < 100; ++pass) {
      const uint64_t before = Stats().replays;
      Begin();
      if (Stats().replays > before) return;
      Finish();
      Active().scheduler().Wait(std::nullopt);
    }
    FAIL() << "no pass is replayed";
  }
  // Until passes are replayed.
  void Learn() {
    BeginReplay();
    Finish();
  }
  // Replays that `action` ended in the middle of a pass. Where passes end so
  // again and again, traces do.
  template <typename Action>
  uint64_t SquashedBy(const Action& action) {
    Active().scheduler().Reset();
    BeginReplay();
    const uint64_t before = Stats().squashes;
    action();
    const uint64_t squashed = Stats().squashes - before;
    Finish();  // eager finds what it would have found
    return squashed;
  }

 private:
  const at::Tensor x_ = at::randn({64});
  at::Tensor half_;
  const float expected_ =
      at::cos(at::add(at::sin(at::mul(x_, x_)), x_)).sum().item<float>();
};

}  // namespace reprise::bindings

#endif  // REPRISE_TESTS_BINDINGS_TORCH_HOST_RUNTIME_H_
