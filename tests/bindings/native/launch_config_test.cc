// What a launch asks for beside its grid reaches the driver, by itself and in a
// graph; what the device cannot do is told before anything is launched.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "bindings/native/device.h"
#include "bindings/native/reprise.h"
#include "bindings/native/runtime_core.h"
#include "bindings/native/stream_core.h"
#include "tests/bindings/native/simulated_runtime.h"
#include "tests/sim/simulated_gpu.h"

namespace reprise::native {
namespace {

using Raise = void(float*, float);

class LaunchConfigTest : public testing::Test {
 protected:
  LaunchConfigTest() {
    limits_.multiprocessors = 2;
    limits_.shared_bytes = 100'000;
    limits_.priority_greatest = -5;
  }

  void SetUp() override {
    runtime_ = RuntimeOn(MakeCudaDevice(gpu_.driver, gpu_.context, limits_));
    stream_ = std::make_shared<StreamCore>(runtime_, gpu_.stream, false);
    kernel_.emplace(CodeOf(gpu_, "raise", raise_));
  }

  // Three launches, the second as `config` says.
  Batch Three(const LaunchConfig& config) {
    Batch batch(stream_);
    for (int i = 0; i < 3; ++i) {
      batch.Launch(*kernel_, i == 1 ? config : LaunchConfig{.grid = {8}},
                   &value_, 1.0f);
    }
    return batch;
  }
  std::string Why(const LaunchConfig& config) {
    const Status submitted = Three(config).Submit();
    if (submitted) return "";
    EXPECT_EQ(submitted.error().code(), Code::kInvalidArgument);
    EXPECT_EQ(value_, 0.0f) << "launched before it was checked";
    return submitted.error().message();
  }
  // The attributes of the second launch, in a graph.
  std::vector<CUlaunchAttribute> InGraph(const LaunchConfig& config) {
    auto plan = Three(config).Prepare();
    EXPECT_TRUE(plan) << plan.error().message();
    if (!plan) return {};
    EXPECT_TRUE(plan->Launch());
    const sim::SimulatedGpu::Node& node = gpu_.execs().back()->at(1);
    early_edges_ = node.early_edges;
    return node.attributes;
  }

