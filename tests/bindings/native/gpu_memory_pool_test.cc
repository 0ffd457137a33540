// Memory of buffers that end with work in flight, contexts and devices, on a
// GPU.

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "bindings/native/reprise.h"
#include "engine/device/driver.h"
#include "tests/bindings/native/gpu_runtime_test.h"
#include "tests/engine/device/count_devices.h"

namespace reprise {
namespace {

using Mix = void(unsigned*, unsigned, unsigned);

constexpr char kSource[] = R"(
extern "C" __global__ void mix(unsigned* to, unsigned by, unsigned count) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) to[i] = to[i] * 1664525u + by;
}
)";
constexpr unsigned kCount = 1 << 20;
constexpr LaunchConfig kConfig{.grid = {kCount / 256}, .block = {256}};

class GpuMemoryPoolTest : public GpuRuntimeTest {
 protected:
  static Kernel<Mix> MixOf(const Runtime& runtime) {
    auto kernel =
        *runtime.CompileKernel<Mix>({.source = kSource, .name = "mix"});
    EXPECT_TRUE(kernel.Wait());
    return kernel;
  }
  // Fills a buffer, mixes it `times`, copies it to `to`, and drops it at once.
  static void UseAndDrop(const Runtime& runtime, const Stream& stream,
                         const Kernel<Mix>& mix, unsigned times,
                         const Buffer<unsigned>& to) {
    const Buffer<unsigned> buffer = *runtime.Allocate<unsigned>(kCount);
    Batch batch = stream.BeginBatch();
    batch.Fill(Out(buffer), times);
    for (unsigned i = 0; i < times; ++i) {
      batch.Launch(mix, kConfig, InOut(buffer), i, kCount);
    }
    batch.Copy(Out(to), In(buffer));
    const Status submitted = batch.Submit();
    ASSERT_TRUE(submitted) << submitted.error().message();
  }
  static std::string WhyNot(const Stream& stream) {
    std::string why;
    for (const PlanReport& plan : stream.plans()) why += plan.why_not + "; ";
    return why;
  }
  static unsigned Expected(unsigned times) {
    unsigned value = times;
    for (unsigned i = 0; i < times; ++i) value = value * 1664525u + i;
    return value;
  }
  static void ExpectAll(const Stream& stream, const Buffer<unsigned>& buffer,
                        unsigned value) {
    std::vector<unsigned> values(kCount);
    ASSERT_TRUE(stream.CopyToHost(values.data(), buffer.data(), kCount));
    ASSERT_EQ(values, std::vector<unsigned>(kCount, value));
  }
};

TEST_F(GpuMemoryPoolTest, BuffersMayEndWithWorkInFlight) {
  const Stream one = *runtime_->CreateStream();
  const Stream two = *runtime_->CreateStream();
  const Kernel<Mix> mix = MixOf(*runtime_);
  std::vector<Buffer<unsigned>> results;
  for (unsigned i = 0; i < 40; ++i) {
    results.push_back(*runtime_->Allocate<unsigned>(kCount));
  }
  for (unsigned i = 0; i < results.size(); ++i) {
    UseAndDrop(*runtime_, i % 2 == 0 ? one : two, mix, 1 + i % 5, results[i]);
  }
  ASSERT_TRUE(one.Synchronize());
  ASSERT_TRUE(two.Synchronize());
  for (unsigned i = 0; i < results.size(); ++i) {
    ExpectAll(one, results[i], Expected(1 + i % 5));
  }
}

// The buffer is gone before the graph is built that would fill and copy it.
TEST_F(GpuMemoryPoolTest, BatchesWithBuffersOfTheirOwnAreReplayed) {
  for (const Patching patching : {Patching::kSetParams, Patching::kExecUpdate,
                                  Patching::kTable, Patching::kMeasured}) {
    SCOPED_TRACE(ToString(patching));
    const Runtime runtime = *Runtime::Create({.patching = patching});
    const Stream stream = *runtime.CreateStream();
    const Kernel<Mix> mix = MixOf(runtime);
    const Buffer<unsigned> result = *runtime.Allocate<unsigned>(kCount);
    std::vector<Buffer<unsigned>> others;  // so that addresses change
    for (unsigned call = 0; call < 20; ++call) {
      UseAndDrop(runtime, stream, mix, 4, result);
      ExpectAll(stream, result, Expected(4));
      stream.WaitForBuilds();
      if (call % 4 == 3) {
        others.push_back(*runtime.Allocate<unsigned>(kCount));
      }
    }
    EXPECT_EQ(stream.stats().replayed, 18u) << WhyNot(stream);
    EXPECT_GE(stream.stats().patched, 4u);
    const std::vector<PlanReport> plans = stream.plans();
    ASSERT_EQ(plans.size(), 1u);
    EXPECT_EQ(plans[0].why_not, "");
    if (patching != Patching::kMeasured) {
      EXPECT_EQ(plans[0].patching, patching);
    }
  }
}

