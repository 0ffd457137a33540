// Batches on a GPU: graphs give the bits of plain launches, mistakes are told.

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "bindings/native/reprise.h"
#include "engine/batch/kernel_code.h"
#include "tests/bindings/native/gpu_runtime_test.h"

namespace reprise {
namespace {

using Axpy = void(float, const float*, float*, int);

constexpr char kSource[] = R"(
extern "C" __global__ void axpy(float a, const float* x, float* y, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) y[i] += a * x[i];
}
extern "C" __global__ void swap(double* x, double* y) {
  double t = *x; *x = *y; *y = t;
}
)";
constexpr int kCount = 1 << 12;
constexpr LaunchConfig kConfig{.grid = {kCount / 128}, .block = {128}};

class GpuBatchTest : public GpuRuntimeTest {
 protected:
  void SetUp() override {
    GpuRuntimeTest::SetUp();
    if (!runtime_) return;
    stream_.emplace(*runtime_->CreateStream());
    axpy_.emplace(
        *runtime_->CompileKernel<Axpy>({.source = kSource, .name = "axpy"}));
    const Status compiled = axpy_->Wait();
    ASSERT_TRUE(compiled) << compiled.error().message();
    for (auto* buffer : {&x_, &y_, &z_}) {
      *buffer = *runtime_->Allocate<float>(kCount);
      std::vector<float> values(kCount);
      for (int i = 0; i < kCount; ++i) {
        values[i] = 0.37f * static_cast<float>(i % 91) - 7.0f;
      }
      ASSERT_TRUE(stream_->CopyToDevice(buffer->span(), values));
    }
    ASSERT_TRUE(stream_->Synchronize());  // streams of other runtimes use them
  }

  std::vector<float> Values(const Buffer<float>& buffer) {
    std::vector<float> values(buffer.size());
    EXPECT_TRUE(
        stream_->CopyToHost(values.data(), buffer.data(), buffer.size()));
    return values;
  }

  std::optional<Stream> stream_;
  std::optional<Kernel<Axpy>> axpy_;
  Buffer<float> x_;
  Buffer<float> y_;
  Buffer<float> z_;
};

TEST_F(GpuBatchTest, ReplayedBatchesGiveTheBitsOfPlainLaunches) {
  const auto run = [&](uint32_t build_after) {
    RuntimeOptions options;
    options.build_after = build_after;
    const Runtime runtime = *Runtime::Create(options);
    const Stream stream = *runtime.CreateStream();
    const auto axpy =
        *runtime.CompileKernel<Axpy>({.source = kSource, .name = "axpy"});
    Buffer<float> y = *runtime.Allocate<float>(kCount);
    Buffer<float> z = *runtime.Allocate<float>(kCount);
    for (int call = 0; call < 20; ++call) {
      Batch batch = stream.BeginBatch();
      if (call == 0) {
        batch.Fill(Out(y), 0.25f);
        batch.Fill(Out(z), -3.0f);
      }
      for (int i = 0; i < 8; ++i) {
        const float a = 0.1f * static_cast<float>(call * 8 + i);
        batch.Launch(axpy, kConfig, a, In(x_), InOut(y), kCount);
        batch.Launch(axpy, kConfig, -a, In(y), InOut(z), kCount);
      }
      batch.Copy(Out(y), In(z));
      const Status submitted = batch.Submit();
      EXPECT_TRUE(submitted) << submitted.error().message();
      if (!submitted) break;
      if (call % 3 == 0) stream.WaitForBuilds();
    }
    EXPECT_TRUE(stream.Synchronize());
    EXPECT_EQ(stream.stats().replayed > 0, build_after < 20);
    std::vector<float> values(kCount);
    EXPECT_TRUE(stream.CopyToHost(values.data(), y.data(), kCount));
    return values;
  };
  const std::vector<float> plain = run(1000);
  const std::vector<float> replayed = run(2);
  EXPECT_EQ(
      std::memcmp(plain.data(), replayed.data(), plain.size() * sizeof(float)),
      0);
}

TEST_F(GpuBatchTest, PreparedPlanIsPatched) {
  Batch batch = stream_->BeginBatch();
  const uint32_t launch =
      batch.Launch(*axpy_, kConfig, 1.0f, x_.data(), y_.data(), kCount);
  batch.Launch(*axpy_, kConfig, 1.0f, x_.data(), z_.data(), kCount);
  auto plan = batch.Prepare();
  ASSERT_TRUE(plan) << plan.error().message();
  std::vector<float> expected = Values(y_);
  const std::vector<float> x = Values(x_);
  for (int call = 0; call < 5; ++call) {
    const float a = 1.5f * static_cast<float>(call);
    ASSERT_TRUE(plan->Set(launch, 0, a));
    ASSERT_TRUE(plan->Launch());
    for (int i = 0; i < kCount; ++i) {
      expected[i] = std::fma(a, x[i], expected[i]);
    }
  }
  ASSERT_TRUE(stream_->Synchronize());
  EXPECT_EQ(Values(y_), expected);
}

