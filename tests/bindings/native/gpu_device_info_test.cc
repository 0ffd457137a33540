// What a GPU says of itself and of kernels, and streams of a priority on it.

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

constexpr char kSource[] = R"(
extern "C" __global__ void plain(int* to) { *to = 1; }
extern "C" __global__ void __launch_bounds__(96) bounded(int* to) { *to = 1; }
)";
using Set = void(int*);

class GpuDeviceInfoTest : public GpuRuntimeTest {
 protected:
  Kernel<Set> Compiled(const char* name) {
    auto kernel =
        *runtime_->CompileKernel<Set>({.source = kSource, .name = name});
    const Status compiled = kernel.Wait();
    EXPECT_TRUE(compiled) << compiled.error().message();
    return kernel;
  }
};

TEST_F(GpuDeviceInfoTest, DevicesAreListed) {
  const auto devices = Runtime::Devices();
  ASSERT_TRUE(devices) << devices.error().message();
  ASSERT_EQ(static_cast<int>(devices->size()), device::CountDevices().devices);
  const DeviceInfo info = *runtime_->device();
  EXPECT_EQ(info.number, 0);
  EXPECT_EQ(info.name, devices->front().name);
  EXPECT_EQ(info.memory_bytes, devices->front().memory_bytes);
  EXPECT_FALSE(info.name.empty());
  EXPECT_GE(info.compute_major, 5);
  EXPECT_GT(info.memory_bytes, uint64_t{1} << 30);
  EXPECT_GE(info.multiprocessors, 1);
  EXPECT_GE(info.threads_per_block, 1024);
  EXPECT_GE(info.threads_per_multiprocessor, info.threads_per_block);
  EXPECT_GE(info.shared_bytes_per_block, 48 << 10);
  EXPECT_GE(info.shared_bytes_per_multiprocessor, info.shared_bytes_per_block);
}

TEST_F(GpuDeviceInfoTest, KernelsAreCounted) {
  const DeviceInfo info = *runtime_->device();
  const Kernel<Set> plain = Compiled("plain");
  const auto blocks =
      runtime_->BlocksPerMultiprocessor(plain, {.block = {256}});
  ASSERT_TRUE(blocks) << blocks.error().message();
  EXPECT_EQ(static_cast<int>(*blocks), info.threads_per_multiprocessor / 256);
  // All shared memory is one block's.
  const auto one = runtime_->BlocksPerMultiprocessor(
      plain,
      {.block = {32},
       .shared_bytes = static_cast<uint32_t>(info.shared_bytes_per_block)});
  ASSERT_TRUE(one) << one.error().message();
  EXPECT_EQ(*one, 1u);
  const auto block = runtime_->SuggestBlock(plain);
  ASSERT_TRUE(block) << block.error().message();
  EXPECT_EQ(static_cast<int>(block->threads * block->blocks_per_multiprocessor),
            info.threads_per_multiprocessor);
  EXPECT_EQ(block->blocks, block->blocks_per_multiprocessor *
                               static_cast<uint32_t>(info.multiprocessors));

  const Kernel<Set> bounded = Compiled("bounded");
  const SuggestedBlock best = *runtime_->SuggestBlock(bounded);
  EXPECT_LE(best.threads, 96u);
  for (const uint32_t threads : {32u, 64u, 96u}) {
    const auto running =
        runtime_->BlocksPerMultiprocessor(bounded, {.block = {threads}});
    ASSERT_TRUE(running) << running.error().message();
    EXPECT_LE(threads * *running, best.threads * best.blocks_per_multiprocessor)
        << threads;
  }
}

TEST_F(GpuDeviceInfoTest, StreamsHaveTheirPriority) {
  const PriorityRange range = runtime_->priorities();
  ASSERT_LT(range.greatest, range.least);
  for (const int32_t priority : {range.least, range.greatest}) {
    const Stream stream = *runtime_->CreateStream(priority);
    const Buffer<int> to = *runtime_->Allocate<int>(1);
    Batch batch = stream.BeginBatch();
    batch.Fill(Out(to), 7);
    ASSERT_TRUE(batch.Submit());
    EXPECT_EQ((*stream.Download(to.span())->Wait())[0], 7);
  }
  const auto refused = runtime_->CreateStream(range.greatest - 1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace reprise
