// Proves that the suggested block fills a device as well as any.

#include "bindings/native/suggest_block.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

namespace reprise::native {
namespace {

// A device whose kernels have so many registers.
class RegistersOccupancy final : public engine::Occupancy {
 public:
  explicit RegistersOccupancy(uint64_t registers) : registers_(registers) {}
  Result<int> OwnSharedBytes(engine::KernelCode&) const override { return 0; }
  Result<int> MostThreads(engine::KernelCode&) const override {
    return static_cast<int>(
        std::min<uint64_t>(1024, kRegisters / registers_ / 32 * 32));
  }
  Status AllowShared(engine::KernelCode&, int) const override { return {}; }
  Status AllowLargeClusters(engine::KernelCode&) const override { return {}; }
  Result<uint64_t> MostClusters(const engine::Node&) const override {
    return 1;
  }
  Result<uint64_t> MostBlocks(const engine::Node& node) const override {
    return std::min<uint64_t>({32, kThreads / node.block.x,
                               kRegisters / (registers_ * node.block.x)});
  }

 private:
  static constexpr uint64_t kRegisters = 65'536;
  static constexpr uint64_t kThreads = 2048;
  const uint64_t registers_;
};

// A device that runs so many blocks of any size, of at most so many threads.
class BlocksOccupancy final : public engine::Occupancy {
 public:
  BlocksOccupancy(uint64_t blocks, int most_threads)
      : blocks_(blocks), most_threads_(most_threads) {}
  Result<int> OwnSharedBytes(engine::KernelCode&) const override { return 0; }
  Result<int> MostThreads(engine::KernelCode&) const override {
    return most_threads_;
  }
  Status AllowShared(engine::KernelCode&, int) const override { return {}; }
  Status AllowLargeClusters(engine::KernelCode&) const override { return {}; }
  Result<uint64_t> MostClusters(const engine::Node&) const override {
    return 1;
  }
  Result<uint64_t> MostBlocks(const engine::Node&) const override {
    return blocks_;
  }

 private:
  const uint64_t blocks_;
  const int most_threads_;
};

class SuggestBlockTest : public testing::Test {
 protected:
  SuggestBlockTest() { limits_.multiprocessors = 5; }

  engine::LaunchLimits limits_ = engine::LaunchLimits::OfHost();
  engine::KernelCode kernel_{"kernel", {}};
};

TEST_F(SuggestBlockTest, NoBlockIsBetterThanTheSuggestedOne) {
  for (const uint64_t registers : {16u, 32u, 40u, 48u, 72u, 100u, 168u, 255u}) {
    const RegistersOccupancy occupancy(registers);
    const auto block = SuggestBlock(occupancy, limits_, kernel_, 0);
    ASSERT_TRUE(block) << block.error().message();
    engine::Node node;
    node.kernel = &kernel_;
    uint32_t best = 0;
    uint32_t threads = 0;
    for (uint32_t t = 32; t <= 1024; t += 32) {
      node.block = {t};
      const auto running =
          static_cast<uint32_t>(*occupancy.MostBlocks(node)) * t;
      if (running < best || running == 0) continue;
      best = running;
      threads = t;
    }
    EXPECT_EQ(block->threads, threads) << registers;
    EXPECT_EQ(block->threads * block->blocks_per_multiprocessor, best);
    EXPECT_EQ(block->blocks, 5 * block->blocks_per_multiprocessor);
  }
}

TEST_F(SuggestBlockTest, ABlockIsWholeWarpsThatKernelAndDeviceTake) {
  EXPECT_EQ(SuggestBlock(BlocksOccupancy(3, 700), limits_, kernel_, 0)->threads,
            672u);
  limits_.threads = 500;
  EXPECT_EQ(SuggestBlock(BlocksOccupancy(3, 700), limits_, kernel_, 0)->threads,
            480u);
}

TEST_F(SuggestBlockTest, WhereNoBlockFitsThereIsAnError) {
  for (const BlocksOccupancy& occupancy :
       {BlocksOccupancy(0, 1024), BlocksOccupancy(3, 31)}) {
    const auto block = SuggestBlock(occupancy, limits_, kernel_, 16);
    ASSERT_FALSE(block);
    EXPECT_EQ(block.error().code(), Code::kInvalidArgument);
    EXPECT_EQ(block.error().message(),
              "16 bytes of dynamic shared memory, with which the device can "
              "hold no block of it");
  }
}

TEST_F(SuggestBlockTest, MoreSharedMemoryThanTheDeviceHasIsRefused) {
  const auto block =
      SuggestBlock(BlocksOccupancy(3, 1024), limits_, kernel_, 1 << 20);
  ASSERT_FALSE(block);
  EXPECT_THAT(block.error().message(),
              testing::HasSubstr("the device has 232448 for a block"));
}

}  // namespace
}  // namespace reprise::native
