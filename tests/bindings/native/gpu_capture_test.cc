// Events and captured work inside of batches, on a GPU.

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "bindings/native/reprise.h"
#include "engine/batch/kernel_code.h"
#include "engine/device/driver.h"
#include "tests/bindings/native/gpu_runtime_test.h"

namespace reprise {
namespace {

using Mix = void(unsigned*, const unsigned*, unsigned, unsigned);

constexpr char kSource[] = R"(
extern "C" __global__ void mix(unsigned* to, const unsigned* from, unsigned by,
                               unsigned count) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) to[i] = to[i] * 1664525u + from[count - 1 - i] + by;
}
)";
constexpr unsigned kCount = 1 << 20;
constexpr LaunchConfig kConfig{.grid = {kCount / 256}, .block = {256}};

class GpuCaptureTest : public GpuRuntimeTest {
 protected:
  void SetUp() override {
    GpuRuntimeTest::SetUp();
    if (!runtime_) return;
    driver_ = *device::Driver::Load();
    stream_.emplace(*runtime_->CreateStream());
    mix_.emplace(
        *runtime_->CompileKernel<Mix>({.source = kSource, .name = "mix"}));
    ASSERT_TRUE(mix_->Wait());
    for (auto* buffer : {&x_, &y_}) {
      *buffer = *runtime_->Allocate<unsigned>(kCount);
    }
  }

  void Clear() {
    Batch batch = stream_->BeginBatch();
    batch.Fill(Out(x_), 1u);
    batch.Fill(Out(y_), 2u);
    ASSERT_TRUE(batch.Submit());
    ASSERT_TRUE(stream_->Synchronize());
  }
  std::vector<unsigned> Values() {
    std::vector<unsigned> values(kCount);
    EXPECT_TRUE(stream_->CopyToHost(values.data(), x_.data(), kCount));
    return values;
  }
  // What a library does with a stream.
  Status Library(CUstream stream, unsigned by) {
    ++called_;
    CUlaunchConfig config{};
    config.gridDimX = kCount / 256;
    config.gridDimY = config.gridDimZ = 1;
    config.blockDimX = 256;
    config.blockDimY = config.blockDimZ = 1;
    config.hStream = stream;
    unsigned* to = x_.data();
    const unsigned* from = y_.data();
    unsigned count = kCount;
    void* params[] = {&to, &from, &by, &count};
    for (int i = 0; i < 3; ++i) {
      REPRISE_CU(*driver_, cuLaunchKernelEx(&config, mix_->code()->function(),
                                            params, nullptr));
    }
    REPRISE_CU(*driver_,
               cuMemsetD32Async(reinterpret_cast<CUdeviceptr>(y_.data()), by,
                                kCount / 2, stream));
    return {};
  }

  const device::Driver* driver_ = nullptr;
  std::optional<Stream> stream_;
  std::optional<Kernel<Mix>> mix_;
  Buffer<unsigned> x_;
  Buffer<unsigned> y_;
  int called_ = 0;
};

TEST_F(GpuCaptureTest, CapturedWorkGivesTheBitsOfPlainCalls) {
  const auto run = [&](bool keyed) {
    Clear();
    for (unsigned call = 0; call < 12; ++call) {
      const unsigned by = call % 2;
      Batch batch = stream_->BeginBatch();
      batch.Launch(*mix_, kConfig, InOut(x_), In(y_), call, kCount);
      const auto work = [&, by](CUstream stream) {
        return Library(stream, by);
      };
      if (keyed) {
        batch.Capture(CaptureKey(x_.data(), y_.data(), by), work);
      } else {
        batch.Capture(work);
      }
      batch.Launch(*mix_, kConfig, InOut(y_), In(x_), call, kCount);
      const Status submitted = batch.Submit();
      EXPECT_TRUE(submitted) << submitted.error().message();
      stream_->WaitForBuilds();
    }
    return Values();
  };
  const std::vector<unsigned> plain = run(false);
  EXPECT_EQ(called_, 12);
  EXPECT_EQ(stream_->stats().replayed, 0u);
  EXPECT_EQ(run(true), plain);
  EXPECT_EQ(called_, 12 + 2 * 3);
  EXPECT_EQ(stream_->stats().replayed, 8u);
}

TEST_F(GpuCaptureTest, PreparedPlanHasCapturedWork) {
  Clear();
  for (int call = 0; call < 3; ++call) {
    ASSERT_TRUE(Library(static_cast<CUstream>(stream_->handle()), 5));
  }
  const std::vector<unsigned> expected = Values();
  Clear();
  Batch batch = stream_->BeginBatch();
  batch.Capture([&](CUstream stream) { return Library(stream, 5); });
  auto plan = batch.Prepare();
  ASSERT_TRUE(plan) << plan.error().message();
  for (int call = 0; call < 3; ++call) ASSERT_TRUE(plan->Launch());
  EXPECT_EQ(Values(), expected);
}

// Two streams take turns in the middle of their batches; each batch begins with
// work of its own, so that an order that is not kept shows.
TEST_F(GpuCaptureTest, EventsInBatchesOrderStreams) {
  const Stream other = *runtime_->CreateStream();
  const Buffer<unsigned> own = *runtime_->Allocate<unsigned>(kCount);
  const Buffer<unsigned> others = *runtime_->Allocate<unsigned>(kCount);
  const auto run = [&](bool two) {
    Clear();
    std::optional<Event> last = *stream_->Record();
    for (unsigned call = 0; call < 40; ++call) {
      const bool on_other = two && call % 2 == 1;
      Batch batch = (on_other ? other : *stream_).BeginBatch();
      const Buffer<unsigned>& mine = on_other ? others : own;
      for (unsigned i = 0; i < 1 + call % 3; ++i) {
        batch.Launch(*mix_, kConfig, InOut(mine), In(mine), i, kCount);
      }
      batch.Wait(*last);
      batch.Launch(*mix_, kConfig, InOut(x_), In(y_), call, kCount);
      batch.Launch(*mix_, kConfig, InOut(y_), In(x_), call, kCount);
      auto point = batch.Record();
      EXPECT_TRUE(point);
      const Status submitted = batch.Submit();
      EXPECT_TRUE(submitted) << submitted.error().message();
      last = *point;  // the one before is gone, and may be in flight
      if (call % 7 == 0) stream_->WaitForBuilds();
    }
    EXPECT_TRUE(stream_->Wait(*last));
    return Values();
  };
  const std::vector<unsigned> in_one = run(false);
  EXPECT_EQ(run(true), in_one);
  EXPECT_GT(other.stats().replayed, 5u);
}

}  // namespace
}  // namespace reprise
