// Events are asked whether they have passed, waited for by the host, and timed.

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "bindings/native/device.h"
#include "bindings/native/reprise.h"
#include "bindings/native/runtime_core.h"
#include "bindings/native/stream_core.h"
#include "tests/bindings/native/simulated_runtime.h"
#include "tests/sim/simulated_gpu.h"

namespace reprise::native {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

// Work takes a millisecond each on the simulated device.
class EventTest : public testing::Test {
 protected:
  EventTest() {
    gpu_.streams.SetPace(sim::SimulatedStreams::Pace::kByHand);
    runtime_ = RuntimeOn(MakeCudaDevice(gpu_.driver, gpu_.context));
    core_ = std::make_shared<StreamCore>(runtime_, gpu_.stream, false);
    stream_.emplace(core_);
    kernel_.emplace(CodeOf(gpu_, "add", add_));
  }
  ~EventTest() override {
    kernel_.reset();
    stream_.reset();
    core_.reset();
    runtime_.reset();
    EXPECT_EQ(gpu_.objects(), 0u);
  }

  Status Launch(int times) {
    Batch batch = stream_->BeginBatch();
    for (int i = 0; i < times; ++i) batch.Launch(*kernel_, {}, &value_);
    return batch.Submit();
  }

  sim::SimulatedGpu gpu_;
  sim::SimulatedGpu::Kernel add_ =
      sim::SimulatedGpu::MakeKernel(+[](float* to) { *to += 1; });
  std::shared_ptr<RuntimeCore> runtime_;
  std::shared_ptr<StreamCore> core_;
  std::optional<Stream> stream_;
  std::optional<Kernel<void(float*)>> kernel_;
  float value_ = 0;
};

TEST_F(EventTest, PassesBehindTheWorkBeforeIt) {
  ASSERT_TRUE(Launch(2));
  const Event event = *stream_->Record();
  ASSERT_TRUE(Launch(3));
  EXPECT_FALSE(*event.Passed());
  gpu_.streams.Advance(gpu_.stream, 2);
  EXPECT_FALSE(*event.Passed());
  gpu_.streams.Advance(gpu_.stream, 1);
  EXPECT_TRUE(*event.Passed());
  EXPECT_EQ(value_, 2);
}

TEST_F(EventTest, TheHostWaitsForIt) {
  ASSERT_TRUE(Launch(2));
  const Event event = *stream_->Record();
  ASSERT_TRUE(event.Synchronize());
  EXPECT_EQ(value_, 2);
  EXPECT_TRUE(*event.Passed());
}

TEST_F(EventTest, TellsTheTimeSinceAnEarlierOne) {
  const Event begin = *stream_->Record(Timing::kTimed);
  ASSERT_TRUE(Launch(7));
  const Event end = *stream_->Record(Timing::kTimed);
  const auto early = end.Since(begin);
  ASSERT_FALSE(early);
  EXPECT_EQ(early.error().code(), Code::kFailedPrecondition);
  EXPECT_EQ(early.error().message(),
            "an event has not passed yet: wait for it with Event::Synchronize");
  ASSERT_TRUE(end.Synchronize());
  EXPECT_EQ(*end.Since(begin), milliseconds(7));
  EXPECT_EQ(*begin.Since(end), milliseconds(-7));
}

// In graphs, too, where each launch records it again.
TEST_F(EventTest, PointsOfBatchesAndPlansHaveTimes) {
  for (int call = 0; call < 4; ++call) {
    Batch batch = stream_->BeginBatch();
    batch.Launch(*kernel_, {}, &value_);
    const Event begin = *batch.Record(Timing::kTimed);
    for (int i = 0; i < 3; ++i) batch.Launch(*kernel_, {}, &value_);
    const Event end = *batch.Record(Timing::kTimed);
    const auto early = end.Since(begin);
    ASSERT_FALSE(early);
    EXPECT_EQ(early.error().message(),
              "the event is a point of a batch that was not submitted yet");
    EXPECT_FALSE(end.Passed());
    EXPECT_FALSE(end.Synchronize());
    ASSERT_TRUE(batch.Submit());
    stream_->WaitForBuilds();
    ASSERT_TRUE(end.Synchronize());
    EXPECT_EQ(*end.Since(begin), milliseconds(3));
  }
  EXPECT_EQ(stream_->stats().replayed, 2u);

  Batch batch = stream_->BeginBatch();
  const Event begin = *batch.Record(Timing::kTimed);
  batch.Launch(*kernel_, {}, &value_);
  const Event end = *batch.Record(Timing::kTimed);
  auto plan = batch.Prepare();
  ASSERT_TRUE(plan) << plan.error().message();
  for (int call = 0; call < 2; ++call) {
    ASSERT_TRUE(plan->Launch());
    EXPECT_FALSE(*end.Passed());
    ASSERT_TRUE(end.Synchronize());
    EXPECT_EQ(*end.Since(begin), milliseconds(1));
  }
}

TEST_F(EventTest, EventsWithoutATimeAreRefused) {
  const Event plain = *stream_->Record();
  const Event timed = *stream_->Record(Timing::kTimed);
  ASSERT_TRUE(timed.Synchronize());
  for (const auto& since : {timed.Since(plain), plain.Since(timed)}) {
    ASSERT_FALSE(since);
    EXPECT_EQ(since.error().code(), Code::kInvalidArgument);
    EXPECT_EQ(since.error().message(),
              "the event has no time: record it with Timing::kTimed");
  }
}

TEST_F(EventTest, EventsOfTwoRuntimesAreRefused) {
  const Runtime host = *Runtime::Create({.device = RuntimeOptions::kHost});
  const Event other = *host.CreateStream()->Record(Timing::kTimed);
  const Event timed = *stream_->Record(Timing::kTimed);
  const auto since = timed.Since(other);
  ASSERT_FALSE(since);
  EXPECT_EQ(since.error().message(),
            "the events are of two runtimes, whose clocks have nothing to do "
            "with each other");
}

TEST_F(EventTest, NoCaptureOfAnotherThreadIsDisturbed) {
  const Event begin = *stream_->Record(Timing::kTimed);
  const Event end = *stream_->Record(Timing::kTimed);
  gpu_.capturing = true;
  EXPECT_TRUE(end.Passed());
  EXPECT_TRUE(end.Synchronize());
  EXPECT_TRUE(end.Since(begin));
  EXPECT_EQ(gpu_.broken_captures, 0);
  gpu_.capturing = false;
}

// The times of a host runtime are those of its own work.
TEST(HostEventTest, TellsTheTimeThatTheWorkTook) {
  using Clock = std::chrono::steady_clock;
  const Runtime runtime =
      *Runtime::Create({.device = RuntimeOptions::kHost, .build_after = 1});
  const Stream stream = *runtime.CreateStream();
  nanoseconds worked{};
  const auto work =
      *runtime.HostKernel<void()>("work", [&](const LaunchConfig&) {
        const Clock::time_point begin = Clock::now();
        while (Clock::now() - begin < milliseconds(2)) continue;
        worked += Clock::now() - begin;
      });
  for (int call = 0; call < 3; ++call) {
    worked = {};
    const Clock::time_point before = Clock::now();
    const Event outer_begin = *stream.Record(Timing::kTimed);
    Batch batch = stream.BeginBatch();
    batch.Launch(work, {});
    const Event begin = *batch.Record(Timing::kTimed);
    batch.Launch(work, {});
    const Event end = *batch.Record(Timing::kTimed);
    ASSERT_TRUE(batch.Submit());
    const Event outer_end = *stream.Record(Timing::kTimed);
    const nanoseconds most = Clock::now() - before;
    EXPECT_TRUE(*end.Passed());
    EXPECT_TRUE(outer_end.Synchronize());
    EXPECT_GE(*end.Since(begin), milliseconds(2));
    EXPECT_GE(*outer_end.Since(outer_begin), worked);
    EXPECT_LE(*outer_end.Since(outer_begin), most);
    EXPECT_LE(*end.Since(begin),
              *outer_end.Since(outer_begin) - milliseconds(2));
    stream.WaitForBuilds();
  }
  EXPECT_EQ(stream.stats().replayed, 2u);
}

}  // namespace
}  // namespace reprise::native
