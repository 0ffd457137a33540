// Memory comes from a pool or from the driver, and what is held is freed later.

#include "bindings/native/cuda_memory.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "tests/sim/simulated_gpu.h"

namespace reprise::native {
namespace {

class CudaMemoryTest : public testing::Test {
 protected:
  // With a pool of the driver's, or without one.
  void Open(bool has_pool) {
    std::unique_ptr<MemoryPool> pool;
    if (has_pool) {
      auto made = MemoryPool::Create(gpu_.driver, 0, 1 << 20);
      ASSERT_TRUE(made) << made.error().message();
      pool = *std::move(made);
    }
    memory_ = std::make_unique<CudaMemory>(gpu_.driver, gpu_.context,
                                           std::move(pool));
    before_ = gpu_.objects();
  }
  void TearDown() override {
    memory_.reset();
    EXPECT_EQ(gpu_.objects(), 0u);
  }

  void* Allocate() {
    const auto memory = memory_->Allocate(64);
    EXPECT_TRUE(memory) << memory.error().message();
    return memory ? *memory : nullptr;
  }
  // Blocks that the device has lent.
  size_t lent() {
    gpu_.streams.SynchronizeAll();
    return gpu_.objects() - before_;
  }

  sim::SimulatedGpu gpu_;
  std::unique_ptr<CudaMemory> memory_;
  size_t before_ = 0;
};

class CudaMemoryPoolTest : public CudaMemoryTest,
                           public testing::WithParamInterface<bool> {
 protected:
  void SetUp() override { Open(GetParam()); }
};

TEST_P(CudaMemoryPoolTest, WhatIsFreedGoesBack) {
  void* const a = Allocate();
  void* const b = Allocate();
  EXPECT_NE(a, b);
  EXPECT_EQ(lent(), 2u);
  memory_->Free(a);
  EXPECT_EQ(lent(), 1u);
  memory_->Free(b);
  EXPECT_EQ(lent(), 0u);
  EXPECT_EQ(memory_->waits_for_streams(), GetParam());
}

TEST_P(CudaMemoryPoolTest, WhatIsHeldGoesBackWithItsHold) {
  void* const old = Allocate();
  const auto hold = memory_->BeginHold();
  void* const young = Allocate();
  memory_->Free(old);
  EXPECT_EQ(lent(), 2u);
  memory_->Free(young);  // nobody holds it
  EXPECT_EQ(lent(), 1u);
  memory_->EndHold(hold);
  EXPECT_EQ(lent(), 0u);
}

INSTANTIATE_TEST_SUITE_P(, CudaMemoryPoolTest, testing::Bool(),
                         [](const auto& info) {
                           return info.param ? "Pool" : "NoPool";
                         });

TEST_F(CudaMemoryTest, WhatIsHeldIsGivenUpIfThereIsNoOtherMemory) {
  Open(/*has_pool=*/false);  // a pool tries again by itself
  void* const held = Allocate();
  const auto hold = memory_->BeginHold();
  memory_->Free(held);
  gpu_.FailAfter(0, CUDA_ERROR_OUT_OF_MEMORY);
  void* const memory = Allocate();
  EXPECT_EQ(lent(), 1u);
  memory_->EndHold(hold);
  EXPECT_EQ(lent(), 1u);
  memory_->Free(memory);
}

}  // namespace
}  // namespace reprise::native
