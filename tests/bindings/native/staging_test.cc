// Proves that pinned memory is bounded, and never used again too early.

#include "bindings/native/staging.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <vector>

#include "tests/sim/simulated_gpu.h"

namespace reprise::native {
namespace {

class StagingTest : public testing::Test {
 protected:
  StagingTest() {
    gpu_.streams.SetPace(sim::SimulatedStreams::Pace::kByHand);
    staging_.emplace(gpu_.driver, gpu_.context);
  }
  ~StagingTest() override {
    staging_.reset();
    EXPECT_EQ(gpu_.objects(), 0u);
  }

  template <typename T>
  static CUdeviceptr AddressOf(T* memory) {
    return reinterpret_cast<CUdeviceptr>(memory);
  }
  Status CopyIn(int* to, int from) {
    return staging_->CopyIn(AddressOf(to), &from, sizeof from, gpu_.stream);
  }
  int CallsOf(const char* name) const {
    return static_cast<int>(
        std::count(gpu_.calls.begin(), gpu_.calls.end(), name));
  }

  sim::SimulatedGpu gpu_;
  std::optional<Staging> staging_;
};

TEST_F(StagingTest, CopiesToTheDeviceGoInPieces) {
  std::vector<std::byte> from(2 * Staging::kPieceBytes + 1, std::byte{1});
  from.back() = std::byte{7};
  const std::vector<std::byte> kept = from;
  std::vector<std::byte> to(from.size());
  ASSERT_TRUE(staging_->CopyIn(AddressOf(to.data()), from.data(), from.size(),
                               gpu_.stream));
  EXPECT_EQ(CallsOf("cuMemcpyHtoDAsync"), 3);
  std::ranges::fill(from, std::byte{0});  // it may be used again
  gpu_.streams.Synchronize(gpu_.stream);
  EXPECT_EQ(to, kept);
}

TEST_F(StagingTest, ABlockIsUsedAgainOnceItsCopyHasPassed) {
  std::array<int, 3> to{};
  ASSERT_TRUE(CopyIn(&to[0], 1));
  ASSERT_TRUE(CopyIn(&to[1], 2));
  EXPECT_EQ(CallsOf("cuMemHostAlloc"), 2);
  gpu_.streams.Synchronize(gpu_.stream);
  ASSERT_TRUE(CopyIn(&to[2], 3));
  EXPECT_EQ(CallsOf("cuMemHostAlloc"), 2);
  EXPECT_EQ(staging_->held_bytes(), 2u * 4096);
  gpu_.streams.Synchronize(gpu_.stream);
  EXPECT_EQ(to, (std::array{1, 2, 3}));
}

TEST_F(StagingTest, CopiesBeyondWhatIsKeptWaitForEarlierOnes) {
  constexpr size_t kPieceFloats = Staging::kPieceBytes / sizeof(float);
  std::vector<float> from(kPieceFloats);
  std::iota(from.begin(), from.end(), 0.0f);
  std::vector<float> to(kPieceFloats);
  for (size_t i = 0; i < 3 * Staging::kKeptBytes / Staging::kPieceBytes; ++i) {
    ASSERT_TRUE(staging_->CopyIn(AddressOf(to.data()), from.data(),
                                 Staging::kPieceBytes, gpu_.stream));
    EXPECT_LE(staging_->held_bytes(), Staging::kKeptBytes);
  }
  EXPECT_EQ(staging_->held_bytes(), Staging::kKeptBytes);
  gpu_.streams.Synchronize(gpu_.stream);
  EXPECT_EQ(to, from);
}

TEST_F(StagingTest, BlocksOfOtherSizesGoBeforeMoreThanEnoughIsHeld) {
  std::vector<std::byte> memory(Staging::kPieceBytes);
  const auto copy = [&](size_t bytes) {
    return staging_->CopyIn(AddressOf(memory.data()), memory.data(), bytes,
                            gpu_.stream);
  };
  for (size_t i = 0; i < Staging::kKeptBytes / Staging::kPieceBytes; ++i) {
    ASSERT_TRUE(copy(Staging::kPieceBytes));
  }
  ASSERT_TRUE(copy(Staging::kPieceBytes / 2));
  EXPECT_EQ(staging_->held_bytes(),
            Staging::kKeptBytes - Staging::kPieceBytes / 2);
  gpu_.streams.Synchronize(gpu_.stream);
}

TEST_F(StagingTest, WhatCameFromTheDeviceIsThereOnceItHasArrived) {
  std::array<int, 2> from{5, 6};
  const auto copy =
      staging_->CopyOut(AddressOf(from.data()), sizeof from, gpu_.stream);
  ASSERT_TRUE(copy);
  EXPECT_FALSE(*(*copy)->Arrived());
  const auto bytes = (*copy)->Wait();
  ASSERT_TRUE(bytes);
  EXPECT_EQ(std::memcmp(*bytes, from.data(), sizeof from), 0);
  EXPECT_TRUE(*(*copy)->Arrived());
}

TEST_F(StagingTest, LargeDownloadsAreFreedWithTheirLastCopy) {
  std::vector<std::byte> from(Staging::kKeptBytes + 1);
  (void)staging_->CopyOut(AddressOf(from.data()), 8, gpu_.stream);
  auto large =
      *staging_->CopyOut(AddressOf(from.data()), from.size(), gpu_.stream);
  EXPECT_EQ(staging_->held_bytes(), Staging::kKeptBytes + Staging::kPieceBytes);
  large.reset();
  EXPECT_EQ(staging_->held_bytes(), 0u);
}

TEST_F(StagingTest, AnotherThreadsCaptureIsNotDisturbed) {
  int to = 0;
  gpu_.capturing = true;
  ASSERT_TRUE(CopyIn(&to, 3));
  ASSERT_TRUE(CopyIn(&to, 3));
  (void)staging_->CopyOut(AddressOf(&to), sizeof to, gpu_.stream);
  EXPECT_EQ(gpu_.broken_captures, 0);
  gpu_.capturing = false;
  gpu_.streams.Synchronize(gpu_.stream);
}

TEST_F(StagingTest, ItsEndWaitsForWhatIsInFlight) {
  int to = 0;
  ASSERT_TRUE(CopyIn(&to, 3));
  staging_.reset();
  EXPECT_EQ(to, 3);
}

// Memory that nobody waits for would be written over.
TEST_F(StagingTest, ABlockWhoseUseCannotBeMarkedHasPassed) {
  auto made = PinnedBlock::Make(gpu_.driver, 64);
  ASSERT_TRUE(made);
  bool done = false;
  gpu_.streams.Enqueue(gpu_.stream, [&done] { done = true; });
  gpu_.FailAfter(0);
  EXPECT_FALSE((*made)->UsedBy(gpu_.stream));
  EXPECT_EQ(gpu_.failed, "cuEventRecord");
  EXPECT_TRUE(done);
}

}  // namespace
}  // namespace reprise::native
