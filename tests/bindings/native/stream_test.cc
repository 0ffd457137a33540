// What streams order, wait for and refuse, on a device and on the host.

#include "bindings/native/stream.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "bindings/native/device.h"
#include "bindings/native/reprise.h"
#include "bindings/native/runtime_core.h"
#include "bindings/native/stream_core.h"
#include "tests/bindings/native/simulated_runtime.h"
#include "tests/sim/simulated_gpu.h"

namespace reprise::native {
namespace {

std::string Why(const Status& status) {
  return status ? "" : status.error().message();
}

// Two streams of a device whose work is done by hand.
class StreamTest : public testing::Test {
 protected:
  StreamTest() {
    gpu_.streams.SetPace(sim::SimulatedStreams::Pace::kByHand);
    runtime_ = RuntimeOn(MakeCudaDevice(gpu_.driver, gpu_.context));
    stream_.emplace(std::make_shared<StreamCore>(runtime_, gpu_.stream, false));
    other_.emplace(std::make_shared<StreamCore>(
        runtime_, *runtime_->device().MakeStream(0), /*owned=*/true));
    kernel_.emplace(engine::CodeOf(gpu_, "add", add_));
  }
  ~StreamTest() override {
    kernel_.reset();
    stream_.reset();
    other_.reset();
    runtime_.reset();
    EXPECT_EQ(gpu_.objects(), 0u);
  }

  Status Launch(const Stream& stream, float* to) {
    Batch batch = stream.BeginBatch("add");
    batch.Launch(*kernel_, {}, to);
    return batch.Submit();
  }

  sim::SimulatedGpu gpu_;
  sim::SimulatedGpu::Kernel add_ =
      sim::SimulatedGpu::MakeKernel(+[](float* to) { *to += 1; });
  std::shared_ptr<RuntimeCore> runtime_;
  std::optional<Stream> stream_;
  std::optional<Stream> other_;
  std::optional<Kernel<void(float*)>> kernel_;
  float value_ = 0;
  float others_ = 0;
};

TEST_F(StreamTest, CopiesAndMovesNameTheSameStream) {
  EXPECT_EQ(stream_->handle(), gpu_.stream);
  EXPECT_NE(other_->handle(), stream_->handle());
  Stream copy = *stream_;
  const Stream moved = std::move(copy);
  EXPECT_EQ(moved.handle(), gpu_.stream);
  EXPECT_EQ(copy.handle(), gpu_.stream) << "no handle is ever empty";
}

TEST_F(StreamTest, SynchronizeWaitsForAllThatWasSubmitted) {
  ASSERT_TRUE(Launch(*stream_, &value_));
  ASSERT_TRUE(Launch(*other_, &others_));
  EXPECT_EQ(value_, 0);
  ASSERT_TRUE(stream_->Synchronize());
  EXPECT_EQ(value_, 1);
  EXPECT_EQ(others_, 0) << "of this stream";
  ASSERT_TRUE(other_->Synchronize());
  EXPECT_EQ(others_, 1);
}

TEST_F(StreamTest, AnotherStreamsPointIsWaitedFor) {
  ASSERT_TRUE(Launch(*stream_, &value_));
  const Event point = *stream_->Record();
  ASSERT_TRUE(Launch(*other_, &others_));
  ASSERT_TRUE(other_->Wait(point));
  ASSERT_TRUE(Launch(*other_, &value_));
  ASSERT_TRUE(other_->Synchronize());
  EXPECT_EQ(others_, 1);
  EXPECT_EQ(value_, 2) << "what was to come before has come";
}

TEST_F(StreamTest, PointsOfAnotherRuntimeAreRefused) {
  const auto elsewhere = RuntimeOn(MakeHostDevice());
  const Stream host(std::make_shared<StreamCore>(elsewhere, nullptr, false));
  const Event point = *host.Record();
  const Status status = stream_->Wait(point);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code(), Code::kInvalidArgument);
  EXPECT_EQ(status.error().message(),
            "the event is of another runtime: record it on a stream of this "
            "one");
}

TEST_F(StreamTest, PointsThatAreNotSubmittedAreRefused) {
  Batch batch = stream_->BeginBatch();
  batch.Launch(*kernel_, {}, &value_);
  const Event point = *batch.Record();
  const Status status = other_->Wait(point);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code(), Code::kFailedPrecondition);
  ASSERT_TRUE(batch.Submit());
  EXPECT_TRUE(other_->Wait(point));
}

TEST_F(StreamTest, CopiesOfNothingNeedNoMemory) {
  float* const null = nullptr;
  EXPECT_EQ(Why(stream_->CopyToDevice(null, null, 0)), "");
  EXPECT_EQ(Why(stream_->CopyToHost(null, null, 0)), "");
}

TEST_F(StreamTest, CopiesSayWhichOfTheirEndsIsNull) {
  float* const null = nullptr;
  for (const auto& [status, end] :
       {std::pair{stream_->CopyToDevice(null, &value_, 2), "to"},
        {stream_->CopyToDevice(&value_, null, 2), "from"},
        {stream_->CopyToHost(null, &value_, 2), "to"},
        {stream_->CopyToHost(&value_, null, 2), "from"}}) {
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code(), Code::kInvalidArgument);
    EXPECT_EQ(Why(status), std::string("cannot copy 2 elements of 4 bytes ") +
                               end + " a null pointer");
  }
}

TEST_F(StreamTest, CopiesOfMoreThanANumberOfBytesCanSayAreRefused) {
  const Status status = stream_->CopyToDevice(&value_, &others_, SIZE_MAX / 2);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code(), Code::kInvalidArgument);
  EXPECT_NE(Why(status).find("more bytes than a size can say"),
            std::string::npos);
  EXPECT_FALSE(stream_->Download(std::span<float>(&value_, SIZE_MAX / 2)));
}

TEST_F(StreamTest, WhatItHasDoneIsCounted) {
  const auto before = stream_->stats();
  for (int call = 0; call < 4; ++call) {
    Batch batch = stream_->BeginBatch();
    for (int i = 0; i < 3; ++i) batch.Launch(*kernel_, {}, &value_);
    ASSERT_TRUE(batch.Submit());
    stream_->WaitForBuilds();
  }
  EXPECT_EQ(stream_->stats().replayed - before.replayed, 2u);
  ASSERT_EQ(stream_->plans().size(), 1u);
  EXPECT_EQ(other_->stats().replayed, 0u);
  EXPECT_TRUE(other_->plans().empty());
  ASSERT_TRUE(stream_->Synchronize());
  EXPECT_EQ(value_, 12);
}

// A download lives on behind its stream and its runtime.
TEST(HostStreamTest, ADownloadKeepsItsDevice) {
  auto runtime = RuntimeOn(MakeHostDevice());
  std::optional<Stream> stream(
      std::make_shared<StreamCore>(runtime, nullptr, false));
  EXPECT_EQ(stream->handle(), nullptr);
  const std::weak_ptr<RuntimeCore> alive = runtime;
  std::array<int, 3> values = {3, 1, 4};
  auto copy = stream->Download(std::span<int>(values));
  ASSERT_TRUE(copy);
  stream.reset();
  runtime.reset();
  EXPECT_TRUE(alive.expired());
  const auto there = copy->Wait();
  ASSERT_TRUE(there);
  EXPECT_EQ((*there)[2], 4);
}

}  // namespace
}  // namespace reprise::native
