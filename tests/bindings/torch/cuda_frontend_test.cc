// torch's CUDA side as the engine sees it. Needs a GPU.

#include <ATen/ATen.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "bindings/torch/runtime/allocator_trace.h"
#include "bindings/torch/runtime/torch_frontend.h"

namespace reprise::bindings {
namespace {

uint64_t Address(const at::Tensor& tensor) {
  return reinterpret_cast<uint64_t>(tensor.const_data_ptr());
}

class CudaFrontendTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (c10::cuda::device_count() == 0) GTEST_SKIP() << "no device";
    const base::Status prepared =
        PrepareFrontends(scheduler::DeviceKind::kCuda);
    ASSERT_TRUE(prepared.has_value()) << prepared.error().message();
    frontend_ = MakeFrontend({scheduler::DeviceKind::kCuda, 0, nullptr},
                             [](engine::OpId) { return std::string("op"); });
  }

  static at::Tensor Make(int64_t elements) {
    return at::rand({elements}, at::TensorOptions(at::kCUDA));
  }

  std::unique_ptr<engine::Frontend> frontend_;
};

TEST_F(CudaFrontendTest, AllocatesMemoryOfTheCachingAllocator) {
  auto block = frontend_->Allocate(1000);
  ASSERT_TRUE(block.has_value()) << block.error().message();
  EXPECT_EQ(block->address() % 512, 0u);
  EXPECT_TRUE(frontend_->OwnsAddress(block->address()));
  const auto parts = block->Detach();
  EXPECT_EQ(parts.release,
            c10::cuda::CUDACachingAllocator::get()->raw_deleter());
  parts.release(parts.context);
}

TEST_F(CudaFrontendTest, RunningOutOfMemoryIsAValue) {
  auto block = frontend_->Allocate(size_t{1} << 50);
  ASSERT_FALSE(block.has_value());
  EXPECT_EQ(block.error().code(), base::Code::kResourceExhausted);
}

TEST_F(CudaFrontendTest, OwnsWhatTheAllocatorOwnsAndNothingElse) {
  at::Tensor tensor = Make(64 << 20);
  EXPECT_TRUE(frontend_->OwnsAddress(Address(tensor)));
  const int local = 0;
  EXPECT_FALSE(frontend_->OwnsAddress(reinterpret_cast<uint64_t>(&local)));
  const uint64_t gone = Address(tensor);
  tensor.reset();
  EXPECT_TRUE(frontend_->OwnsAddress(gone));  // cached
  c10::cuda::CUDACachingAllocator::emptyCache();
  EXPECT_FALSE(frontend_->OwnsAddress(gone));
}

TEST_F(CudaFrontendTest, NotesTheAllocationsOfThisThread) {
  frontend_->BeginAllocations();
  const at::Tensor mine = Make(100);
  std::thread([] { Make(100); }).join();
  const auto noted = frontend_->TakeAllocations();
  ASSERT_EQ(noted.size(), 1u);
  EXPECT_EQ(noted[0].address, Address(mine));
  EXPECT_EQ(noted[0].size_bytes, 400u);
  Make(100);
  EXPECT_TRUE(frontend_->TakeAllocations().empty());
}

TEST_F(CudaFrontendTest, APrivatePoolMovesEveryValueAndLetsThemLive) {
  const uint64_t usual = Address(Make(1000));
  EXPECT_EQ(Address(Make(1000)), usual);

  std::vector<at::Tensor> born;
  uint64_t own = 0;
  for (int recording = 0; recording < 20; ++recording) {
    ASSERT_TRUE(frontend_->BeginPrivatePool(0).has_value());
    born.push_back(at::full({1000}, recording, at::TensorOptions(at::kCUDA)));
    own = frontend_->Allocate(4000)->address();
    frontend_->EndPrivatePool();
    EXPECT_EQ(own, usual);  // Reprise's own memory is not the recording's
  }
  std::vector<uint64_t> addresses{usual};
  for (const at::Tensor& tensor : born) addresses.push_back(Address(tensor));
  std::sort(addresses.begin(), addresses.end());
  EXPECT_EQ(std::unique(addresses.begin(), addresses.end()), addresses.end());
  EXPECT_EQ(Address(Make(1000)), usual);
  for (int recording = 0; recording < 20; ++recording) {
    EXPECT_TRUE(at::all(born[recording] == recording).item<bool>());
  }
}

// Torch would ask the device for ten segments, each by itself.
TEST_F(CudaFrontendTest, TheMemoryOfALargePassIsTakenAtOnce) {
  constexpr int kTensors = 50;
  constexpr int64_t kElements = 1 << 20;  // 4 MiB, of 128 and 72
  const uint64_t usual = Address(Make(kElements));
  const auto segments = [] {
    return c10::cuda::CUDACachingAllocator::getDeviceStats(0)
        .segment[0]
        .allocated;
  };
  const int64_t before = segments();
  std::vector<at::Tensor> born;
  ASSERT_TRUE(
      frontend_->BeginPrivatePool(kTensors * kElements * sizeof(float)));
  for (int i = 0; i < kTensors; ++i) {
    born.push_back(Make(kElements).fill_(i));
  }
  frontend_->EndPrivatePool();
  EXPECT_EQ(segments() - before, 2);
  for (int i = 0; i < kTensors; ++i) {
    EXPECT_NE(Address(born[i]), usual);
    EXPECT_TRUE(at::all(born[i] == i).item<bool>());
  }
  EXPECT_EQ(Address(Make(kElements)), usual);
}

