// Every way of giving arguments to a graph gives the bits of plain launches on
// a GPU; graphs are taken over by other batches.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "bindings/native/reprise.h"
#include "tests/engine/device/count_devices.h"

namespace reprise {
namespace {

using ::testing::HasSubstr;

using Axpy = void(float, const float*, float*, int);
using Odd = void(char, double, float*, short);

constexpr char kSource[] = R"(
extern "C" __global__ void __launch_bounds__(128)
axpy(float a, const float* __restrict__ x, float* __restrict__ y, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) y[i] = sinf(y[i]) + a * x[i];
}
extern "C" __global__ void ypxa(float a, const float* x, float* y, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) y[i] = x[i] + a / (1.0f + y[i] * y[i]);
}
namespace odd {
template <typename T>
__global__ void Mix(char c, double d, T* to, short s) {
  extern __shared__ T shared[];
  shared[threadIdx.x] = to[threadIdx.x];
  __syncthreads();
  to[threadIdx.x] = shared[blockDim.x - 1 - threadIdx.x] + T(c * d) - T(s);
}
}
)";
constexpr char kWithVariable[] = R"(
__device__ int calls = 0;
extern "C" __global__ void count(int* to, int by) { calls += by; *to = calls; }
)";
constexpr int kCount = 1 << 10;
constexpr LaunchConfig kConfig{.grid = {kCount / 128}, .block = {128}};

// A runtime that patches so, or builds no graph at all.
class Side {
 public:
  explicit Side(Patching patching, bool builds = true)
      : runtime(*Runtime::Create(
            {.build_after = builds ? 2u : ~0u, .patching = patching})),
        stream(*runtime.CreateStream()),
        axpy(*runtime.CompileKernel<Axpy>({.source = kSource, .name = "axpy"})),
        ypxa(*runtime.CompileKernel<Axpy>({.source = kSource, .name = "ypxa"})),
        mix(*runtime.CompileKernel<Odd>(
            {.source = kSource, .name = "odd::Mix<float>"})),
        x(*runtime.Allocate<float>(kCount)),
        y(*runtime.Allocate<float>(kCount)) {
    std::vector<float> values(kCount);
    for (int i = 0; i < kCount; ++i) {
      values[i] = 0.37f * static_cast<float>(i % 91) - 7.0f;
    }
    EXPECT_TRUE(stream.CopyToDevice(x.data(), values.data(), kCount));
    EXPECT_TRUE(stream.CopyToDevice(y.data(), values.data(), kCount));
  }

  // Kernels of several shapes; a copy, and fills of each width with other
  // values each time, that no table holds.
  Status Step(int launches, float a) {
    Batch batch = stream.BeginBatch();
    for (int i = 0; i < launches; ++i) {
      const float value = a + 0.01f * static_cast<float>(i);
      if (i % 3 == 0) {
        batch.Launch(mix, {.block = {128}, .shared_bytes = 512},
                     static_cast<char>(i), static_cast<double>(a), InOut(y),
                     static_cast<short>(i));
      } else {
        batch.Launch(i % 3 == 1 ? axpy : ypxa, kConfig, value, In(x), InOut(y),
                     kCount - i);
      }
    }
    const auto whole = static_cast<uint8_t>(10.0f * a);
    batch.Fill(Out(x.data(), 16), 0.5f + a);
    batch.Fill(Out(reinterpret_cast<uint16_t*>(x.data() + 16), 16),
               static_cast<uint16_t>(257 * whole));
    batch.Fill(Out(reinterpret_cast<uint8_t*>(x.data() + 24), 32), whole);
    batch.Copy(Out(y.data() + 64, 32), In(x.data(), 32));
    return batch.Submit();
  }
  std::vector<float> Values() {
    std::vector<float> values(kCount);
    EXPECT_TRUE(stream.CopyToHost(values.data(), y.data(), kCount));
    return values;
  }

  Runtime runtime;
  Stream stream;
  Kernel<Axpy> axpy;
  Kernel<Axpy> ypxa;
  Kernel<Odd> mix;
  Buffer<float> x;
  Buffer<float> y;
};

class GpuPatchingTest : public testing::TestWithParam<Patching> {
 protected:
  void SetUp() override { REPRISE_NEEDS_DEVICES(1); }
};

void ExpectSame(const std::vector<float>& a, const std::vector<float>& b) {
  ASSERT_EQ(a.size(), b.size());
  EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)), 0);
}

