// Proves that what a device says of itself is the driver's, or the host's.

#include "bindings/native/device_query.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "bindings/native/runtime_options.h"
#include "engine/batch/launch_limits.h"
#include "tests/sim/simulated_gpu.h"

namespace reprise::native {
namespace {

// A driver of a device 3 with these attributes.
class DeviceQueryTest : public testing::Test {
 protected:
  DeviceQueryTest() {
    gpu_.driver.cuDeviceGetAttribute =
        [](int* value, CUdevice_attribute attribute, CUdevice device) {
          if (device != 3) return CUDA_ERROR_INVALID_DEVICE;
          switch (attribute) {
            case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
              *value = 12;
              return CUDA_SUCCESS;
            case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
              *value = 1;
              return CUDA_SUCCESS;
            case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
              *value = 48;
              return CUDA_SUCCESS;
            case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
              *value = 1024;
              return CUDA_SUCCESS;
            case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
              *value = 1536;
              return CUDA_SUCCESS;
            case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
              *value = 101'376;
              return CUDA_SUCCESS;
            case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
              *value = 102'400;
              return CUDA_SUCCESS;
            default:
              return CUDA_ERROR_INVALID_VALUE;
          }
        };
  }

  sim::SimulatedGpu gpu_;
};

TEST_F(DeviceQueryTest, ADeviceIsWhatTheDriverTells) {
  const auto info = InfoOf(gpu_.driver, 3);
  ASSERT_TRUE(info) << info.error().message();
  EXPECT_EQ(info->number, 3);
  EXPECT_EQ(info->name, "simulated 3");
  EXPECT_EQ(info->compute_major, 12);
  EXPECT_EQ(info->compute_minor, 1);
  EXPECT_EQ(info->memory_bytes, uint64_t{80} << 30);
  EXPECT_EQ(info->multiprocessors, 48);
  EXPECT_EQ(info->threads_per_block, 1024);
  EXPECT_EQ(info->threads_per_multiprocessor, 1536);
  EXPECT_EQ(info->shared_bytes_per_block, 101'376);
  EXPECT_EQ(info->shared_bytes_per_multiprocessor, 102'400);
}

TEST_F(DeviceQueryTest, WhatTheDriverDoesNotTellIsAnError) {
  EXPECT_FALSE(InfoOf(gpu_.driver, 4));
  int errors = 0;
  for (int calls = 0;; ++calls) {
    gpu_.failed.clear();
    gpu_.FailAfter(calls);
    const auto info = InfoOf(gpu_.driver, 3);
    gpu_.FailAfter(-1);
    if (gpu_.failed.empty()) break;
    EXPECT_FALSE(info) << gpu_.failed;
    ++errors;
  }
  EXPECT_EQ(errors, 2);  // its name and its memory
}

TEST_F(DeviceQueryTest, AHostDeviceIsWhatItsLaunchesAreHeldTo) {
  const DeviceInfo info = HostInfo();
  const engine::LaunchLimits limits = engine::LaunchLimits::OfHost();
  EXPECT_EQ(info.number, RuntimeOptions::kHost);
  EXPECT_EQ(info.name, "host");
  EXPECT_EQ(info.compute_major, 9);
  EXPECT_GE(info.memory_bytes, uint64_t{1} << 28);
  EXPECT_EQ(info.multiprocessors, limits.multiprocessors);
  EXPECT_EQ(info.threads_per_block, limits.threads);
  EXPECT_EQ(info.shared_bytes_per_block, limits.shared_bytes);
  EXPECT_GE(info.threads_per_multiprocessor, info.threads_per_block);
  EXPECT_GE(info.shared_bytes_per_multiprocessor, info.shared_bytes_per_block);
}

}  // namespace
}  // namespace reprise::native
