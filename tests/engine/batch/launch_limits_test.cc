// Proves which launches a device takes, and what it is asked before it does.

#include "engine/batch/launch_limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "engine/batch/kernel_code.h"

namespace reprise::engine {
namespace {

using base::Result;
using base::Status;
using ::testing::HasSubstr;

// A device that says what the test says, and counts what it is asked to allow.
class FakeOccupancy final : public Occupancy {
 public:
  Result<int> OwnSharedBytes(KernelCode&) const override {
    return own_shared_bytes;
  }
  Result<int> MostThreads(KernelCode&) const override { return 1024; }
  Status AllowShared(KernelCode&, int bytes) const override {
    ++asked_for_shared;
    allowed_shared_bytes = bytes;
    if (refuses) return base::Fail(base::Code::kInternal, "told to fail");
    return {};
  }
  Status AllowLargeClusters(KernelCode&) const override {
    ++asked_for_clusters;
    return {};
  }
  Result<uint64_t> MostClusters(const Node&) const override { return clusters; }
  Result<uint64_t> MostBlocks(const Node&) const override { return blocks; }

  int own_shared_bytes = 0;
  uint64_t clusters = 2;
  uint64_t blocks = 3;
  bool refuses = false;
  mutable int asked_for_shared = 0;
  mutable int allowed_shared_bytes = 0;
  mutable int asked_for_clusters = 0;
};

class LaunchLimitsTest : public testing::Test {
 protected:
  LaunchLimitsTest() {
    limits_.grid = {1000, 100, 10};
    limits_.block = {512, 256, 64};
    limits_.threads = 512;
    limits_.shared_bytes = 100'000;
    limits_.multiprocessors = 4;
    limits_.priority_greatest = -5;
    node_.kernel = &kernel_;
  }

  // Why it is refused; empty if it is not.
  std::string Why(const Node& node) {
    const Status admitted = Admit(occupancy_, limits_, node);
    if (admitted) return "";
    EXPECT_EQ(admitted.error().code(), base::Code::kInvalidArgument);
    return admitted.error().message();
  }
  std::string WhyShaped(const Dim3& grid, const Dim3& block) {
    Node node = node_;
    node.grid = grid;
    node.block = block;
    return Why(node);
  }

