// Work of other libraries in a batch: called where the batch is launched by
// itself, captured once for a graph, and never replayed for another key.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
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

class CaptureTest : public testing::Test {
 protected:
  void SetUp() override {
    runtime_ = RuntimeOn(MakeCudaDevice(gpu_.driver, gpu_.context));
    stream_ = std::make_shared<StreamCore>(runtime_, gpu_.stream, false);
    kernel_.emplace(CodeOf(gpu_, "raise", raise_));
  }
  void TearDown() override {
    kernel_.reset();
    stream_.reset();
    runtime_.reset();
    EXPECT_EQ(gpu_.objects(), 0u);
  }

  // A library's: value = value * 2 + by, and a copy of it.
  Status Library(CUstream stream, float by) {
    ++called_;
    if (stream == gpu_.stream) ++called_with_own_stream_;
    CUlaunchConfig config{};
    config.hStream = stream;
    float* to = &value_;
    void* params[] = {&to, &by};
    REPRISE_CU(gpu_.driver,
               cuLaunchKernelEx(&config, reinterpret_cast<CUfunction>(&raise_),
                                params, nullptr));
    REPRISE_CU(gpu_.driver,
               cuMemcpyDtoDAsync(reinterpret_cast<CUdeviceptr>(&copy_),
                                 reinterpret_cast<CUdeviceptr>(&value_),
                                 sizeof value_, stream));
    return {};
  }
  // Two launches around the library's work.
  Batch Around(float by, bool keyed) {
    Batch batch(stream_);
    batch.Launch(*kernel_, {}, &value_, 1.0f);
    const auto work = [this, by](CUstream stream) {
      return Library(stream, by);
    };
    if (keyed) {
      batch.Capture(CaptureKey(&value_, by), work);
    } else {
      batch.Capture(work);
    }
    batch.Launch(*kernel_, {}, &value_, 2.0f);
    return batch;
  }
  static float After(float value, float by) {
    return ((value * 2 + 1) * 2 + by) * 2 + 2;
  }

  sim::SimulatedGpu gpu_;
  sim::SimulatedGpu::Kernel raise_ = sim::SimulatedGpu::MakeKernel(
      +[](float* to, float by) { *to = *to * 2 + by; });
  std::shared_ptr<RuntimeCore> runtime_;
  std::shared_ptr<StreamCore> stream_;
  std::optional<Kernel<Raise>> kernel_;
  float value_ = 0;
  float copy_ = 0;
  int called_ = 0;
  int called_with_own_stream_ = 0;
};

TEST_F(CaptureTest, WorkWithAKeyIsCapturedOnceAndReplayed) {
  float expected = 0;
  for (int call = 0; call < 6; ++call) {
    ASSERT_TRUE(Around(5, true).Submit());
    expected = After(expected, 5);
    EXPECT_EQ(value_, expected) << "call " << call;
    EXPECT_EQ(copy_, (expected - 2) / 2);
    runtime_->queue().WaitIdle(std::nullopt);
  }
  EXPECT_EQ(stream_->batches().stats().replayed, 4u);
  EXPECT_EQ(called_, 3);
  EXPECT_EQ(called_with_own_stream_, 2);
}

TEST_F(CaptureTest, AnotherKeyIsAnotherBatch) {
  float expected = 0;
  for (int call = 0; call < 8; ++call) {
    const auto by = static_cast<float>(call % 2);
    ASSERT_TRUE(Around(by, true).Submit());
    expected = After(expected, by);
    EXPECT_EQ(value_, expected) << "call " << call;
    runtime_->queue().WaitIdle(std::nullopt);
  }
  EXPECT_EQ(stream_->batches().stats().built, 2u);
  EXPECT_EQ(stream_->batches().stats().replayed, 4u);
}

TEST_F(CaptureTest, WorkWithoutAKeyIsNeverReplayed) {
  float expected = 0;
  for (int call = 0; call < 6; ++call) {
    const auto by = static_cast<float>(call);
    ASSERT_TRUE(Around(by, false).Submit());
    expected = After(expected, by);
    EXPECT_EQ(value_, expected) << "call " << call;
    runtime_->queue().WaitIdle(std::nullopt);
  }
  EXPECT_EQ(stream_->batches().stats().built, 0u);
  EXPECT_EQ(called_with_own_stream_, 6);
}

TEST_F(CaptureTest, PreparedPlanHasTheWorkThatItWasGiven) {
  auto plan = Around(3, false).Prepare();
  ASSERT_TRUE(plan) << plan.error().message();
  EXPECT_EQ(value_, 0);
  float expected = 0;
  for (int call = 0; call < 3; ++call) {
    ASSERT_TRUE(plan->Launch());
    expected = After(expected, 3);
    EXPECT_EQ(value_, expected);
  }
  EXPECT_EQ(called_, 1);
  EXPECT_EQ(plan->Set(1, 0, uint64_t{0}).error().message(),
            "launch 1 has 0 arguments, there is no argument 0");
}

