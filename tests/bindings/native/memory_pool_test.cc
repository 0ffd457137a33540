// Memory goes back behind the work that uses it, and nobody waits for that but
// who finds no memory; what is of another context is refused.

#include "bindings/native/memory_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/native/device.h"
#include "bindings/native/reprise.h"
#include "bindings/native/runtime_core.h"
#include "bindings/native/stream_core.h"
#include "engine/base/task.h"
#include "tests/bindings/native/simulated_runtime.h"
#include "tests/bindings/native/table_device.h"
#include "tests/engine/base/manual_task_runner.h"
#include "tests/sim/simulated_gpu.h"

namespace reprise::native {
namespace {

using Raise = void(float*, float);
using Pace = sim::SimulatedStreams::Pace;

class MemoryPoolTest : public testing::Test {
 protected:
  void SetUp() override { Open(Patching::kSetParams, {}); }
  void Open(Patching patching, const RuntimeCore::Stubs& stubs) {
    auto pool = MemoryPool::Create(gpu_.driver, 0, 1 << 20);
    ASSERT_TRUE(pool);
    runtime_ = RuntimeOn(
        MakeCudaDevice(gpu_.driver, gpu_.context, {}, *std::move(pool)),
        patching, stubs);
    ASSERT_TRUE(runtime_->device().AdoptStream(gpu_.stream));
    adopted_ = std::make_shared<StreamCore>(runtime_, gpu_.stream, false);
    owned_ = std::make_shared<StreamCore>(
        runtime_, *runtime_->device().MakeStream(0), true);
    kernel_ = Adopt();
  }
  void TearDown() override {
    Close();
    EXPECT_EQ(gpu_.objects(), 0u);
  }
  void Close() {
    kernel_.reset();
    adopted_.reset();
    owned_.reset();
    runtime_.reset();
  }

  std::optional<Kernel<Raise>> Adopt() {
    return Kernel<Raise>(CodeOf(gpu_, "raise", raise_));
  }
  Buffer<float> Allocate(size_t count) {
    auto memory = runtime_->device().Allocate(count * sizeof(float));
    EXPECT_TRUE(memory) << memory.error().message();
    return Buffer<float>(runtime_, static_cast<float*>(*memory), count);
  }
  // On the stream: to = 0, then twice to = to * 2 + by, then out = to.
  void Use(const std::shared_ptr<StreamCore>& stream,
           const Buffer<float>& buffer, float by, float* out) {
    Batch batch(stream);
    batch.Fill(Out(reinterpret_cast<char*>(buffer.data()), sizeof(float)),
               '\0');
    for (int i = 0; i < 2; ++i) batch.Launch(*kernel_, {}, buffer.data(), by);
    batch.Copy(Out(out, 1), In(buffer.data(), 1));
    ASSERT_TRUE(batch.Submit());
    runtime_->queue().WaitIdle(std::nullopt);
  }

