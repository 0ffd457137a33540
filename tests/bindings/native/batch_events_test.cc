// Events inside of batches order streams in program order, by themselves and in
// graphs, whichever event it is each time.

#include <gtest/gtest.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/native/device.h"
#include "bindings/native/reprise.h"
#include "bindings/native/runtime_core.h"
#include "bindings/native/stream_core.h"
#include "tests/bindings/native/simulated_runtime.h"
#include "tests/sim/simulated_gpu.h"

namespace reprise::native {
namespace {

using Raise = void(float*, float);

class BatchEventsTest : public testing::Test {
 protected:
  void SetUp() override {
    runtime_ = RuntimeOn(MakeCudaDevice(gpu_.driver, gpu_.context));
    first_ = std::make_shared<StreamCore>(runtime_, gpu_.stream, false);
    second_ =
        std::make_shared<StreamCore>(runtime_, gpu_.streams.Make(), false);
    kernel_.emplace(CodeOf(gpu_, "raise", raise_));
  }
  void TearDown() override {
    kernel_.reset();
    first_.reset();
    second_.reset();
    runtime_.reset();
    EXPECT_EQ(gpu_.objects(), 0u);
  }

  // value = value * 2 + by
  void Launch(Batch& batch, float by) {
    batch.Launch(*kernel_, {}, &value_, by);
  }

  sim::SimulatedGpu gpu_;
  sim::SimulatedGpu::Kernel raise_ = sim::SimulatedGpu::MakeKernel(
      +[](float* to, float by) { *to = *to * 2 + by; });
  std::shared_ptr<RuntimeCore> runtime_;
  std::shared_ptr<StreamCore> first_;
  std::shared_ptr<StreamCore> second_;
  std::optional<Kernel<Raise>> kernel_;
  float value_ = 0;
};

// Each stream's batch waits in its middle for the other one's last: the second
// half of a batch runs behind what it waits for, and only that half.
TEST_F(BatchEventsTest, StreamsTakeTurnsWhateverTheirPace) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    value_ = 0;
    gpu_.streams.SetPace(sim::SimulatedStreams::Pace::kAtRandom, seed);
    float expected = 0;
    std::optional<Event> last;
    for (int call = 0; call < 10; ++call) {
      const auto by = static_cast<float>(call % 4);
      Batch batch(call % 2 == 0 ? first_ : second_);
      if (!last.has_value()) last = *Stream(first_).Record();
      batch.Wait(*last);
      Launch(batch, by);
      auto point = batch.Record();
      ASSERT_TRUE(point);
      const Status submitted = batch.Submit();
      ASSERT_TRUE(submitted) << submitted.error().message();
      last = *point;
      expected = expected * 2 + by;
      runtime_->queue().WaitIdle(std::nullopt);
    }
    gpu_.streams.SynchronizeAll();
    EXPECT_EQ(value_, expected) << "seed " << seed;
  }
  EXPECT_GT(first_->batches().stats().replayed, 50u);
  EXPECT_GT(second_->batches().stats().replayed, 50u);
}

TEST_F(BatchEventsTest, WhatIsBeforeTheWaitDoesNotWait) {
  gpu_.streams.SetPace(sim::SimulatedStreams::Pace::kByHand);
  Batch slow(second_);
  Launch(slow, 100);
  ASSERT_TRUE(slow.Submit());
  const Event event = *Stream(second_).Record();
  Batch batch(first_);
  Launch(batch, 1);
  batch.Wait(event);
  Launch(batch, 1);
  auto plan = batch.Prepare();
  ASSERT_TRUE(plan) << plan.error().message();
  ASSERT_TRUE(plan->Launch());
  gpu_.streams.Advance(gpu_.stream, 1);
  EXPECT_EQ(value_, 1);
  gpu_.streams.Advance(gpu_.stream, 1);  // the wait, which does the other first
  EXPECT_EQ(value_, 102);
  gpu_.streams.Synchronize(gpu_.stream);
  EXPECT_EQ(value_, 205);
}