TEST_P(GpuPatchingTest, GivesTheBitsOfPlainLaunches) {
  Side plain(Patching::kSetParams, /*builds=*/false);
  Side patched(GetParam());
  for (int step = 0; step < 200; ++step) {
    // Also steps where nothing changes.
    const float a = 0.05f * static_cast<float>(step / 2);
    for (Side* side : {&plain, &patched}) {
      const Status done = side->Step(48, a);
      ASSERT_TRUE(done) << done.error().message();
    }
    if (step < 20) patched.stream.WaitForBuilds();
    if (step % 7 == 0) ExpectSame(plain.Values(), patched.Values());
  }
  ExpectSame(plain.Values(), patched.Values());
  EXPECT_EQ(plain.stream.stats().replayed, 0u);
  EXPECT_GT(patched.stream.stats().replayed, 190u);
  ASSERT_EQ(patched.stream.plans().size(), 1u);
  const PlanReport report = patched.stream.plans()[0];
  if (GetParam() == Patching::kMeasured) {
    EXPECT_THAT(report.why, HasSubstr("launches change a replay"));
  } else {
    EXPECT_EQ(report.patching, GetParam()) << report.why_not;
  }
  EXPECT_EQ(report.in_table, report.patching == Patching::kTable ? 48u : 0u);
}

// More parameters than one launch can carry.
TEST_P(GpuPatchingTest, LongBatchesToo) {
  Side plain(Patching::kSetParams, /*builds=*/false);
  Side patched(GetParam());
  for (int step = 0; step < 12; ++step) {
    for (Side* side : {&plain, &patched}) {
      ASSERT_TRUE(side->Step(1500, 0.1f * static_cast<float>(step)));
    }
    patched.stream.WaitForBuilds();
  }
  ExpectSame(plain.Values(), patched.Values());
  EXPECT_GT(patched.stream.stats().replayed, 8u);
}

INSTANTIATE_TEST_SUITE_P(Ways, GpuPatchingTest,
                         testing::Values(Patching::kSetParams, Patching::kTable,
                                         Patching::kExecUpdate,
                                         Patching::kMeasured),
                         [](const auto& info) {
                           std::string name = ToString(info.param);
                           std::erase(name, ' ');
                           return name;
                         });

using GpuPatchingOnceTest = GpuPatchingTest;
INSTANTIATE_TEST_SUITE_P(Once, GpuPatchingOnceTest,
                         testing::Values(Patching::kTable));

TEST_P(GpuPatchingOnceTest, VariablesOfASourceAreOne) {
  const Runtime runtime = *Runtime::Create({.patching = Patching::kTable});
  const Stream stream = *runtime.CreateStream();
  const auto count = *runtime.CompileKernel<void(int*, int)>(
      {.source = kWithVariable, .name = "count"});
  const Buffer<int> to = *runtime.Allocate<int>(1);
  int expected = 0;
  for (int step = 1; step < 10; ++step) {
    Batch batch = stream.BeginBatch();
    for (int i = 0; i < 2; ++i) {
      batch.Launch(count, {}, InOut(to), step);
      expected += step;
    }
    ASSERT_TRUE(batch.Submit());
    stream.WaitForBuilds();
  }
  int got = 0;
  ASSERT_TRUE(stream.CopyToHost(&got, to.data(), 1));
  EXPECT_EQ(got, expected);
  EXPECT_THAT(stream.plans()[0].why_not, HasSubstr("variables of its source"));
}

TEST_P(GpuPatchingOnceTest, BatchesThatNeverComeAgainTakeGraphsOver) {
  Side plain(Patching::kSetParams, /*builds=*/false);
  Side patched(Patching::kSetParams);
  const auto submit = [](Side& side, uint32_t threads, int shift) {
    Batch batch = side.stream.BeginBatch();
    for (int i = 0; i < 16; ++i) {
      batch.Launch((i + shift) % 3 == 0 ? side.axpy : side.ypxa,
                   {.grid = {4}, .block = {threads}},
                   0.1f * static_cast<float>(i + shift), In(side.x),
                   InOut(side.y), kCount);
    }
    batch.Fill(Out(side.x.data(), 16), 0.5f);
    batch.Copy(Out(side.y.data() + 64, 32), In(side.x.data(), 32));
    return batch.Submit();
  };
  for (int step = 0; step < 4; ++step) {
    for (Side* side : {&plain, &patched}) ASSERT_TRUE(submit(*side, 32, 0));
    patched.stream.WaitForBuilds();
  }
  for (uint32_t step = 0; step < 60; ++step) {
    for (Side* side : {&plain, &patched}) {
      ASSERT_TRUE(submit(*side, 33 + step, static_cast<int>(step)));
    }
  }
  ExpectSame(plain.Values(), patched.Values());
  EXPECT_GT(patched.stream.stats().taken_over, 20u)
      << patched.stream.plans()[0].why_not;
}

}  // namespace
}  // namespace reprise
