// Batches do what their launches do one by one, whatever runs them.

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "bindings/native/reprise.h"

namespace reprise {
namespace {

using Axpy = void(float, const float*, float*, int);

class BatchTest : public testing::Test {
 protected:
  BatchTest() {
    RuntimeOptions options;
    options.device = RuntimeOptions::kHost;
    options.plans_per_stream = 4;
    runtime_.emplace(*Runtime::Create(options));
    stream_.emplace(*runtime_->CreateStream());
    axpy_.emplace(*runtime_->HostKernel<Axpy>(
        "axpy", [this](const LaunchConfig& config, float a, const float* x,
                       float* y, int count) {
          ++calls_;
          last_ = config;
          for (int i = 0; i < count; ++i) y[i] += a * x[i];
        }));
    x_.assign(kCount, 2.0f);
    y_.assign(kCount, 1.0f);
  }

  static constexpr int kCount = 16;

  // Four launches of different arguments.
  Status SubmitFour(float a) {
    Batch batch = stream_->BeginBatch();
    for (int i = 0; i < 4; ++i) {
      batch.Launch(*axpy_, {.grid = {2}, .block = {8}}, a + i,
                   In(x_.data(), kCount), InOut(y_.data(), kCount), kCount);
    }
    return batch.Submit();
  }