TEST_F(BatchEventsTest, PlanWaitsForTheEventThatItWasGiven) {
  gpu_.streams.SetPace(sim::SimulatedStreams::Pace::kByHand);
  Batch batch(first_);
  const uint32_t wait = batch.Wait(*Stream(second_).Record());
  Launch(batch, 1);
  auto plan = batch.Prepare();
  ASSERT_TRUE(plan);
  float expected = 0;
  for (int call = 1; call < 5; ++call) {
    const auto by = static_cast<float>(10 * call);
    Batch other(second_);
    Launch(other, by);
    ASSERT_TRUE(other.Submit());
    ASSERT_TRUE(plan->SetEvent(wait, *Stream(second_).Record()));
    ASSERT_TRUE(plan->Launch());
    gpu_.streams.Synchronize(gpu_.stream);
    expected = (expected * 2 + by) * 2 + 1;
    EXPECT_EQ(value_, expected);
  }
  EXPECT_EQ(plan->Set(wait, 0, uint64_t{7}).error().message(),
            "launch 0 has 0 arguments, there is no argument 0");
  EXPECT_EQ(
      plan->SetEvent(wait + 1, *Stream(second_).Record()).error().message(),
      "launch 1 is not the wait for an event: give the number that "
      "Batch::Wait returned");
  gpu_.streams.SynchronizeAll();
}

TEST_F(BatchEventsTest, PointOfAPlanIsThatOfItsLatestLaunch) {
  gpu_.streams.SetPace(sim::SimulatedStreams::Pace::kByHand);
  Batch batch(first_);
  Launch(batch, 1);
  const Result<Event> point = batch.Record();
  ASSERT_TRUE(point);
  Result<Plan> plan = batch.Prepare();
  ASSERT_TRUE(plan);
  EXPECT_EQ(Stream(second_).Wait(*point).error().code(),
            Code::kFailedPrecondition);
  for (int call = 0; call < 3; ++call) {
    ASSERT_TRUE(plan->Launch());
    ASSERT_TRUE(Stream(second_).Wait(*point));
    gpu_.streams.Synchronize(second_->stream());
    EXPECT_EQ(value_, static_cast<float>((2 << call) - 1));
  }
}

TEST_F(BatchEventsTest, WaitForWhatWasNotSubmittedIsRefused) {
  Batch never(second_);
  const Event point = *never.Record();
  Batch batch(first_);
  Launch(batch, 1);
  batch.Wait(point);
  const Status submitted = batch.Submit();
  ASSERT_FALSE(submitted);
  EXPECT_EQ(submitted.error().code(), Code::kFailedPrecondition);
  EXPECT_EQ(submitted.error().message(),
            "launch 1 (wait) waits for a point of a batch that was not "
            "submitted yet: submit that batch before");
  EXPECT_EQ(value_, 0);
}

// A build that is the last to hold an event ends it; if that ended the runtime
// too, the runtime's end would wait for the build.
TEST_F(BatchEventsTest, BuildsHoldNoRuntime) {
  std::mutex building;
  building.lock();
  runtime_->queue().Post([&] { const std::lock_guard wait(building); });
  const auto submit = [&] {
    Batch batch(first_);
    batch.Wait(*Stream(second_).Record());
    Launch(batch, 1);
    ASSERT_TRUE(batch.Record());
    ASSERT_TRUE(batch.Submit());
  };
  const auto holders = runtime_.use_count();
  submit();
  submit();
  EXPECT_EQ(runtime_.use_count(), holders);
  building.unlock();
  runtime_->queue().WaitIdle(std::nullopt);
  submit();
  EXPECT_EQ(first_->batches().stats().replayed, 1u);
  EXPECT_EQ(runtime_.use_count(), holders);
}

TEST_F(BatchEventsTest, EventsOfAnotherRuntimeAreRefused) {
  const Runtime host = *Runtime::Create({.device = RuntimeOptions::kHost});
  const Event event = *host.CreateStream()->Record();
  Batch batch(first_);
  batch.Wait(event);
  EXPECT_EQ(batch.Submit().error().message(),
            "launch 0 (wait) waits for an event of another runtime: record it "
            "on a stream of this one");
}

TEST(HostBatchEventsTest, EverythingBeforeIsDone) {
  const Runtime runtime = *Runtime::Create({.device = RuntimeOptions::kHost});
  const Stream one = *runtime.CreateStream();
  const Stream two = *runtime.CreateStream();
  std::vector<int> seen;
  const auto kernel = *runtime.HostKernel<void(int)>(
      "see", [&](const LaunchConfig&, int i) { seen.push_back(i); });
  for (int call = 0; call < 4; ++call) {
    Batch batch = one.BeginBatch();
    batch.Launch(kernel, {}, 2 * call);
    const Event point = *batch.Record();
    ASSERT_TRUE(batch.Submit());
    Batch other = two.BeginBatch();
    other.Wait(point);
    other.Launch(kernel, {}, 2 * call + 1);
    ASSERT_TRUE(other.Submit());
    one.WaitForBuilds();
  }
  EXPECT_EQ(seen, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(two.stats().replayed, 2u);
}

}  // namespace
}  // namespace reprise::native