// A value that lives on keeps little of it.
TEST_F(CudaFrontendTest, WhatLivesOnKeepsAPartOfALargePass) {
  constexpr int kTensors = 200;
  constexpr int64_t kElements = 5 << 18;  // 5 MiB
  const auto reserved = [] {
    return c10::cuda::CUDACachingAllocator::getDeviceStats(0)
        .reserved_bytes[0]
        .current;
  };
  c10::cuda::CUDACachingAllocator::emptyCache();
  const int64_t before = reserved();
  std::vector<at::Tensor> born;
  ASSERT_TRUE(
      frontend_->BeginPrivatePool(kTensors * kElements * sizeof(float)));
  for (int i = 0; i < kTensors; ++i) born.push_back(Make(kElements));
  frontend_->EndPrivatePool();
  EXPECT_GE(reserved() - before, int64_t{1000} << 20);
  born.resize(1);
  c10::cuda::CUDACachingAllocator::emptyCache();
  EXPECT_LE(reserved() - before, int64_t{128} << 20);
}

// What the program does not let torch take is no room.
TEST_F(CudaFrontendTest, APassIsNotRecordedBeyondTheProgramsLimit) {
  namespace allocator = c10::cuda::CUDACachingAllocator;
  const size_t total = allocator::get()->getMemoryInfo(0).second;
  const auto reserved = static_cast<double>(
      allocator::getDeviceStats(0).reserved_bytes[0].current);
  allocator::setMemoryFraction(reserved / static_cast<double>(total) + 0.07, 0);
  const auto begun = frontend_->BeginPrivatePool(total / 16);
  allocator::setMemoryFraction(1.0, 0);
  ASSERT_FALSE(begun.has_value());
  EXPECT_EQ(begun.error().code(), base::Code::kResourceExhausted);
  ASSERT_TRUE(frontend_->BeginPrivatePool(0).has_value());
  frontend_->EndPrivatePool();
}

TEST_F(CudaFrontendTest, GivesOldPoolsBackToTheDevice) {
  c10::cuda::CUDACachingAllocator::emptyCache();
  const auto reserved = [] {
    return c10::cuda::CUDACachingAllocator::getDeviceStats(0)
        .reserved_bytes[0]
        .current;
  };
  int64_t most = 0;
  for (int recording = 0; recording < 40; ++recording) {
    ASSERT_TRUE(frontend_->BeginPrivatePool(0).has_value());
    Make(16 << 20);
    frontend_->EndPrivatePool();
    most = std::max(most, reserved());
  }
  EXPECT_LT(most, int64_t{20} * (64 << 20));
}

// Torch gives nothing back while a pool is open.
TEST_F(CudaFrontendTest, APassThatNeedsMoreMemoryThanThereIsIsNotRecorded) {
  constexpr size_t kPoolBytes = size_t{256} << 20;
  c10::cuda::CUDACachingAllocator::emptyCache();
  const auto reserved = [] {
    return c10::cuda::CUDACachingAllocator::getDeviceStats(0)
        .reserved_bytes[0]
        .current;
  };
  const int64_t before = reserved();
  for (int recording = 0; recording < 4; ++recording) {
    ASSERT_TRUE(frontend_->BeginPrivatePool(kPoolBytes).has_value());
    Make(kPoolBytes / sizeof(float));
    frontend_->EndPrivatePool();
  }
  EXPECT_GE(reserved() - before, int64_t{4} * kPoolBytes);
  const auto [free_bytes, total_bytes] =
      c10::cuda::CUDACachingAllocator::get()->getMemoryInfo(0);
  const auto begun = frontend_->BeginPrivatePool(total_bytes);
  ASSERT_FALSE(begun.has_value());
  EXPECT_EQ(begun.error().code(), base::Code::kResourceExhausted);
  EXPECT_LT(reserved() - before, int64_t{kPoolBytes});  // old pools went first
  ASSERT_TRUE(frontend_->BeginPrivatePool(kPoolBytes).has_value());
  frontend_->EndPrivatePool();
}

TEST_F(CudaFrontendTest, EveryUseOfTheGeneratorShows) {
  const engine::GeneratorState before = frontend_->Generator();
  Make(4).add_(1);
  const engine::GeneratorState used = frontend_->Generator();
  EXPECT_NE(used, before);
  at::ones({4}, at::TensorOptions(at::kCUDA)).add_(1);
  EXPECT_EQ(frontend_->Generator(), used);
}

}  // namespace
}  // namespace reprise::bindings