TEST_F(GpuMemoryPoolTest, ContextOfTheCallersHasStreamsOfItsOwn) {
  const device::Driver& driver = **device::Driver::Load();
  CUdevice device = 0;
  ASSERT_EQ(driver.cuDeviceGet(&device, 0), CUDA_SUCCESS);
  CUcontext context = nullptr;
  ASSERT_EQ(driver.cuDevicePrimaryCtxRetain(&context, device), CUDA_SUCCESS);
  {
    const auto runtime = Runtime::Create({.context = context});
    ASSERT_TRUE(runtime) << runtime.error().message();
    const Stream mine = *runtime_->CreateStream();
    const auto adopted = runtime->AdoptStream(mine.handle());
    ASSERT_TRUE(adopted) << adopted.error().message();
    const Buffer<unsigned> result = *runtime->Allocate<unsigned>(kCount);
    // A kernel of the other runtime: it is of the same context.
    UseAndDrop(*runtime, *adopted, MixOf(*runtime_), 3, result);
    ASSERT_TRUE(adopted->Synchronize());
    ExpectAll(*adopted, result, Expected(3));
  }
  driver.cuDevicePrimaryCtxRelease(device);
}

TEST_F(GpuMemoryPoolTest, DevicesSideBySide) {
  REPRISE_NEEDS_DEVICES(2);
  const auto second = Runtime::Create({.device = 1});
  ASSERT_TRUE(second) << second.error().message();
  const Stream here = *runtime_->CreateStream();
  const Stream there = *second->CreateStream();
  const Kernel<Mix> mix_here = MixOf(*runtime_);
  const Kernel<Mix> mix_there = MixOf(*second);
  const Buffer<unsigned> x = *runtime_->Allocate<unsigned>(kCount);
  const Buffer<unsigned> y = *second->Allocate<unsigned>(kCount);
  for (unsigned call = 0; call < 6; ++call) {
    UseAndDrop(*runtime_, here, mix_here, 4, x);
    UseAndDrop(*second, there, mix_there, 7, y);
    here.WaitForBuilds();
    there.WaitForBuilds();
  }
  EXPECT_EQ(here.stats().replayed, 4u) << WhyNot(here);
  EXPECT_EQ(there.stats().replayed, 4u) << WhyNot(there);
  ExpectAll(here, x, Expected(4));
  ExpectAll(there, y, Expected(7));
  EXPECT_EQ(runtime_->AdoptStream(there.handle()).error().code(),
            Code::kInvalidArgument);
  Batch batch = here.BeginBatch();
  batch.Launch(mix_there, kConfig, x.data(), 1u, kCount);
  EXPECT_EQ(batch.Submit().error().message(),
            "launch 0 (kernel 'mix') is of another runtime's device or context "
            "than the stream: make it with the stream's runtime");
}

TEST_F(GpuMemoryPoolTest, EverythingMayEndWithWorkInFlight) {
  std::vector<unsigned> values(kCount);
  for (int call = 0; call < 20; ++call) {
    const Runtime runtime = *Runtime::Create({});
    const Stream stream = *runtime.CreateStream();
    const Kernel<Mix> mix = MixOf(runtime);
    const Buffer<unsigned> result = *runtime.Allocate<unsigned>(kCount);
    for (int i = 0; i < 4; ++i) UseAndDrop(runtime, stream, mix, 20, result);
  }
  // Nothing that ended too early has broken the context.
  const Stream stream = *runtime_->CreateStream();
  const Buffer<unsigned> result = *runtime_->Allocate<unsigned>(kCount);
  UseAndDrop(*runtime_, stream, MixOf(*runtime_), 2, result);
  ASSERT_TRUE(stream.Synchronize());
  ExpectAll(stream, result, Expected(2));
}

}  // namespace
}  // namespace reprise
