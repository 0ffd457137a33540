// Copies that nobody waits for, and events that the host asks, on a GPU.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "bindings/native/reprise.h"
#include "bindings/native/staging.h"
#include "tests/bindings/native/gpu_runtime_test.h"

namespace reprise {
namespace {

using std::chrono::nanoseconds;

constexpr char kSource[] = R"(
extern "C" __global__ void wait_for(const volatile unsigned* flag,
                                    unsigned value) {
  while (*flag != value) {}
}
extern "C" __global__ void spin(unsigned nanoseconds) {
  unsigned long long begin, now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
  do {
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  } while (now - begin < nanoseconds);
}
)";

std::vector<unsigned> Random(size_t count) {
  std::mt19937 random(std::random_device{}());
  std::vector<unsigned> values(count);
  std::generate(values.begin(), values.end(), std::ref(random));
  return values;
}

class GpuCopiesTest : public GpuRuntimeTest {
 protected:
  void SetUp() override {
    GpuRuntimeTest::SetUp();
    if (!runtime_) return;
    stream_.emplace(*runtime_->CreateStream());
    wait_for_.emplace(*runtime_->CompileKernel<void(const unsigned*, unsigned)>(
        {.source = kSource, .name = "wait_for"}));
    spin_.emplace(*runtime_->CompileKernel<void(unsigned)>(
        {.source = kSource, .name = "spin"}));
    const Status compiled = spin_->Wait();
    ASSERT_TRUE(compiled) << compiled.error().message();
    ASSERT_TRUE(wait_for_->Wait());
  }

  std::optional<Stream> stream_;
  std::optional<Kernel<void(const unsigned*, unsigned)>> wait_for_;
  std::optional<Kernel<void(unsigned)>> spin_;
};

TEST_F(GpuCopiesTest, ValuesGoThereAndBack) {
  for (const size_t count :
       {size_t{1}, size_t{1000}, native::Staging::kPieceBytes / 4,
        native::Staging::kPieceBytes + 1, native::Staging::kKeptBytes / 2}) {
    std::vector<unsigned> values = Random(count);
    const std::vector<unsigned> expected = values;
    auto buffer = stream_->Upload(values);
    ASSERT_TRUE(buffer) << buffer.error().message();
    std::fill(values.begin(), values.end(), 0u);
    auto copy = stream_->Download(buffer->span());
    ASSERT_TRUE(copy) << copy.error().message();
    // Another stream's work behind the copy is not in it.
    const Stream other = *runtime_->CreateStream();
    ASSERT_TRUE(other.Wait(*stream_->Record()));
    Batch batch = other.BeginBatch();
    batch.Fill(Out(*buffer), 7u);
    ASSERT_TRUE(batch.Submit());
    ASSERT_TRUE(other.Synchronize());
    const auto there = copy->Wait();
    ASSERT_TRUE(there) << there.error().message();
    EXPECT_TRUE(std::ranges::equal(*there, expected)) << count;
    ASSERT_TRUE(stream_->CopyToDevice(buffer->span(), expected));
    ASSERT_TRUE(stream_->CopyToHost(values, *buffer));
    EXPECT_EQ(values, expected) << count;
  }
}

// The device waits for the host, so the host must not wait for the device.
TEST_F(GpuCopiesTest, NobodyWaitsForTheDevice) {
  const Stream other = *runtime_->CreateStream();
  const Buffer<unsigned> flag = *runtime_->Allocate<unsigned>(1);
  const auto set_flag = [&](unsigned value) {
    Batch batch = other.BeginBatch();
    batch.Fill(Out(flag), value);
    return batch.Submit();
  };
  const std::vector<unsigned> first = Random(1000);
  // Once without waiting, so that pinned memory and code are there.
  Buffer<unsigned> buffer = *stream_->Upload(first);
  ASSERT_TRUE(stream_->Download(buffer.span())->Wait());
  ASSERT_TRUE(set_flag(0));
  ASSERT_TRUE(other.Synchronize());

  for (unsigned turn = 1; turn < 4; ++turn) {
    std::vector<unsigned> values = Random(1000);
    const std::vector<unsigned> expected = values;
    Batch batch = stream_->BeginBatch();
    batch.Launch(*wait_for_, {}, static_cast<const unsigned*>(flag.data()),
                 turn);
    ASSERT_TRUE(batch.Submit());
    ASSERT_TRUE(stream_->CopyToDevice(buffer.span(), values));
    std::fill(values.begin(), values.end(), 0u);
    auto copy = stream_->Download(buffer.span());
    const Event event = *stream_->Record();
    EXPECT_FALSE(*event.Passed());
    ASSERT_TRUE(copy) << copy.error().message();
    EXPECT_FALSE(*copy->Arrived());
    ASSERT_TRUE(set_flag(turn));
    ASSERT_TRUE(event.Synchronize());
    EXPECT_TRUE(*event.Passed());
    EXPECT_TRUE(*copy->Arrived());
    EXPECT_TRUE(std::ranges::equal(*copy->Wait(), expected));
  }
}

TEST_F(GpuCopiesTest, MoreThanIsKeptWaitsForEarlierCopies) {
  constexpr size_t kCount = native::Staging::kKeptBytes / 2;  // twice as much
  const std::vector<unsigned> values = Random(kCount);
  auto buffer = stream_->Upload(values);
  ASSERT_TRUE(buffer) << buffer.error().message();
  std::vector<unsigned> back(kCount);
  ASSERT_TRUE(stream_->CopyToHost(back, buffer->span()));
  EXPECT_EQ(back, values);
}

TEST_F(GpuCopiesTest, EventsTellTheTimeBetweenThem) {
  constexpr unsigned kSpin = 3'000'000;
  const auto spin = [&](Batch& batch, Result<Event>& begin,
                        Result<Event>& end) {
    begin = batch.Record(Timing::kTimed);
    for (int i = 0; i < 2; ++i) batch.Launch(*spin_, {}, kSpin);
    end = batch.Record(Timing::kTimed);
  };
  for (int call = 0; call < 4; ++call) {  // by itself and in a graph
    const Event before = *stream_->Record(Timing::kTimed);
    Batch batch = stream_->BeginBatch();
    Result<Event> begin = before;
    Result<Event> end = before;
    spin(batch, begin, end);
    ASSERT_TRUE(begin && end);
    ASSERT_TRUE(batch.Submit());
    const Event after = *stream_->Record(Timing::kTimed);
    EXPECT_FALSE(after.Since(before));  // it has not passed
    ASSERT_TRUE(after.Synchronize());
    const auto within = end->Since(*begin);
    const auto around = after.Since(before);
    ASSERT_TRUE(within) << within.error().message();
    ASSERT_TRUE(around) << around.error().message();
    // Two spins by the device's timer, which may tick once a millisecond.
    EXPECT_GE(*within, nanoseconds(kSpin));
    EXPECT_LE(*within, *around + std::chrono::microseconds(2));
    EXPECT_LT(*begin->Since(*end), nanoseconds(0));
    stream_->WaitForBuilds();
  }
  EXPECT_EQ(stream_->stats().replayed, 2u);
}

}  // namespace
}  // namespace reprise
