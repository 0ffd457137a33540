// Whatever call of the driver fails, a batch gives its results or says why not,
// and nothing is left over.

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "bindings/native/device.h"
#include "bindings/native/reprise.h"
#include "bindings/native/runtime_core.h"
#include "bindings/native/stream_core.h"
#include "tests/bindings/native/simulated_runtime.h"
#include "tests/engine/base/manual_task_runner.h"
#include "tests/sim/simulated_gpu.h"

namespace reprise::native {
namespace {

using AddTo = void(float*, const float*, float);
constexpr size_t kCount = 4;

void Add(float* to, const float* from, float by) {
  for (size_t i = 0; i < kCount; ++i) to[i] = from[i] + by;
}

class World {
 public:
  World() {
    code_->FinishAdopting(gpu.driver, reinterpret_cast<CUfunction>(&add_));
    kernel.emplace(code_);
  }

  // Back and forth between two buffers; the same launches each time.
  Batch Fill(float start) {
    Batch batch(stream);
    batch.Fill(Out(reinterpret_cast<char*>(a.data()), kCount * sizeof(float)),
               '\0');
    for (int i = 0; i < 3; ++i) {
      batch.Launch(*kernel, {}, InOut(b.data(), kCount), In(a.data(), kCount),
                   start + static_cast<float>(i));
      batch.Copy(Out(a.data(), kCount), In(b.data(), kCount));
    }
    return batch;
  }
  static std::vector<float> Expected(float start) {
    return std::vector<float>(kCount, 3 * start + 3.0f);
  }

  void End() {
    kernel.reset();
    code_.reset();
    stream.reset();
    runtime.reset();
  }

  sim::SimulatedGpu gpu;
  std::vector<float> a = std::vector<float>(kCount);
  std::vector<float> b = std::vector<float>(kCount);
  std::shared_ptr<RuntimeCore> runtime =
      RuntimeOn(MakeCudaDevice(gpu.driver, gpu.context));
  std::shared_ptr<StreamCore> stream =
      std::make_shared<StreamCore>(runtime, gpu.stream, /*owned=*/false);
  std::optional<Kernel<AddTo>> kernel;

