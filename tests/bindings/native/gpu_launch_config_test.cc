// What a launch asks for beside its grid holds on a GPU, by itself and in a
// graph.

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "bindings/native/reprise.h"
#include "tests/bindings/native/gpu_runtime_test.h"

namespace reprise {
namespace {

constexpr char kSource[] = R"(
extern "C" __global__ void rank_in_cluster(unsigned* out) {
  unsigned rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  if (threadIdx.x == 0) out[blockIdx.x] = out[blockIdx.x] * 16 + rank;
}
// Every block sees what all blocks wrote before.
extern "C" __global__ void sum_of_grid(unsigned* arrived, unsigned* out) {
  if (threadIdx.x != 0) return;
  unsigned round = atomicAdd(arrived, 1) / gridDim.x + 1;
  while (*(volatile unsigned*)arrived < round * gridDim.x) {}
  out[blockIdx.x] += *(volatile unsigned*)arrived;
}
extern "C" __global__ void through_shared(const unsigned* in, unsigned* out,
                                          unsigned words) {
  extern __shared__ unsigned kept[];
  for (unsigned i = threadIdx.x; i < words; i += blockDim.x) kept[i] = in[i];
  __syncthreads();
  for (unsigned i = threadIdx.x; i < words; i += blockDim.x) {
    out[i] += kept[words - 1 - i];
  }
}
extern "C" __global__ void step(unsigned* x, unsigned* y, unsigned count) {
  asm volatile("griddepcontrol.launch_dependents;");
  asm volatile("griddepcontrol.wait;" ::: "memory");
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) y[i] = x[count - 1 - i] * 1664525u + y[i] + 1013904223u;
}
)";

class GpuLaunchConfigTest : public GpuRuntimeTest {
 protected:
  void SetUp() override {
    GpuRuntimeTest::SetUp();
    if (!runtime_) return;
    stream_.emplace(*runtime_->CreateStream());
  }

  template <typename Signature>
  Kernel<Signature> Compiled(const std::string& name) {
    auto kernel =
        *runtime_->CompileKernel<Signature>({.source = kSource, .name = name});
    const Status status = kernel.Wait();
    EXPECT_TRUE(status) << status.error().message();
    return kernel;
  }
  Buffer<unsigned> Zeros(size_t count) {
    Buffer<unsigned> buffer = *runtime_->Allocate<unsigned>(count);
    Batch batch = stream_->BeginBatch();
    batch.Fill(Out(buffer), 0u);
    EXPECT_TRUE(batch.Submit());
    return buffer;
  }
  std::vector<unsigned> Values(const Buffer<unsigned>& buffer) {
    std::vector<unsigned> values(buffer.size());
    EXPECT_TRUE(
        stream_->CopyToHost(values.data(), buffer.data(), buffer.size()));
    return values;
  }
  // Four batches, the last two of them graphs.
  template <typename F>
  void SubmitFour(F&& fill) {
    const uint64_t replayed = stream_->stats().replayed;
    for (int call = 0; call < 4; ++call) {
      Batch batch = stream_->BeginBatch();
      fill(batch);
      const Status submitted = batch.Submit();
      ASSERT_TRUE(submitted) << submitted.error().message();
      stream_->WaitForBuilds();
    }
    EXPECT_EQ(stream_->stats().replayed, replayed + 2);
    const Status done = stream_->Synchronize();
    ASSERT_TRUE(done) << done.error().message();
  }

  std::optional<Stream> stream_;
};

TEST_F(GpuLaunchConfigTest, BlocksKnowTheirClusters) {
  const auto kernel = Compiled<void(unsigned*)>("rank_in_cluster");
  const Buffer<unsigned> out = Zeros(16);
  SubmitFour([&](Batch& batch) {
    batch.Launch(kernel, {.grid = {16}, .cluster = {4}}, InOut(out));
    batch.Launch(kernel, {.grid = {16}, .cluster = {8}, .priority = -1},
                 InOut(out));
  });
  const std::vector<unsigned> values = Values(out);
  for (unsigned i = 0; i < 16; ++i) {
    unsigned expected = 0;
    for (int call = 0; call < 4; ++call) {
      expected = expected * 256 + i % 4 * 16 + i % 8;
    }
    EXPECT_EQ(values[i], expected) << i;
  }
}

