// What a device says of itself and of kernels, and streams of a priority.

#include "bindings/native/device_info.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "bindings/native/device.h"
#include "bindings/native/reprise.h"
#include "bindings/native/runtime_core.h"
#include "engine/batch/launch_limits.h"
#include "tests/bindings/native/simulated_runtime.h"
#include "tests/sim/simulated_gpu.h"

namespace reprise::native {
namespace {

TEST(DeviceInfoTest, OfAHostRuntimeIsWhatItsLaunchesAreHeldTo) {
  const Runtime runtime = *Runtime::Create({.device = RuntimeOptions::kHost});
  const DeviceInfo info = *runtime.device();
  EXPECT_EQ(info.number, RuntimeOptions::kHost);
  EXPECT_EQ(info.name, "host");
  EXPECT_EQ(info.compute_major, 9);
  EXPECT_EQ(info.compute_minor, 0);
  EXPECT_GE(info.memory_bytes, uint64_t{1} << 28);
  const auto kernel =
      *runtime.HostKernel<void(int)>("none", [](const LaunchConfig&, int) {});
  const auto taken = [&](const LaunchConfig& config) {
    Batch batch = runtime.CreateStream()->BeginBatch();
    batch.Launch(kernel, config, 1);
    return batch.Submit().has_value();
  };
  const auto threads = static_cast<uint32_t>(info.threads_per_block);
  const auto shared = static_cast<uint32_t>(info.shared_bytes_per_block);
  EXPECT_TRUE(taken({.block = {threads}, .shared_bytes = shared}));
  EXPECT_FALSE(taken({.block = {threads + 1}}));
  EXPECT_FALSE(taken({.shared_bytes = shared + 1}));
  const auto most = static_cast<uint32_t>(info.multiprocessors) *
                    static_cast<uint32_t>(info.threads_per_multiprocessor) /
                    threads;
  EXPECT_TRUE(taken({.grid = {most}, .block = {threads}, .cooperative = true}));
  EXPECT_FALSE(
      taken({.grid = {most + 1}, .block = {threads}, .cooperative = true}));
}

class OccupancyTest : public testing::Test {
 protected:
  const Runtime runtime_ = *Runtime::Create({.device = RuntimeOptions::kHost});
  const Kernel<void(int)> kernel_ =
      *runtime_.HostKernel<void(int)>("none", [](const LaunchConfig&, int) {});
};

TEST_F(OccupancyTest, BlocksOfALaunchAreCounted) {
  const auto blocks = [&](const LaunchConfig& config) {
    return *runtime_.BlocksPerMultiprocessor(kernel_, config);
  };
  EXPECT_EQ(blocks({.block = {1024}}), 2u);
  EXPECT_EQ(blocks({.grid = {1 << 20}, .block = {256}}), 8u);
  EXPECT_EQ(blocks({.block = {32}}), 32u);
  EXPECT_EQ(blocks({.block = {8, 8, 4}, .shared_bytes = 100 << 10}), 2u);
  EXPECT_EQ(blocks({.grid = {1 << 20}, .block = {1024}, .cooperative = true}),
            2u);
  const std::array<size_t, 1> sizes{4};
  const AnyKernel any = *runtime_.HostKernel(
      "any", sizes, [](const LaunchConfig&, std::span<const Argument>) {});
  EXPECT_EQ(*runtime_.BlocksPerMultiprocessor(any, {.block = {512}}), 4u);
}

TEST_F(OccupancyTest, ABlockIsSuggested) {
  const auto block = runtime_.SuggestBlock(kernel_);
  ASSERT_TRUE(block) << block.error().message();
  EXPECT_EQ(block->threads, 1024u);
  EXPECT_EQ(block->blocks_per_multiprocessor, 2u);
  EXPECT_EQ(block->blocks, 264u);
  EXPECT_EQ(runtime_.SuggestBlock(kernel_, 200 << 10)->blocks, 132u);
}

TEST_F(OccupancyTest, WhatTheDeviceDoesNotTakeIsRefused) {
  const auto why = [&](const LaunchConfig& config) {
    const auto blocks = runtime_.BlocksPerMultiprocessor(kernel_, config);
    return blocks ? "" : blocks.error().message();
  };
  EXPECT_EQ(why({.block = {2048}}),
            "kernel 'none': a block of 2048 in direction 0, the device takes "
            "1024: give more blocks of fewer threads");
  EXPECT_EQ(why({.block = {0}}),
            "launch 0 (kernel 'none') has a block of 0 in direction 0: give 1 "
            "or more, or leave the launch out");
  EXPECT_EQ(runtime_.SuggestBlock(kernel_, 1 << 20).error().message(),
            "kernel 'none': 1048576 bytes of dynamic shared memory beside 0 of "
            "the kernel's own, the device has 232448 for a block");
  const Runtime other = *Runtime::Create({.device = RuntimeOptions::kHost});
  EXPECT_EQ(other.SuggestBlock(kernel_).error().message(),
            "kernel 'none' is of another runtime: ask that one");
  EXPECT_EQ(other.BlocksPerMultiprocessor(kernel_, {}).error().message(),
            "kernel 'none' is of another runtime: ask that one");
}

TEST(CudaOccupancyTest, TheDriverIsAsked) {
  sim::SimulatedGpu gpu;
  sim::SimulatedGpu::Kernel set =
      sim::SimulatedGpu::MakeKernel(+[](float* to) { *to = 1; });
  set.most_threads = 700;
  gpu.blocks_at_a_time = 3;
  engine::LaunchLimits limits = engine::LaunchLimits::OfHost();
  limits.multiprocessors = 5;
  const auto device = MakeCudaDevice(gpu.driver, gpu.context, limits);
  const auto code = CodeOf(gpu, "set", set);
  engine::Node node;
  node.kernel = code.get();
  node.shared_bytes = 100 << 10;
  node.block = {64};
  EXPECT_EQ(*device->MostBlocks(node), 3u);
  EXPECT_EQ(set.most_shared_bytes, limits.shared_bytes);
  const SuggestedBlock block = *device->SuggestBlock(*code, 0);
  EXPECT_EQ(block.threads, 672u);
  EXPECT_EQ(block.blocks, 15u);

  gpu.blocks_at_a_time = 0;
  EXPECT_EQ(device->SuggestBlock(*code, 16).error().message(),
            "16 bytes of dynamic shared memory, with which the device can hold "
            "no block of it");
}

TEST(StreamPriorityTest, StreamsHaveTheirPriority) {
  sim::SimulatedGpu gpu;
  engine::LaunchLimits limits;
  limits.priority_greatest = -5;
  const auto device = MakeCudaDevice(gpu.driver, gpu.context, limits);
  EXPECT_EQ(device->priorities().least, 0);
  EXPECT_EQ(device->priorities().greatest, -5);
  for (const int32_t priority : {0, -3, -5}) {
    const auto stream = device->MakeStream(priority);
    ASSERT_TRUE(stream) << stream.error().message();
    EXPECT_EQ(gpu.priorities.at(*stream), priority);
    device->EndStream(*stream);
  }
}

TEST(StreamPriorityTest, OthersAreRefused) {
  const Runtime runtime = *Runtime::Create({.device = RuntimeOptions::kHost});
  const PriorityRange range = runtime.priorities();
  EXPECT_EQ(range.least, 0);
  EXPECT_EQ(range.greatest, -5);
  EXPECT_TRUE(runtime.CreateStream(range.greatest));
  for (const int32_t priority : {range.least + 1, range.greatest - 1}) {
    const auto stream = runtime.CreateStream(priority);
    ASSERT_FALSE(stream);
    EXPECT_EQ(stream.error().code(), Code::kInvalidArgument);
    EXPECT_EQ(stream.error().message(), "a priority of " +
                                            std::to_string(priority) +
                                            ", the device takes -5 to 0");
  }
}

}  // namespace
}  // namespace reprise::native