  sim::SimulatedGpu gpu_;
  sim::SimulatedGpu::Kernel raise_ = sim::SimulatedGpu::MakeKernel(
      +[](float* to, float by) { *to = *to * 2 + by; });
  std::shared_ptr<RuntimeCore> runtime_;
  std::shared_ptr<StreamCore> adopted_;
  std::shared_ptr<StreamCore> owned_;
  std::optional<Kernel<Raise>> kernel_;
};

TEST_F(MemoryPoolTest, BufferMayEndWithWorkInFlight) {
  for (uint32_t seed = 0; seed < 30; ++seed) {
    gpu_.streams.SetPace(Pace::kAtRandom, seed);
    std::vector<float> results(40);
    for (size_t i = 0; i < results.size(); ++i) {
      const Buffer<float> buffer = Allocate(1);
      Use(i % 3 == 0 ? owned_ : adopted_, buffer, static_cast<float>(i),
          &results[i]);
    }
    gpu_.streams.SynchronizeAll();
    for (size_t i = 0; i < results.size(); ++i) {
      ASSERT_EQ(results[i], 3 * static_cast<float>(i)) << "seed " << seed;
    }
    EXPECT_EQ(gpu_.pool_memory(), 0u);
  }
}

// A program that makes a buffer for each batch: it is gone before the graph is
// built that would name it.
class BufferPerBatchTest : public MemoryPoolTest {
 protected:
  void SetUp() override {}
  void TearDown() override {
    builds_.RunAll();
    MemoryPoolTest::TearDown();
  }
  void Open(Patching patching) {
    MemoryPoolTest::Open(
        patching, {.measured = {{.costs = kCheapUpdates}}, .builds = &builds_});
  }
  // out = 3 * by, by way of a buffer that ends at once.
  void Submit(float by, float* out) { Use(adopted_, Allocate(1), by, out); }
  void Call(float by) {
    float result = 0;
    Submit(by, &result);
    gpu_.streams.SynchronizeAll();
    EXPECT_EQ(result, 3 * by);
  }
  // What is asked for in vain waits for all that is freed, and that for the
  // work that used it.
  void FreeAll() {
    gpu_.pool_bytes = 0;
    EXPECT_FALSE(runtime_->device().Allocate(1));
    EXPECT_EQ(gpu_.pool_memory(), 0u);
  }