// The batch is launched by itself then, and the program goes on.
TEST_F(CaptureTest, WorkThatCannotBeCapturedIsLaunchedByItself) {
  float expected = 0;
  for (int call = 0; call < 4; ++call) {
    Batch batch(stream_);
    batch.Launch(*kernel_, {}, &value_, 1.0f);
    batch.Capture(CaptureKey(1), [this](CUstream stream) -> Status {
      if (stream != gpu_.stream) {
        return base::Fail(Code::kUnavailable, "not while it is captured");
      }
      return Library(stream, 4);
    });
    batch.Launch(*kernel_, {}, &value_, 2.0f);
    ASSERT_TRUE(batch.Submit());
    expected = After(expected, 4);
    EXPECT_EQ(value_, expected);
  }
  EXPECT_EQ(stream_->batches().stats().refused, 2u);  // at calls 2 and 4
  EXPECT_EQ(stream_->batches().stats().replayed, 0u);
}

TEST_F(CaptureTest, ErrorOfTheWorkIsTold) {
  Batch batch(stream_);
  batch.Capture(
      [](CUstream) { return base::Fail(Code::kInternal, "library says no"); });
  EXPECT_EQ(batch.Submit().error().message(), "library says no");
  Batch prepared(stream_);
  prepared.Capture([](CUstream) -> Status {
    return base::Fail(Code::kInternal, "library says no");
  });
  EXPECT_EQ(prepared.Prepare().error().message(),
            "captured work: library says no");
}

TEST_F(CaptureTest, EveryDriverCallMayFailOnce) {
  int told = 0;
  for (int calls = 0;; ++calls) {
    SCOPED_TRACE(testing::Message() << "after " << calls << " calls");
    runtime_ = RuntimeOn(MakeCudaDevice(gpu_.driver, gpu_.context));
    stream_ = std::make_shared<StreamCore>(runtime_, gpu_.stream, false);
    gpu_.failed.clear();
    gpu_.FailAfter(calls);
    for (int call = 0; call < 4; ++call) {
      value_ = 1;
      const Status submitted = Around(5, true).Submit();
      if (submitted) {
        EXPECT_EQ(value_, After(1, 5)) << "call " << call;
      } else {
        ++told;
      }
      runtime_->queue().WaitIdle(std::nullopt);
    }
    stream_.reset();
    runtime_.reset();
    EXPECT_EQ(gpu_.objects(), 0u) << gpu_.failed;
    if (gpu_.failed.empty()) break;
    ASSERT_LT(calls, 1000);
  }
  EXPECT_GT(told, 5);
}

TEST(CaptureKeyTest, ValuesAndTheirOrderCount) {
  int a = 0;
  const auto words = [](const CaptureKey& key) { return key.words(); };
  EXPECT_EQ(words(CaptureKey(&a, 1.5f)), words(CaptureKey(&a, 1.5f)));
  EXPECT_NE(words(CaptureKey(1, 2)), words(CaptureKey(2, 1)));
  EXPECT_NE(words(CaptureKey(1)), words(CaptureKey(1, 0)));
  EXPECT_NE(words(CaptureKey(0.0)), words(CaptureKey(-0.0)));
}

TEST(HostCaptureTest, WorkIsCalledEachTimeWithoutAStream) {
  const Runtime runtime =
      *Runtime::Create({.device = RuntimeOptions::kHost, .build_after = 1});
  const Stream stream = *runtime.CreateStream();
  std::vector<int> seen;
  const auto kernel = *runtime.HostKernel<void(int)>(
      "see", [&](const LaunchConfig&, int i) { seen.push_back(i); });
  const auto fill = [&](Batch& batch) {
    batch.Launch(kernel, {}, 1);
    batch.Capture(CaptureKey(7), [&](CUstream handle) {
      EXPECT_EQ(handle, nullptr);
      seen.push_back(2);
    });
    batch.Launch(kernel, {}, 3);
  };
  for (int call = 0; call < 3; ++call) {
    Batch batch = stream.BeginBatch();
    fill(batch);
    ASSERT_TRUE(batch.Submit());
    stream.WaitForBuilds();
  }
  Batch batch = stream.BeginBatch();
  fill(batch);
  auto plan = batch.Prepare();
  ASSERT_TRUE(plan);
  ASSERT_TRUE(plan->Launch());
  EXPECT_EQ(seen, (std::vector<int>{1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3}));
}

}  // namespace
}  // namespace reprise::native