 private:
  sim::SimulatedGpu::Kernel add_ = sim::SimulatedGpu::MakeKernel(&Add);
  std::shared_ptr<engine::KernelCode> code_ =
      std::make_shared<engine::KernelCode>("add", add_.params);
};

TEST(SimulatedBatchTest, ReplaysAreOneGraphWithItsOwnArguments) {
  World world;
  for (int call = 0; call < 8; ++call) {
    const auto start = static_cast<float>(call);
    ASSERT_TRUE(world.Fill(start).Submit());
    EXPECT_EQ(world.a, World::Expected(start)) << "call " << call;
    world.runtime->queue().WaitIdle(std::nullopt);
  }
  EXPECT_EQ(world.gpu.graph_launches, 6);
  EXPECT_EQ(world.stream->batches().stats().replayed, 6u);
  EXPECT_EQ(world.stream->batches().stats().built, 1u);
  world.End();
  EXPECT_EQ(world.gpu.objects(), 0u);
}

// The driver may refuse to patch what it would launch.
TEST(SimulatedBatchTest, WhatAGraphCannotBeGivenIsLaunchedByItself) {
  World world;
  for (int call = 0; call < 4; ++call) {
    ASSERT_TRUE(world.Fill(1).Submit());
    world.runtime->queue().WaitIdle(std::nullopt);
  }
  int refused = 0;
  for (int calls = 0; calls < 12; ++calls) {
    const uint64_t launches = world.stream->batches().stats().launches;
    const auto start = static_cast<float>(10 + calls);
    world.gpu.failed.clear();
    world.gpu.FailAfter(calls, CUDA_ERROR_INVALID_VALUE);
    const Status submitted = world.Fill(start).Submit();
    world.gpu.FailAfter(-1);
    if (world.gpu.failed != "cuGraphExecKernelNodeSetParams") continue;
    ++refused;
    ASSERT_TRUE(submitted);
    EXPECT_EQ(world.a, World::Expected(start));
    EXPECT_EQ(world.stream->batches().stats().launches, launches + 7);
    EXPECT_NE(world.stream->batches().plans()[0].why_not.find(world.gpu.failed),
              std::string::npos);
    ASSERT_TRUE(world.Fill(start).Submit());
    EXPECT_EQ(world.a, World::Expected(start));
    EXPECT_EQ(world.stream->batches().stats().launches, launches + 7);
  }
  EXPECT_EQ(refused, 3);  // kernels, all of which change
}

// A batch whose graph was taken over gets another one once that is built, not
// before.
TEST(SimulatedBatchTest, BatchIsBuiltAgainAfterItsGraphWasTakenOver) {
  World world;
  base::ManualTaskRunner builds;
  world.runtime = RuntimeOn(MakeCudaDevice(world.gpu.driver, world.gpu.context),
                            Patching::kSetParams, {.builds = &builds});
  world.stream =
      std::make_shared<StreamCore>(world.runtime, world.gpu.stream, false);
  const auto submit = [&](uint32_t blocks, int times) {
    for (int call = 0; call < times; ++call) {
      Batch batch(world.stream);
      for (int i = 0; i < 2; ++i) {
        batch.Launch(*world.kernel, {.grid = {blocks}},
                     InOut(world.b.data(), kCount), In(world.a.data(), kCount),
                     1.0f);
      }
      ASSERT_TRUE(batch.Submit());
    }
  };
  const auto submit_other = [&](int times) {
    for (int call = 0; call < times; ++call) {
      ASSERT_TRUE(world.Fill(1).Submit());
    }
  };
  submit(1, 2);
  builds.RunAll();
  submit(1, 1);
  submit_other(20);
  submit(2, 3);
  ASSERT_EQ(world.stream->batches().stats().taken_over, 1u);
  submit(1, 3);  // while it is built again
  builds.RunAll();
  const uint64_t replayed = world.stream->batches().stats().replayed;
  submit(1, 1);
  EXPECT_EQ(world.stream->batches().stats().replayed, replayed + 1);
  builds.RunAll();
  world.End();
  EXPECT_EQ(world.gpu.objects(), 0u);
}

TEST(SimulatedBatchTest, EveryDriverCallMayFailOnce) {
  std::set<std::string> failed;
  int told = 0;
  int refused = 0;
  for (int calls = 0;; ++calls) {
    SCOPED_TRACE(testing::Message() << "after " << calls << " calls");
    World world;
    world.gpu.FailAfter(calls);
    for (int call = 0; call < 4; ++call) {
      const auto start = static_cast<float>(call % 3);
      const Status submitted = world.Fill(start).Submit();
      if (submitted) {
        EXPECT_EQ(world.a, World::Expected(start)) << "call " << call;
      } else {
        EXPECT_NE(submitted.error().message().find("SIMULATED"),
                  std::string::npos)
            << submitted.error().message();
        ++told;
      }
      world.runtime->queue().WaitIdle(std::nullopt);
    }
    if (world.stream->batches().stats().refused > 0) {
      const std::vector<PlanReport> plans = world.stream->batches().plans();
      ASSERT_EQ(plans.size(), 1u);
      EXPECT_NE(plans[0].why_not.find(world.gpu.failed), std::string::npos)
          << plans[0].why_not;
      ++refused;
    }
    auto plan = world.Fill(7).Prepare();
    if (plan) {
      Plan ends = *std::move(plan);
      if (ends.Launch()) {
        EXPECT_EQ(world.a, World::Expected(7));
      }
    }
    const std::string call = world.gpu.failed;
    world.End();
    EXPECT_EQ(world.gpu.objects(), 0u) << call;
    if (call.empty()) break;
    failed.insert(call);
    ASSERT_LT(calls, 10'000);
  }
  EXPECT_GT(failed.size(), 8u);
  EXPECT_GT(told, 20);
  EXPECT_GT(refused, 5);
}

}  // namespace
}  // namespace reprise::native