  KernelCode kernel_{"kernel", {}};
  FakeOccupancy occupancy_;
  LaunchLimits limits_;
  Node node_;
};

TEST_F(LaunchLimitsTest, EveryDirectionHasItsBound) {
  EXPECT_EQ(WhyShaped({1000, 100, 10}, {512}), "");
  EXPECT_EQ(WhyShaped({1001}, {}),
            "a grid of 1001 in direction 0, the device takes 1000");
  EXPECT_EQ(WhyShaped({1, 1, 11}, {}),
            "a grid of 11 in direction 2, the device takes 10: direction 0 "
            "takes more");
  EXPECT_EQ(WhyShaped({}, {1, 257}),
            "a block of 257 in direction 1, the device takes 256: give more "
            "blocks of fewer threads");
  EXPECT_EQ(WhyShaped({}, {64, 8, 1}), "");
  EXPECT_EQ(WhyShaped({}, {64, 8, 2}),
            "a block of 1024 threads, the device takes 512: give more blocks "
            "of fewer threads");
}

TEST_F(LaunchLimitsTest, MuchSharedMemoryIsAskedForOnce) {
  occupancy_.own_shared_bytes = 1000;
  node_.shared_bytes = (48 << 10) - 1000;
  EXPECT_EQ(Why(node_), "");
  EXPECT_EQ(occupancy_.asked_for_shared, 0);
  ++node_.shared_bytes;
  EXPECT_EQ(Why(node_), "");
  EXPECT_EQ(occupancy_.allowed_shared_bytes, 99'000);  // all that there is
  node_.shared_bytes = 99'000;
  EXPECT_EQ(Why(node_), "");
  EXPECT_EQ(occupancy_.asked_for_shared, 1);
  ++node_.shared_bytes;
  EXPECT_EQ(Why(node_),
            "99001 bytes of dynamic shared memory beside 1000 of the kernel's "
            "own, the device has 100000 for a block");
}

TEST_F(LaunchLimitsTest, SharedMemoryThatWasNotAllowedIsAskedForAgain) {
  node_.shared_bytes = 90'000;
  occupancy_.refuses = true;
  EXPECT_FALSE(Admit(occupancy_, limits_, node_));
  occupancy_.refuses = false;
  EXPECT_TRUE(Admit(occupancy_, limits_, node_));
  EXPECT_EQ(occupancy_.asked_for_shared, 2);
}

TEST_F(LaunchLimitsTest, APriorityIsBetweenTheDevicesTwo) {
  EXPECT_TRUE(AdmitPriority(limits_, 0));
  EXPECT_TRUE(AdmitPriority(limits_, -5));
  EXPECT_EQ(AdmitPriority(limits_, 1).error().message(),
            "a priority of 1, the device takes -5 to 0");
  EXPECT_FALSE(AdmitPriority(limits_, -6));
  node_.priority = -6;
  EXPECT_THAT(Why(node_), HasSubstr("a priority of -6"));
}

TEST_F(LaunchLimitsTest, ClustersOfMoreThanEightBlocksAreAskedFor) {
  node_.grid = {64};
  node_.cluster = {8, 1, 1};
  EXPECT_EQ(Why(node_), "");
  EXPECT_EQ(occupancy_.asked_for_clusters, 0);
  node_.cluster = {16, 1, 1};
  EXPECT_EQ(Why(node_), "");
  EXPECT_EQ(occupancy_.asked_for_clusters, 1);
  occupancy_.clusters = 0;
  EXPECT_EQ(Why(node_),
            "clusters of 16 blocks, of which the device can hold none");
}

TEST_F(LaunchLimitsTest, ACooperativeGridFitsAtATime) {
  node_.cooperative = 1;
  node_.grid = {12};  // three blocks on each of four multiprocessors
  EXPECT_EQ(Why(node_), "");
  node_.grid = {13};
  EXPECT_EQ(Why(node_),
            "a cooperative grid of 13 blocks, of which the device can hold 12 "
            "at a time");
  // Of clusters there may be fewer.
  node_.cluster = {4, 1, 1};
  node_.grid = {8};
  EXPECT_EQ(Why(node_), "");
  node_.grid = {12};
  EXPECT_THAT(Why(node_), HasSubstr("can hold 8 at a time"));
}

TEST_F(LaunchLimitsTest, WhatTheDeviceHasNotIsRefused) {
  limits_.clusters = limits_.cooperative = false;
  EXPECT_EQ(Why(node_), "");
  Node node = node_;
  node.cluster = {2, 1, 1};
  EXPECT_THAT(Why(node), HasSubstr("clusters, which the device has not"));
  node = node_;
  node.programmatic = 1;
  EXPECT_THAT(Why(node), HasSubstr("a programmatic launch, which"));
  node = node_;
  node.cooperative = 1;
  EXPECT_THAT(Why(node), HasSubstr("a cooperative grid, which"));
}

TEST_F(LaunchLimitsTest, ADevicesAreWhatItsDriverTells) {
  device::Driver driver;
  driver.cuDeviceGetAttribute = [](int* value, CUdevice_attribute attribute,
                                   CUdevice device) {
    EXPECT_EQ(device, 3);
    const std::map<CUdevice_attribute, int> told = {
        {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 1},
        {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 2},
        {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 3},
        {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 4},
        {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 5},
        {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 6},
        {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 7},
        {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 8},
        {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 9},
        {CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 1},
        {CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, 0}};
    *value = told.at(attribute);
    return CUDA_SUCCESS;
  };
  driver.cuCtxGetStreamPriorityRange = [](int* least, int* greatest) {
    *least = 0;
    *greatest = -2;
    return CUDA_SUCCESS;
  };
  const auto limits = LaunchLimits::Of(driver, 3);
  ASSERT_TRUE(limits);
  EXPECT_THAT(limits->grid, testing::ElementsAre(1, 2, 3));
  EXPECT_THAT(limits->block, testing::ElementsAre(4, 5, 6));
  EXPECT_EQ(limits->threads, 7);
  EXPECT_EQ(limits->shared_bytes, 8);
  EXPECT_EQ(limits->multiprocessors, 9);
  EXPECT_TRUE(limits->cooperative);
  EXPECT_FALSE(limits->clusters);
  EXPECT_EQ(limits->priority_greatest, -2);
}

// As many as fit by blocks, by threads and by shared memory.
TEST_F(LaunchLimitsTest, AHostsMultiprocessorHoldsSoManyBlocks) {
  const auto host = MakeHostOccupancy();
  const auto blocks = [&](uint32_t threads, uint32_t shared_bytes) {
    node_.block = {threads};
    node_.shared_bytes = shared_bytes;
    return *host->MostBlocks(node_);
  };
  EXPECT_EQ(blocks(32, 0), 32u);
  EXPECT_EQ(blocks(1024, 0), 2u);
  EXPECT_EQ(blocks(33, 0), 32u);
  EXPECT_EQ(blocks(65, 0), 21u);  // of three warps
  EXPECT_EQ(blocks(32, 113 << 10), 2u);
  EXPECT_EQ(blocks(32, (113 << 10) + 1), 1u);
  node_.shared_bytes = 0;
  node_.cluster = {16, 1, 1};
  EXPECT_EQ(*host->MostClusters(node_), 32u * 132 / 16);
  node_.cluster = {17, 1, 1};
  EXPECT_EQ(*host->MostClusters(node_), 0u);
}

}  // namespace
}  // namespace reprise::engine
