// Copies between host and device in stream order, through pinned memory that is
// bounded and never used again too early.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bindings/native/device.h"
#include "bindings/native/reprise.h"
#include "bindings/native/runtime_core.h"
#include "bindings/native/staging.h"
#include "bindings/native/stream_core.h"
#include "tests/bindings/native/simulated_runtime.h"
#include "tests/sim/simulated_gpu.h"

namespace reprise::native {
namespace {

constexpr size_t kPieceFloats = Staging::kPieceBytes / sizeof(float);

std::vector<float> Ramp(size_t count, float first) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

std::string Why(const Status& status) {
  return status ? "" : status.error().message();
}

// What both kinds of runtime give.
enum class Where : uint8_t { kHost, kDevice };

class CopiesTest : public testing::TestWithParam<Where> {
 protected:
  CopiesTest() {
    if (GetParam() == Where::kHost) {
      runtime_ = RuntimeOn(MakeHostDevice());
      core_ = std::make_shared<StreamCore>(runtime_, nullptr, false);
    } else {
      gpu_.streams.SetPace(sim::SimulatedStreams::Pace::kAtRandom, 3);
      runtime_ = RuntimeOn(MakeCudaDevice(gpu_.driver, gpu_.context));
      core_ = std::make_shared<StreamCore>(runtime_, gpu_.stream, false);
    }
    stream_.emplace(core_);
  }

  sim::SimulatedGpu gpu_;
  std::shared_ptr<RuntimeCore> runtime_;
  std::shared_ptr<StreamCore> core_;
  std::optional<Stream> stream_;
};

INSTANTIATE_TEST_SUITE_P(Everywhere, CopiesTest,
                         testing::Values(Where::kHost, Where::kDevice));

TEST_P(CopiesTest, BuffersAreMadeOfWhatTheHostHas) {
  const std::vector<float> values = Ramp(1000, 0.5f);
  const std::array<double, 3> few{1, 2, 3};
  auto floats = stream_->Upload(values);
  ASSERT_TRUE(floats) << floats.error().message();
  auto doubles = stream_->Upload(few);
  auto part = stream_->Upload(std::span(values).subspan(10, 5));
  ASSERT_TRUE(doubles && part);
  EXPECT_EQ(floats->size(), 1000u);
  EXPECT_EQ(floats->size_bytes(), 4000u);
  EXPECT_EQ(doubles->size_bytes(), 24u);
  EXPECT_EQ(part->span().data(), part->data());
  EXPECT_EQ(part->span().size(), 5u);
  EXPECT_FALSE(part->empty());
  EXPECT_TRUE(Buffer<float>().empty());

  std::vector<float> back(1000);
  ASSERT_TRUE(stream_->CopyToHost(back, floats->span()));
  EXPECT_EQ(back, values);
  std::array<double, 3> few_back{};
  ASSERT_TRUE(stream_->CopyToHost(few_back, doubles->span()));
  EXPECT_EQ(few_back, few);
  std::array<float, 5> part_back{};
  ASSERT_TRUE(
      stream_->CopyToHost(part_back, std::span<const float>(part->span())));
  EXPECT_TRUE(std::ranges::equal(part_back, std::span(values).subspan(10, 5)));
}

TEST_P(CopiesTest, DownloadsAreThereOnceTheyWereWaitedFor) {
  const std::vector<int> values{3, 1, 4, 1, 5, 9, 2, 6};
  std::optional<HostCopy<int>> copy;
  {
    auto buffer = stream_->Upload(values);
    ASSERT_TRUE(buffer);
    auto begun = stream_->Download(buffer->span().first(5));
    ASSERT_TRUE(begun) << begun.error().message();
    copy = *begun;
    // What comes later is not in it.
    ASSERT_TRUE(stream_->CopyToDevice(buffer->span(), std::vector<int>(8, 7)));
  }
  const auto there = copy->Wait();
  ASSERT_TRUE(there);
  EXPECT_TRUE(std::ranges::equal(*there, std::array{3, 1, 4, 1, 5}));
  EXPECT_EQ(copy->size(), 5u);
  EXPECT_TRUE(*copy->Arrived());
}

TEST_P(CopiesTest, NothingIsCopied) {
  const std::vector<float> none;
  auto buffer = stream_->Upload(none);
  ASSERT_TRUE(buffer) << buffer.error().message();
  EXPECT_TRUE(buffer->empty());
  auto copy = stream_->Download(buffer->span());
  ASSERT_TRUE(copy) << copy.error().message();
  EXPECT_TRUE(copy->Wait()->empty());
  EXPECT_TRUE(stream_->Download(Buffer<float>().span()));
}

TEST_P(CopiesTest, WrongSpansAreRefused) {
  auto buffer = stream_->Upload(Ramp(3, 0));
  ASSERT_TRUE(buffer);
  std::array<float, 2> two{};
  const Status in = stream_->CopyToDevice(buffer->span(), two);
  EXPECT_EQ(Why(in),
            "cannot copy 2 elements of 4 bytes to 3: name as many of both, as "
            "in span().first(2)");
  EXPECT_EQ(in.error().code(), Code::kInvalidArgument);
  EXPECT_EQ(Why(stream_->CopyToHost(two, buffer->span())),
            "cannot copy 3 elements of 4 bytes to 2: name as many of both, as "
            "in span().first(2)");
  const auto null =
      stream_->Download(std::span<float>(static_cast<float*>(nullptr), 2));
  ASSERT_FALSE(null);
  EXPECT_EQ(null.error().message(),
            "cannot copy 2 elements of 4 bytes from a null pointer");
}

// On a device, in the order and at the pace of its streams.
class StagedCopiesTest : public testing::Test {
 protected:
  StagedCopiesTest() {
    gpu_.streams.SetPace(sim::SimulatedStreams::Pace::kByHand);
    runtime_ = RuntimeOn(MakeCudaDevice(gpu_.driver, gpu_.context));
    core_ = std::make_shared<StreamCore>(runtime_, gpu_.stream, false);
    stream_.emplace(core_);
  }
  ~StagedCopiesTest() override {
    stream_.reset();
    core_.reset();
    runtime_.reset();
    EXPECT_EQ(gpu_.objects(), 0u);
  }