TEST_F(GpuBatchTest, CompilersAndDriversComplaintsAreTold) {
  const auto broken = runtime_->CompileKernel<Axpy>(
      {.source = "extern \"C\" __global__ void axpy(float a) {\n  a = b;\n}",
       .name = "axpy"});
  ASSERT_TRUE(broken);
  Batch batch = stream_->BeginBatch();
  batch.Launch(*broken, kConfig, 1.0f, x_.data(), y_.data(), kCount);
  const Status submitted = batch.Submit();
  ASSERT_FALSE(submitted);
  EXPECT_EQ(submitted.error().code(), Code::kInvalidArgument);
  EXPECT_NE(submitted.error().message().find("kernel.cu(2)"), std::string::npos)
      << submitted.error().message();
  const auto unknown =
      runtime_->CompileKernel<Axpy>({.source = kSource, .name = "axpi"});
  EXPECT_NE(unknown->Wait().error().message().find("no kernel 'axpi'"),
            std::string::npos);
  const auto other = runtime_->CompileKernel<void(float, float*)>(
      {.source = kSource, .name = "axpy"});
  EXPECT_FALSE(other->Wait());
  const auto fewer = runtime_->CompileKernel<void(double*, double*, int)>(
      {.source = kSource, .name = "swap"});
  EXPECT_EQ(fewer->Wait().error().message(),
            "kernel 'swap' takes 2 parameters, not 3");
}

TEST_F(GpuBatchTest, LimitsOfTheDeviceAreChecked) {
  Batch batch = stream_->BeginBatch();
  batch.Launch(*axpy_, {.grid = {1}, .block = {4096}}, 1.0f, x_.data(),
               y_.data(), kCount);
  const Status submitted = batch.Submit();
  ASSERT_FALSE(submitted);
  EXPECT_EQ(submitted.error().message(),
            "launch 0 (kernel 'axpy'): a block of 4096 in direction 0, the "
            "device takes 1024: give more blocks of fewer threads");
}

TEST_F(GpuBatchTest, EventsOrderStreams) {
  const Stream other = *runtime_->CreateStream();
  std::vector<float> expected = Values(y_);
  const std::vector<float> x = Values(x_);
  for (int call = 0; call < 10; ++call) {
    const Stream& stream = call % 2 == 0 ? *stream_ : other;
    const Stream& next = call % 2 == 0 ? other : *stream_;
    Batch batch = stream.BeginBatch();
    for (int i = 0; i < 16; ++i) {
      batch.Launch(*axpy_, kConfig, 0.5f, In(x_), InOut(y_), kCount);
      for (int k = 0; k < kCount; ++k) {
        expected[k] = std::fma(0.5f, x[k], expected[k]);
      }
    }
    ASSERT_TRUE(batch.Submit());
    auto event = stream.Record();
    ASSERT_TRUE(event);
    ASSERT_TRUE(next.Wait(*event));
  }
  ASSERT_TRUE(stream_->Synchronize());
  ASSERT_TRUE(other.Synchronize());
  EXPECT_EQ(Values(y_), expected);
}

TEST_F(GpuBatchTest, KernelsWithoutTypesTakeArgumentsBySize) {
  const auto any = runtime_->AdoptKernel(axpy_->code()->function(), "any");
  ASSERT_TRUE(any) << any.error().message();
  ASSERT_EQ(any->parameters(), 4u);
  EXPECT_EQ(any->size_bytes(0), 4u);
  EXPECT_EQ(any->size_bytes(1), 8u);
  std::vector<float> expected = Values(y_);
  const std::vector<float> x = Values(x_);
  for (int call = 0; call < 4; ++call) {
    const float a = 0.3f * static_cast<float>(call);
    const float* const from = x_.data();
    float* const to = y_.data();
    Batch batch = stream_->BeginBatch();
    for (int i = 0; i < 2; ++i) {
      batch.Launch(*any, kConfig,
                   std::array{Argument(a), Argument(from), Argument(to),
                              Argument(kCount)});
      for (int k = 0; k < kCount; ++k) {
        expected[k] = std::fma(a, x[k], expected[k]);
      }
    }
    const Status submitted = batch.Submit();
    ASSERT_TRUE(submitted) << submitted.error().message();
    stream_->WaitForBuilds();
  }
  EXPECT_EQ(stream_->stats().replayed, 2u);
  EXPECT_EQ(Values(y_), expected);
}

TEST_F(GpuBatchTest, OutOfMemoryIsTold) {
  const auto much = runtime_->Allocate<float>(size_t{1} << 50);
  ASSERT_FALSE(much);
  EXPECT_EQ(much.error().code(), Code::kResourceExhausted);
}

}  // namespace
}  // namespace reprise