  base::ManualTaskRunner builds_;
};

TEST_F(BufferPerBatchTest, IsReplayed) {
  for (const Patching patching :
       {Patching::kSetParams, Patching::kExecUpdate, Patching::kMeasured}) {
    SCOPED_TRACE(ToString(patching));
    Open(patching);
    for (int call = 1; call <= 20; ++call) {
      Call(static_cast<float>(call));
      if (call == 2) {
        EXPECT_EQ(gpu_.pool_memory(), 1u);  // a build holds it
      }
      builds_.RunAll();
      gpu_.streams.SynchronizeAll();
      EXPECT_EQ(gpu_.pool_memory(), 0u);
    }
    EXPECT_EQ(adopted_->batches().stats().refused, 0u);
    EXPECT_EQ(adopted_->batches().stats().replayed, 18u);
    const std::vector<PlanReport> plans = adopted_->batches().plans();
    ASSERT_EQ(plans.size(), 1u);
    EXPECT_EQ(plans[0].why_not, "");
    EXPECT_EQ(plans[0].patching, patching == Patching::kMeasured
                                     ? Patching::kExecUpdate
                                     : patching);
    Close();
  }
}

// The program may begin a capture at any time, so another thread had better
// not look at its streams.
TEST_F(BufferPerBatchTest, EndOfABuildTouchesNoStreamOfTheProgram) {
  Open(Patching::kSetParams);
  gpu_.streams.SetPace(Pace::kByHand);
  float result = 0;
  for (int call = 0; call < 2; ++call) Submit(5, &result);
  gpu_.calls.clear();
  EXPECT_EQ(builds_.RunAll(), 1u);
  EXPECT_EQ(std::count(gpu_.calls.begin(), gpu_.calls.end(), "cuMemFreeAsync"),
            1);
  EXPECT_EQ(std::count(gpu_.calls.begin(), gpu_.calls.end(), "cuEventRecord"),
            0);
  FreeAll();
  EXPECT_EQ(result, 15);
}

// What a build would need is given to who finds no memory; the build is refused
// then, and tried again when the batch came twice as often.
TEST_F(BufferPerBatchTest, HeldMemoryIsGivenUpWhereThereIsNoneLeft) {
  Open(Patching::kSetParams);
  for (int call = 1; call <= 2; ++call) Call(static_cast<float>(call));
  ASSERT_EQ(gpu_.pool_memory(), 1u);
  gpu_.pool_bytes = sizeof(float);
  {
    const Buffer<float> other = Allocate(1);
    EXPECT_EQ(gpu_.pool_memory(), 1u);
    builds_.RunAll();
  }
  Call(3);
  EXPECT_EQ(adopted_->batches().stats().refused, 1u);
  ASSERT_EQ(adopted_->batches().plans().size(), 1u);
  EXPECT_NE(adopted_->batches().plans()[0].why_not.find("cuGraphAddMemsetNode"),
            std::string::npos);
  EXPECT_EQ(builds_.pending(), 0u);
  Call(4);
  EXPECT_EQ(builds_.RunAll(), 1u);
  for (int call = 5; call <= 8; ++call) Call(static_cast<float>(call));
  EXPECT_EQ(adopted_->batches().stats().replayed, 4u);
  EXPECT_EQ(adopted_->batches().plans()[0].why_not, "");
}

// Refused builds that take long are not begun anew by each batch.
TEST_F(BufferPerBatchTest, RefusedBuildWaitsForTwiceAsManyBatches) {
  Open(Patching::kSetParams);
  gpu_.pool_bytes = sizeof(float);  // nothing can be held
  for (int call = 1; call <= 20; ++call) Call(static_cast<float>(call));
  ASSERT_EQ(builds_.RunAll(), 1u);
  for (int call = 21; call < 40; ++call) {
    Call(static_cast<float>(call));
    EXPECT_EQ(builds_.pending(), 0u) << call;
  }
  Call(40);
  EXPECT_EQ(builds_.pending(), 1u);
  EXPECT_EQ(adopted_->batches().stats().refused, 1u);
}

TEST_F(BufferPerBatchTest, StreamMayEndBeforeWhatIsHeld) {
  Open(Patching::kSetParams);
  gpu_.streams.SetPace(Pace::kByHand);
  float result = 0;
  for (int call = 0; call < 2; ++call) Submit(5, &result);
  ASSERT_EQ(builds_.pending(), 1u);
  adopted_.reset();
  builds_.RunAll();
  FreeAll();
  EXPECT_EQ(result, 15);
}

TEST_F(MemoryPoolTest, NeitherEndNorAllocateWaitsForWorkInFlight) {
  gpu_.streams.SetPace(Pace::kByHand);
  float result = 0;
  {
    const Buffer<float> buffer = Allocate(1);
    Use(adopted_, buffer, 1, &result);
  }
  const size_t pending = gpu_.streams.pending(gpu_.stream);
  EXPECT_GE(pending, 4u);
  const Buffer<float> other = Allocate(1);
  EXPECT_EQ(gpu_.streams.pending(gpu_.stream), pending);
  EXPECT_EQ(gpu_.pool_memory(), 2u);
  gpu_.streams.SynchronizeAll();
  EXPECT_EQ(result, 3);
  EXPECT_EQ(gpu_.pool_memory(), 1u);
}

TEST_F(MemoryPoolTest, AllocateWaitsWhereThereIsNoMemoryLeft) {
  gpu_.streams.SetPace(Pace::kByHand);
  gpu_.pool_bytes = 100;
  float result = 0;
  {
    const Buffer<float> buffer = Allocate(20);
    Use(adopted_, buffer, 1, &result);
  }
  const Buffer<float> other = Allocate(20);
  EXPECT_EQ(result, 3);
  const auto more = runtime_->device().Allocate(80);
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().code(), Code::kResourceExhausted);
  EXPECT_EQ(more.error().message(), "the device has no 80 bytes left");
}

TEST_F(MemoryPoolTest, StreamThatIsNoLongerNamedIsWaitedFor) {
  gpu_.streams.SetPace(Pace::kByHand);
  float result = 0;
  {
    const Buffer<float> buffer = Allocate(1);
    Use(adopted_, buffer, 5, &result);
    adopted_.reset();
  }
  gpu_.pool_bytes = 4;
  const Buffer<float> other = Allocate(1);  // once the work is over
  EXPECT_EQ(result, 15);
}

TEST_F(MemoryPoolTest, CaptureOfTheProgramIsLeftAlone) {
  Buffer<float> buffer = Allocate(1);
  gpu_.capturing = true;
  gpu_.calls.clear();
  buffer = {};
  gpu_.capturing = false;
  EXPECT_EQ(std::count(gpu_.calls.begin(), gpu_.calls.end(), "cuEventRecord"),
            0);
  EXPECT_EQ(gpu_.pool_memory(), 0u);
}

// Whichever call fails as the buffer ends: its memory waits for the work that
// was in flight.
TEST_F(MemoryPoolTest, FreedMemoryWaitsForItsWorkWhateverFails) {
  gpu_.streams.SetPace(Pace::kByHand);
  for (int calls = 0; calls < 24; ++calls) {
    float result = 0;
    {
      const Buffer<float> buffer = Allocate(1);
      Use(adopted_, buffer, 1, &result);
      gpu_.FailAfter(calls);
    }
    gpu_.FailAfter(-1);
    // Memory is asked for in vain, which waits for all that is freed.
    gpu_.pool_bytes = 0;
    EXPECT_FALSE(runtime_->device().Allocate(1));
    gpu_.pool_bytes = ~size_t{0};
    EXPECT_EQ(result, 3) << calls << ", " << gpu_.failed;
    gpu_.streams.SynchronizeAll();
  }
}

TEST_F(MemoryPoolTest, EveryDriverCallMayFailOnce) {
  gpu_.streams.SetPace(Pace::kAtRandom, 1);
  int told = 0;
  for (int calls = 0;; ++calls) {
    SCOPED_TRACE(testing::Message() << "after " << calls << " calls");
    gpu_.failed.clear();
    gpu_.FailAfter(calls);
    for (int i = 0; i < 3; ++i) {
      const auto memory = runtime_->device().Allocate(4);
      if (memory) {
        const Buffer<float> buffer(runtime_, static_cast<float*>(*memory), 1);
      } else {
        ++told;
      }
    }
    gpu_.streams.SynchronizeAll();
    EXPECT_EQ(gpu_.pool_memory(), 0u) << gpu_.failed;
    if (gpu_.failed.empty()) break;
    ASSERT_LT(calls, 1000);
  }
  EXPECT_GT(told, 3);
}

TEST_F(MemoryPoolTest, StreamEndsBehindItsWork) {
  gpu_.streams.SetPace(Pace::kByHand);
  float result = 0;
  Buffer<float> buffer = Allocate(1);
  Use(owned_, buffer, 7, &result);
  owned_.reset();
  EXPECT_EQ(result, 21);
}

TEST_F(MemoryPoolTest, StreamOfAnotherContextIsRefused) {
  const CUstream other = gpu_.streams.Make();
  gpu_.stream_contexts[other] = reinterpret_cast<CUcontext>(0xd);
  const Status adopted = runtime_->device().AdoptStream(other);
  ASSERT_FALSE(adopted);
  EXPECT_EQ(adopted.error().code(), Code::kInvalidArgument);
  EXPECT_EQ(adopted.error().message(),
            "the stream is of another device or context than the runtime: "
            "adopt it with a runtime of that one (RuntimeOptions::device or "
            "context)");
}

TEST_F(MemoryPoolTest, KernelOfAnotherContextIsRefused) {
  std::optional<Kernel<Raise>> other;
  {
    const device::ContextScope scope(gpu_.driver,
                                     reinterpret_cast<CUcontext>(0xd));
    other = Adopt();
  }
  float value = 0;
  Batch batch(owned_);
  batch.Launch(*kernel_, {}, &value, 1.0f);
  batch.Launch(*other, {}, &value, 1.0f);
  EXPECT_EQ(batch.Submit().error().message(),
            "launch 1 (kernel 'raise') is of another runtime's device or "
            "context than the stream: make it with the stream's runtime");
  EXPECT_EQ(value, 0);
}

}  // namespace
}  // namespace reprise::native