TEST_F(GpuLaunchConfigTest, CooperativeGridSynchronises) {
  const auto kernel = Compiled<void(unsigned*, unsigned*)>("sum_of_grid");
  const Buffer<unsigned> arrived = Zeros(1);
  constexpr unsigned kBlocks = 64;
  const Buffer<unsigned> out = Zeros(kBlocks);
  SubmitFour([&](Batch& batch) {
    for (int i = 0; i < 2; ++i) {
      batch.Launch(kernel, {.grid = {kBlocks}, .cooperative = true},
                   InOut(arrived), InOut(out));
    }
  });
  EXPECT_EQ(Values(arrived)[0], 8 * kBlocks);
  for (unsigned value : Values(out)) EXPECT_EQ(value, 36 * kBlocks);
}

TEST_F(GpuLaunchConfigTest, TooLargeACooperativeGridIsTold) {
  const auto kernel = Compiled<void(unsigned*, unsigned*)>("sum_of_grid");
  const Buffer<unsigned> arrived = Zeros(1);
  Batch batch = stream_->BeginBatch();
  batch.Launch(kernel,
               {.grid = {1u << 20}, .block = {1024}, .cooperative = true},
               arrived.data(), arrived.data());
  const Status submitted = batch.Submit();
  ASSERT_FALSE(submitted);
  EXPECT_NE(submitted.error().message().find("a cooperative grid of 1048576"),
            std::string::npos)
      << submitted.error().message();
}

TEST_F(GpuLaunchConfigTest, SharedMemoryBeyondThePlainLimit) {
  const auto kernel =
      Compiled<void(const unsigned*, unsigned*, unsigned)>("through_shared");
  constexpr unsigned kWords = 24'000;  // 96,000 bytes
  const Buffer<unsigned> out = Zeros(kWords);
  std::vector<unsigned> values(kWords);
  for (unsigned i = 0; i < kWords; ++i) values[i] = i * 2654435761u;
  const Buffer<unsigned> in = *runtime_->Allocate<unsigned>(kWords);
  ASSERT_TRUE(stream_->CopyToDevice(in.data(), values.data(), kWords));
  SubmitFour([&](Batch& batch) {
    for (int i = 0; i < 2; ++i) {
      batch.Launch(kernel, {.block = {256}, .shared_bytes = 4 * kWords}, In(in),
                   InOut(out), kWords);
    }
  });
  const std::vector<unsigned> got = Values(out);
  for (unsigned i = 0; i < kWords; ++i) {
    ASSERT_EQ(got[i], 8 * values[kWords - 1 - i]) << i;
  }
}

TEST_F(GpuLaunchConfigTest, ProgrammaticLaunchesGiveTheBitsOfPlainOnes) {
  const auto kernel = Compiled<void(unsigned*, unsigned*, unsigned)>("step");
  constexpr unsigned kCount = 1 << 16;
  const auto run = [&](bool programmatic) {
    const Buffer<unsigned> x = Zeros(kCount);
    const Buffer<unsigned> y = Zeros(kCount);
    const LaunchConfig config{
        .grid = {kCount / 256}, .block = {256}, .programmatic = programmatic};
    SubmitFour([&](Batch& batch) {
      for (int i = 0; i < 20; ++i) {
        batch.Launch(kernel, config, InOut(x), InOut(y), kCount);
        batch.Launch(kernel, config, InOut(y), InOut(x), kCount);
      }
    });
    return Values(x);
  };
  EXPECT_EQ(run(true), run(false));
}

}  // namespace
}  // namespace reprise