  std::optional<Runtime> runtime_;
  std::optional<Stream> stream_;
  std::optional<Kernel<Axpy>> axpy_;
  std::vector<float> x_;
  std::vector<float> y_;
  int calls_ = 0;
  LaunchConfig last_;
};

TEST_F(BatchTest, RepeatedBatchIsReplayedWithItsOwnArguments) {
  float expected = 1.0f;
  for (int call = 0; call < 10; ++call) {
    const auto a = static_cast<float>(call / 2);
    for (int i = 0; i < 4; ++i) expected += (a + static_cast<float>(i)) * 2.0f;
    ASSERT_TRUE(SubmitFour(a));
    EXPECT_EQ(y_[5], expected) << "call " << call;
    stream_->WaitForBuilds();
  }
  const StreamStats stats = stream_->stats();
  EXPECT_EQ(stats.batches, 10u);
  EXPECT_EQ(stats.launches, 2u * 4u);
  EXPECT_EQ(stats.replayed, 8u);
  EXPECT_EQ(stats.built, 1u);
  EXPECT_EQ(stats.patched, 4u * 4u);  // every other call is as the one before
  EXPECT_EQ(calls_, 40);
  EXPECT_EQ(last_.grid.x, 2u);
  EXPECT_EQ(last_.block.x, 8u);
}

TEST_F(BatchTest, CopiesAndFillsTakeTheirPlaceInTheOrder) {
  std::vector<float> copy(kCount);
  for (int call = 0; call < 5; ++call) {
    Batch batch = stream_->BeginBatch();
    const auto start = static_cast<float>(call) + 1.5f;
    batch.Fill(Out(y_.data(), kCount), start);
    batch.Launch(*axpy_, {}, static_cast<float>(call), In(x_.data(), kCount),
                 InOut(y_.data(), kCount), kCount);
    batch.Copy(Out(copy.data(), kCount), In(y_.data(), kCount));
    batch.Fill(Out(y_.data(), kCount), 0.0f);
    ASSERT_TRUE(batch.Submit());
    stream_->WaitForBuilds();
    EXPECT_EQ(copy[3], start + 2.0f * static_cast<float>(call));
    EXPECT_EQ(y_[3], 0.0f);
  }
  EXPECT_EQ(stream_->stats().replayed, 3u);
}

TEST_F(BatchTest, OtherLaunchesAreAnotherBatch) {
  for (int call = 0; call < 12; ++call) {
    Batch batch = stream_->BeginBatch();
    const auto grid = static_cast<uint32_t>(1 + call % 3);
    for (int i = 0; i < 2; ++i) {
      batch.Launch(*axpy_, {.grid = {grid}}, 1.0f, x_.data(), y_.data(),
                   kCount);
    }
    ASSERT_TRUE(batch.Submit());
    EXPECT_EQ(last_.grid.x, grid);
    stream_->WaitForBuilds();
  }
  EXPECT_EQ(stream_->stats().built, 3u);
  EXPECT_EQ(stream_->stats().replayed, 6u);
  EXPECT_EQ(y_[0], 1.0f + 24 * 2.0f);
}

TEST_F(BatchTest, PlanNotUsedForTheLongestTimeGoes) {
  for (int call = 0; call < 30; ++call) {
    Batch batch = stream_->BeginBatch();
    for (int i = 0; i < 2 + call % 6; ++i) {
      batch.Launch(*axpy_, {}, 1.0f, x_.data(), y_.data(), kCount);
    }
    ASSERT_TRUE(batch.Submit());
    stream_->WaitForBuilds();
  }
  EXPECT_LE(stream_->stats().plans, 4u);
  EXPECT_EQ(y_[0], 1.0f + 2.0f * static_cast<float>(calls_));
}

TEST_F(BatchTest, PreparedPlanTakesItsArgumentsFromSet) {
  Batch batch = stream_->BeginBatch();
  const uint32_t first =
      batch.Launch(*axpy_, {}, 1.0f, x_.data(), y_.data(), kCount);
  const uint32_t copy = batch.Copy(Out(x_.data(), 1), In(y_.data(), 1));
  auto plan = batch.Prepare();
  ASSERT_TRUE(plan) << plan.error().message();
  EXPECT_EQ(calls_, 0);
  ASSERT_TRUE(plan->Launch());
  EXPECT_EQ(y_[0], 3.0f);
  EXPECT_EQ(x_[0], 3.0f);
  ASSERT_TRUE(plan->Set(first, 0, 10.0f));
  ASSERT_TRUE(plan->Set(copy, 0, x_.data() + 1));
  ASSERT_TRUE(plan->Launch());
  EXPECT_EQ(y_[0], 33.0f);
  EXPECT_EQ(x_[1], 33.0f);
  EXPECT_EQ(x_[0], 3.0f);
}

TEST_F(BatchTest, PlanRefusesWhatItDoesNotHave) {
  Batch batch = stream_->BeginBatch();
  batch.Launch(*axpy_, {}, 1.0f, x_.data(), y_.data(), kCount);
  auto plan = batch.Prepare();
  ASSERT_TRUE(plan);
  const auto why = [&](Status status) {
    return status ? std::string() : status.error().message();
  };
  EXPECT_EQ(why(plan->Set(7, 0, 1.0f)),
            "the plan has 1 launches, there is no launch 7");
  EXPECT_EQ(why(plan->Set(0, 4, 1.0f)),
            "launch 0 (kernel 'axpy') has 4 arguments, there is no argument 4");
}

TEST_F(BatchTest, MistakesAreNamedBeforeAnythingIsLaunched) {
  const auto why = [&](auto&& fill) {
    Batch batch = stream_->BeginBatch();
    batch.Launch(*axpy_, {}, 1.0f, x_.data(), y_.data(), kCount);
    fill(batch);
    const Status submitted = batch.Submit();
    EXPECT_FALSE(submitted);
    EXPECT_EQ(submitted.error().code(), Code::kInvalidArgument);
    return submitted ? std::string() : submitted.error().message();
  };
  EXPECT_EQ(why([&](Batch& batch) {
              batch.Launch(*axpy_, {}, 1.0f, static_cast<float*>(nullptr),
                           y_.data(), kCount);
            }),
            "launch 1 (kernel 'axpy') has a null pointer as argument 1: give "
            "memory of a Buffer that was allocated and not moved from");
  EXPECT_EQ(why([&](Batch& batch) {
              batch.Launch(*axpy_, {.grid = {0}}, 1.0f, x_.data(), y_.data(),
                           kCount);
            }),
            "launch 1 (kernel 'axpy') has a grid of 0 in direction 0: give 1 "
            "or more, or leave the launch out");
  EXPECT_EQ(why([&](Batch& batch) {
              batch.Copy(Out(x_.data(), 2), In(y_.data(), 3));
            }),
            "launch 1 (copy) copies 3 elements to 2: name as many of both, as "
            "in span().first(2)");
  EXPECT_EQ(why([&](Batch& batch) { batch.Fill(Out(x_.data(), 0), 0.0f); }),
            "launch 1 (fill) fills nothing: leave it out");
  EXPECT_EQ(calls_, 0);

  Batch first = stream_->BeginBatch();
  first.Copy(Out(x_.data(), 2), In(y_.data(), 3));
  const Status submitted = first.Submit();
  ASSERT_FALSE(submitted);
  EXPECT_EQ(submitted.error().message(),
            "launch 0 (copy) copies 3 elements to 2: name as many of both, as "
            "in span().first(2)");
}

TEST_F(BatchTest, BatchIsSubmittedOnceOrDropped) {
  {
    Batch dropped = stream_->BeginBatch();
    dropped.Launch(*axpy_, {}, 1.0f, x_.data(), y_.data(), kCount);
  }
  EXPECT_EQ(calls_, 0);
  Batch batch = stream_->BeginBatch();
  batch.Launch(*axpy_, {}, 1.0f, x_.data(), y_.data(), kCount);
  EXPECT_TRUE(batch.Submit());
  batch.Launch(*axpy_, {}, 1.0f, x_.data(), y_.data(), kCount);
  batch.Fill(Out(x_.data(), 1), 0.0f);
  const Status again = batch.Submit();
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code(), Code::kFailedPrecondition);
  EXPECT_EQ(calls_, 1);
  Batch prepared = stream_->BeginBatch();
  prepared.Launch(*axpy_, {}, 1.0f, x_.data(), y_.data(), kCount);
  EXPECT_TRUE(prepared.Prepare());
  prepared.Launch(*axpy_, {}, 1.0f, x_.data(), y_.data(), kCount);
  const auto other = prepared.Prepare();
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code(), Code::kFailedPrecondition);
  EXPECT_EQ(calls_, 1);
  EXPECT_TRUE(stream_->BeginBatch().Submit());  // of nothing
}