  sim::SimulatedGpu gpu_;
  engine::LaunchLimits limits_;
  sim::SimulatedGpu::Kernel raise_ =
      sim::SimulatedGpu::MakeKernel(+[](float* to, float by) { *to += by; });
  std::shared_ptr<RuntimeCore> runtime_;
  std::shared_ptr<StreamCore> stream_;
  std::optional<Kernel<Raise>> kernel_;
  float value_ = 0;
  size_t early_edges_ = 0;
};

TEST_F(LaunchConfigTest, EveryAttributeReachesTheDriver) {
  const LaunchConfig config{
      .grid = {8, 2}, .cluster = {4, 2}, .cooperative = true, .priority = -3};
  const std::vector<CUlaunchAttribute> attributes = InGraph(config);
  ASSERT_EQ(attributes.size(), 3u);
  EXPECT_EQ(attributes[0].id, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
  EXPECT_EQ(attributes[0].value.clusterDim.x, 4u);
  EXPECT_EQ(attributes[0].value.clusterDim.y, 2u);
  EXPECT_EQ(attributes[0].value.clusterDim.z, 1u);
  EXPECT_EQ(attributes[1].id, CU_LAUNCH_ATTRIBUTE_COOPERATIVE);
  EXPECT_EQ(attributes[1].value.cooperative, 1);
  EXPECT_EQ(attributes[2].id, CU_LAUNCH_ATTRIBUTE_PRIORITY);
  EXPECT_EQ(attributes[2].value.priority, -3);

  Batch batch(stream_);
  batch.Launch(*kernel_, config, &value_, 1.0f);
  ASSERT_TRUE(batch.Submit());
  EXPECT_EQ(value_, 4.0f);
  ASSERT_EQ(gpu_.last_attributes.size(), 3u);
  EXPECT_EQ(gpu_.last_attributes[1].id, CU_LAUNCH_ATTRIBUTE_COOPERATIVE);
}

TEST_F(LaunchConfigTest, PlainLaunchHasNoAttributes) {
  EXPECT_TRUE(InGraph({.grid = {8}}).empty());
  EXPECT_EQ(early_edges_, 0u);
  EXPECT_EQ(Why({.grid = {8}}), "");
  EXPECT_TRUE(gpu_.last_attributes.empty());
}

TEST_F(LaunchConfigTest, ProgrammaticLaunchWaitsForKernelsByItself) {
  EXPECT_TRUE(InGraph({.grid = {8}, .programmatic = true}).empty());
  EXPECT_EQ(early_edges_, 1u);
  Batch batch(stream_);
  batch.Launch(*kernel_, {.programmatic = true}, &value_, 1.0f);
  ASSERT_TRUE(batch.Submit());
  ASSERT_EQ(gpu_.last_attributes.size(), 1u);
  EXPECT_EQ(gpu_.last_attributes[0].id,
            CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
}

TEST_F(LaunchConfigTest, ProgrammaticLaunchWaitsForTheEndOfAFill) {
  Batch batch(stream_);
  batch.Fill(Out(reinterpret_cast<char*>(&value_), sizeof value_), '\0');
  batch.Launch(*kernel_, {.programmatic = true}, &value_, 1.0f);
  ASSERT_TRUE(batch.Prepare());
  EXPECT_EQ(std::count(gpu_.calls.begin(), gpu_.calls.end(),
                       "cuGraphAddDependencies"),
            0);
}

TEST_F(LaunchConfigTest, BatchesOfOtherAttributesAreOtherBatches) {
  const LaunchConfig configs[] = {{.grid = {8}},
                                  {.grid = {8}, .cluster = {2}},
                                  {.grid = {8}, .cooperative = true},
                                  {.grid = {8}, .programmatic = true},
                                  {.grid = {8}, .priority = -1}};
  for (int call = 0; call < 3; ++call) {
    for (const LaunchConfig& config : configs) {
      ASSERT_TRUE(Three(config).Submit());
      runtime_->queue().WaitIdle(std::nullopt);
    }
  }
  EXPECT_EQ(stream_->batches().stats().built, 5u);
  EXPECT_EQ(stream_->batches().stats().replayed, 5u);
  EXPECT_EQ(value_, 45.0f);
}

TEST_F(LaunchConfigTest, MuchSharedMemoryIsAskedForOnce) {
  raise_.own_shared_bytes = 1000;
  const auto asked = [this] {
    return std::count(gpu_.calls.begin(), gpu_.calls.end(),
                      "cuFuncSetAttribute");
  };
  EXPECT_EQ(Why({.grid = {8}, .shared_bytes = 40'000}), "");
  EXPECT_EQ(asked(), 0);
  EXPECT_EQ(Why({.grid = {8}, .shared_bytes = 60'000}), "");
  EXPECT_EQ(Why({.grid = {8}, .shared_bytes = 99'000}), "");
  EXPECT_EQ(asked(), 1);
  value_ = 0;
  EXPECT_EQ(Why({.grid = {8}, .shared_bytes = 99'001}),
            "launch 1 (kernel 'raise'): 99001 bytes of dynamic shared memory "
            "beside 1000 of the kernel's own, the device has 100000 for a "
            "block");
}

TEST_F(LaunchConfigTest, ClusterMustDivideTheGridAndFit) {
  EXPECT_EQ(Why({.grid = {8}, .cluster = {3}}),
            "launch 1 (kernel 'raise') has a cluster of 3 blocks in direction "
            "0, which does not divide the grid of 8");
  EXPECT_EQ(Why({.grid = {8, 2}, .cluster = {4, 0}}),
            "launch 1 (kernel 'raise') has a cluster of 0 blocks in direction "
            "1, which does not divide the grid of 2");
  EXPECT_EQ(Why({.grid = {40}, .cluster = {10}, .cooperative = true}), "");
  EXPECT_TRUE(raise_.large_clusters);
  value_ = 0;
  EXPECT_EQ(Why({.grid = {50}, .cluster = {10}, .cooperative = true}),
            "launch 1 (kernel 'raise'): a cooperative grid of 50 blocks, of "
            "which the device can hold 40 at a time");
  gpu_.clusters_at_a_time = 0;
  EXPECT_EQ(Why({.grid = {8}, .cluster = {4}}),
            "launch 1 (kernel 'raise'): clusters of 4 blocks, of which the "
            "device can hold none");
}

TEST_F(LaunchConfigTest, CooperativeGridMustFit) {
  EXPECT_EQ(Why({.grid = {17}, .cooperative = true}),
            "launch 1 (kernel 'raise'): a cooperative grid of 17 blocks, of "
            "which the device can hold 16 at a time");
  EXPECT_EQ(Why({.grid = {16}, .cooperative = true}), "");
}

TEST_F(LaunchConfigTest, PriorityMustBeOneOfTheDevice) {
  EXPECT_EQ(Why({.grid = {8}, .priority = 1}),
            "launch 1 (kernel 'raise'): a priority of 1, the device takes -5 "
            "to 0");
  EXPECT_EQ(Why({.grid = {8}, .priority = -5}), "");
}

class OldDeviceTest : public LaunchConfigTest {
 protected:
  OldDeviceTest() { limits_.cooperative = limits_.clusters = false; }
};

TEST_F(OldDeviceTest, WhatItHasNotIsTold) {
  EXPECT_EQ(Why({.grid = {8}, .cluster = {2}}),
            "launch 1 (kernel 'raise'): clusters, which the device has not: "
            "compute capability 9.0 is needed");
  EXPECT_EQ(Why({.grid = {8}, .cooperative = true}),
            "launch 1 (kernel 'raise'): a cooperative grid, which the device "
            "has not");
  EXPECT_EQ(Why({.grid = {8}, .programmatic = true}),
            "launch 1 (kernel 'raise'): a programmatic launch, which the "
            "device has not: compute capability 9.0 is needed");
}

TEST(HostLaunchConfigTest, HostKernelsAreToldAllOfIt) {
  const Runtime runtime =
      *Runtime::Create({.device = RuntimeOptions::kHost, .build_after = 1});
  const Stream stream = *runtime.CreateStream();
  std::vector<LaunchConfig> seen;
  const auto kernel = *runtime.HostKernel<void(int)>(
      "look", [&](const LaunchConfig& config, int) { seen.push_back(config); });
  for (int call = 0; call < 2; ++call) {  // by itself and in a graph
    Batch batch = stream.BeginBatch();
    for (int i = 0; i < 2; ++i) {
      batch.Launch(kernel,
                   {.grid = {6},
                    .shared_bytes = 70'000,
                    .cluster = {3},
                    .cooperative = true,
                    .programmatic = true,
                    .priority = -2},
                   i);
    }
    ASSERT_TRUE(batch.Submit());
    stream.WaitForBuilds();
  }
  ASSERT_EQ(seen.size(), 4u);
  EXPECT_EQ(stream.stats().replayed, 1u);
  for (const LaunchConfig& config : seen) {
    EXPECT_EQ(config.cluster, (Dim3{3, 1, 1}));
    EXPECT_EQ(config.shared_bytes, 70'000u);
    EXPECT_TRUE(config.cooperative);
    EXPECT_TRUE(config.programmatic);
    EXPECT_EQ(config.priority, -2);
  }
}

}  // namespace
}  // namespace reprise::native