  int CallsOf(const char* name) const {
    return static_cast<int>(
        std::count(gpu_.calls.begin(), gpu_.calls.end(), name));
  }

  sim::SimulatedGpu gpu_;
  std::shared_ptr<RuntimeCore> runtime_;
  std::shared_ptr<StreamCore> core_;
  std::optional<Stream> stream_;
};

TEST_F(StagedCopiesTest, NobodyWaitsAndTheHostsMemoryMayGo) {
  std::vector<float> to(2 * kPieceFloats + 1);
  {
    std::vector<float> from = Ramp(to.size(), 1);
    ASSERT_TRUE(stream_->CopyToDevice(to.data(), from.data(), from.size()));
    std::fill(from.begin(), from.end(), -1.0f);
  }
  EXPECT_EQ(gpu_.streams.pending(gpu_.stream), 6u);  // three copies and points
  EXPECT_EQ(to[0], 0);
  gpu_.streams.Synchronize(gpu_.stream);
  EXPECT_EQ(to, Ramp(to.size(), 1));
}

TEST_F(StagedCopiesTest, PinnedMemoryIsUsedAgainOnceItsCopyHasPassed) {
  std::array<int, 4> to{};
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(stream_->CopyToDevice(&to[i], &i, 1));
  }
  EXPECT_EQ(CallsOf("cuMemHostAlloc"), 4);
  gpu_.streams.Synchronize(gpu_.stream);
  EXPECT_EQ(to, (std::array{0, 1, 2, 3}));
  for (int i = 0; i < 4; ++i) {
    const int other = 10 * i;
    ASSERT_TRUE(stream_->CopyToDevice(&to[i], &other, 1));
  }
  EXPECT_EQ(CallsOf("cuMemHostAlloc"), 4);
  gpu_.streams.Synchronize(gpu_.stream);
  EXPECT_EQ(to, (std::array{0, 10, 20, 30}));
}

TEST_F(StagedCopiesTest, WhatWasDroppedIsNotWrittenAnyMore) {
  std::array<int, 2> device{5, 6};
  int next = 7;
  auto first = *stream_->Download(std::span(device));
  EXPECT_FALSE(*first.Arrived());
  (void)stream_->Download(std::span(device));  // dropped on its way
  ASSERT_TRUE(stream_->CopyToDevice(device.data(), &next, 1));
  EXPECT_FALSE(*first.Arrived());
  EXPECT_TRUE(std::ranges::equal(*first.Wait(), std::array{5, 6}));
  EXPECT_EQ(device[0], 7);
}

TEST_F(StagedCopiesTest, CopiesOfAStreamThatIsCapturedAreRefused) {
  std::array<int, 2> memory{1, 2};
  gpu_.capturing = true;
  for (const Status& status :
       {stream_->CopyToDevice(&memory[0], &memory[1], 1),
        stream_->CopyToHost(&memory[0], &memory[1], 1)}) {
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code(), Code::kFailedPrecondition);
    EXPECT_EQ(status.error().message(),
              "the stream is being captured: copies between host and device "
              "are made before the capture begins, or once it has ended");
  }
  EXPECT_FALSE(stream_->Download(std::span(memory)));
  EXPECT_EQ(gpu_.broken_captures, 0);
  gpu_.capturing = false;
}

TEST_F(StagedCopiesTest, WithoutPinnedMemoryThereIsAnError) {
  std::array<int, 2> memory{1, 2};
  gpu_.pinned_bytes = 0;
  const auto copy = stream_->Download(std::span(memory));
  ASSERT_FALSE(copy);
  EXPECT_EQ(copy.error().code(), Code::kResourceExhausted);
  EXPECT_EQ(copy.error().message(),
            "the host has no 4096 bytes of pinned memory left: copy in parts, "
            "or drop what was downloaded before");
}

// Whatever call fails, nothing is lost, and the next copy is right.
TEST_F(StagedCopiesTest, EveryDriverCallMayFail) {
  bool any_failed = true;
  for (int call = 0; any_failed; ++call) {
    ASSERT_LT(call, 100) << "no end";
    std::array<int, 3> device{1, 2, 3};
    int next = 9;
    gpu_.failed.clear();
    gpu_.FailAfter(call);
    const Status in = stream_->CopyToDevice(&device[0], &next, 1);
    const auto out = stream_->Download(std::span(device));
    if (out) (void)out->Wait();
    gpu_.FailAfter(-1);
    any_failed = !gpu_.failed.empty();
    ASSERT_TRUE(stream_->CopyToDevice(&device[0], &next, 1));
    const auto copy = stream_->Download(std::span(device));
    ASSERT_TRUE(copy);
    EXPECT_TRUE(std::ranges::equal(*copy->Wait(), std::array{9, 2, 3}))
        << gpu_.failed;
  }
}

}  // namespace
}  // namespace reprise::native