TEST_F(BatchTest, HandlesKeepTheirRuntime) {
  Buffer<float> buffer = *runtime_->Allocate<float>(4);
  Stream stream = *stream_;
  runtime_.reset();
  stream_.reset();
  const float values[] = {1, 2, 3, 4};
  float back[4] = {};
  ASSERT_TRUE(stream.CopyToDevice(buffer.data(), values, 4));
  ASSERT_TRUE(stream.CopyToHost(back, buffer.data(), 4));
  EXPECT_EQ(back[3], 4.0f);
  stream_.emplace(stream);
}

TEST_F(BatchTest, KernelsOfAnotherKindOfRuntimeAreRefused) {
  const auto compiled =
      runtime_->CompileKernel<Axpy>({.source = "", .name = "axpy"});
  ASSERT_TRUE(compiled);
  EXPECT_EQ(compiled->Wait().error().code(), Code::kUnavailable);
  EXPECT_FALSE(runtime_->AdoptKernel<Axpy>(this, "axpy"));
}

TEST_F(BatchTest, ThreadsEachHaveTheirOrder) {
  constexpr int kThreads = 4;
  constexpr int kCalls = 200;
  // Host kernels of one stream never overlap: submitting holds its lock.
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([this] {
      for (int call = 0; call < kCalls; ++call) EXPECT_TRUE(SubmitFour(0.0f));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(calls_, kThreads * kCalls * 4);
  EXPECT_EQ(y_[0], 1.0f + 2.0f * (0 + 1 + 2 + 3) * kThreads * kCalls);
}

// What is only read is read through a pointer to const.
static_assert(std::is_same_v<decltype(In(static_cast<float*>(nullptr), 1).data),
                             const float*>);

}  // namespace
}  // namespace reprise
