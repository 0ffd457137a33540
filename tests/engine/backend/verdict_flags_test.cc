// Proves that the words which comparisons raise are read without a stall.

#include "engine/backend/verdict_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "tests/sim/simulated_gpu.h"

namespace reprise::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr uint32_t kTags = 3;

class VerdictFlagsTest : public testing::Test {
 protected:
  VerdictFlagsTest() {
    gpu_.streams.SetPace(sim::SimulatedStreams::Pace::kByHand);
    auto flags = VerdictFlags::Create(gpu_.driver, kTags);
    if (flags) flags_ = *std::move(flags);
  }
  void SetUp() override { ASSERT_NE(flags_, nullptr); }
  ~VerdictFlagsTest() override {
    flags_.reset();
    EXPECT_EQ(gpu_.objects(), 0u);
  }

  // As a comparison on the device would, in stream order.
  void Raise(uint32_t tag) {
    gpu_.streams.Enqueue(gpu_.stream, [address = flags_->address(tag)] {
      *reinterpret_cast<uint32_t*>(address) = 5;
    });
  }
  std::vector<uint32_t> Differing() {
    const auto verdict = flags_->Poll(Executor::Patience::kWait);
    EXPECT_TRUE(verdict && verdict->has_value());
    return verdict && verdict->has_value() ? (*verdict)->differing
                                           : std::vector<uint32_t>{99};
  }

  sim::SimulatedGpu gpu_;
  std::unique_ptr<VerdictFlags> flags_;
};

TEST_F(VerdictFlagsTest, TheVerdictIsThereOnceTheDeviceHasReachedIt) {
  ASSERT_TRUE(flags_->Clear(gpu_.stream));
  Raise(2);
  ASSERT_TRUE(flags_->Read(gpu_.stream));
  const auto before = flags_->Poll(Executor::Patience::kPoll);
  ASSERT_TRUE(before);
  EXPECT_FALSE(before->has_value());
  gpu_.streams.Synchronize(gpu_.stream);
  const auto verdict = flags_->Poll(Executor::Patience::kPoll);
  ASSERT_TRUE(verdict && verdict->has_value());
  EXPECT_THAT((*verdict)->differing, ElementsAre(2u));
}

TEST_F(VerdictFlagsTest, WhoWaitsHasEachTagThatWasRaisedAscending) {
  ASSERT_TRUE(flags_->Clear(gpu_.stream));
  Raise(2);
  Raise(0);
  ASSERT_TRUE(flags_->Read(gpu_.stream));
  EXPECT_THAT(Differing(), ElementsAre(0u, 2u));
  EXPECT_EQ(gpu_.streams.pending(gpu_.stream), 0u);
}

TEST_F(VerdictFlagsTest, ClearingLowersAllAndTouchingNone) {
  ASSERT_TRUE(flags_->Clear(gpu_.stream));
  for (uint32_t tag = 0; tag < kTags; ++tag) Raise(tag);
  ASSERT_TRUE(flags_->Touch(gpu_.stream));
  ASSERT_TRUE(flags_->Read(gpu_.stream));
  EXPECT_THAT(Differing(), ElementsAre(0u, 1u, 2u));
  ASSERT_TRUE(flags_->Clear(gpu_.stream));
  ASSERT_TRUE(flags_->Read(gpu_.stream));
  EXPECT_THAT(Differing(), IsEmpty());
}

TEST_F(VerdictFlagsTest, PollingAndEndingBreakNoCapture) {
  ASSERT_TRUE(flags_->Read(gpu_.stream));
  gpu_.capturing = true;
  EXPECT_TRUE(flags_->Poll(Executor::Patience::kPoll));
  EXPECT_TRUE(flags_->Poll(Executor::Patience::kWait));
  flags_.reset();
  EXPECT_EQ(gpu_.broken_captures, 0);
  gpu_.capturing = false;
}

TEST_F(VerdictFlagsTest, NothingIsLeftOfFlagsThatCouldNotBeMade) {
  flags_.reset();
  for (int calls = 0;; ++calls) {
    gpu_.FailAfter(calls);
    auto flags = VerdictFlags::Create(gpu_.driver, kTags);
    gpu_.FailAfter(-1);
    if (flags) {
      EXPECT_GE(calls, 3);
      return;
    }
    EXPECT_EQ(gpu_.objects(), 0u) << gpu_.failed;
  }
}

TEST_F(VerdictFlagsTest, ErrorsOfTheDeviceAreNoVerdicts) {
  ASSERT_TRUE(flags_->Read(gpu_.stream));
  for (const auto patience :
       {Executor::Patience::kPoll, Executor::Patience::kWait}) {
    gpu_.driver.cuEventQuery = [](CUevent) { return CUDA_ERROR_LAUNCH_FAILED; };
    gpu_.driver.cuEventSynchronize = gpu_.driver.cuEventQuery;
    EXPECT_FALSE(flags_->Poll(patience));
  }
}

}  // namespace
}  // namespace reprise::engine
