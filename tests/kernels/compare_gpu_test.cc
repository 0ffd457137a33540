// The device comparison against its host twin.

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <random>

#include "kernels/compare.h"
#include "kernels/strided_layout.h"
#include "tests/engine/device/gpu_test.h"
#include "tests/kernels/random_layout.h"

namespace reprise::kernels {
namespace {

using device::Buffer;

class DeviceCompareGpuTest : public device::GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    auto compare = DeviceCompare::Create(driver(), device());
    ASSERT_TRUE(compare) << compare.error().message();
    compare_ = *std::move(compare);
    flag_ = std::make_unique<Buffer>(driver(), 2 * sizeof(uint32_t));
  }

  // The flag after comparing with `tag`, from `flag` before. The word beside it
  // must stay as it was.
  uint32_t Compare(CUdeviceptr left, CUdeviceptr right, const Layout& layout,
                   uint32_t tag, uint32_t flag = 0) {
    flag_->Upload<uint32_t>({flag, 0x5555'aaaa});
    const base::Status enqueued =
        compare_->Enqueue(left, right, layout, flag_->address(), tag, stream());
    EXPECT_TRUE(enqueued) << enqueued.error().message();
    Synchronize();
    const std::vector<uint32_t> words = flag_->Download<uint32_t>();
    EXPECT_EQ(words[1], 0x5555'aaaa);
    return words[0];
  }

  void FlipBit(const Buffer& buffer, int64_t byte, int bit) {
    uint8_t value = 0;
    EXPECT_EQ(
        driver().cuMemcpyDtoHAsync(&value, buffer.address() + byte, 1, nullptr),
        CUDA_SUCCESS);
    EXPECT_EQ(driver().cuStreamSynchronize(nullptr), CUDA_SUCCESS);
    value ^= static_cast<uint8_t>(1u << bit);
    EXPECT_EQ(
        driver().cuMemcpyHtoDAsync(buffer.address() + byte, &value, 1, nullptr),
        CUDA_SUCCESS);
    EXPECT_EQ(driver().cuStreamSynchronize(nullptr), CUDA_SUCCESS);
  }

  std::unique_ptr<DeviceCompare> compare_;
  std::unique_ptr<Buffer> flag_;
};

std::vector<uint8_t> RandomBytes(size_t count, std::mt19937& random) {
  std::vector<uint8_t> bytes(count);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  return bytes;
}

Layout Dense(int64_t count, uint32_t element_bytes) {
  const int64_t sizes[] = {count};
  const int64_t strides[] = {1};
  return MakeLayout(sizes, strides, element_bytes);
}

// One flipped bit anywhere in the span raises the flag exactly where the host
// sees a difference, for random layouts at random alignments.
TEST_F(DeviceCompareGpuTest, SeesOneBitExactlyWhereTheHostDoes) {
  std::mt19937 random(11);
  for (int round = 0; round < 300; ++round) {
    const Layout layout = RandomLayout(random, 9);
    const int64_t span = SpanBytes(layout) + 8;
    const int64_t left_shift = Below(random, 17) * layout.element_bytes;
    const int64_t right_shift = Below(random, 17) * layout.element_bytes;
    const std::vector<uint8_t> bytes = RandomBytes(span, random);
    const auto shifted = [](int64_t shift, const std::vector<uint8_t>& from) {
      std::vector<uint8_t> moved(shift);
      moved.insert(moved.end(), from.begin(), from.end());
      return moved;
    };
    Buffer left(driver(), left_shift + span);
    Buffer right(driver(), right_shift + span);
    left.Upload(shifted(left_shift, bytes));
    right.Upload(shifted(right_shift, bytes));
    const CUdeviceptr left_at = left.address() + left_shift;
    const CUdeviceptr right_at = right.address() + right_shift;
    EXPECT_EQ(Compare(left_at, right_at, layout, 6), 0u);
    for (int flip = 0; flip < 8; ++flip) {
      const int64_t byte = Below(random, span);
      const int bit = static_cast<int>(Below(random, 8));
      std::vector<uint8_t> changed = bytes;
      changed[byte] ^= static_cast<uint8_t>(1u << bit);
      right.Upload(shifted(right_shift, changed));
      const bool equal = EqualOnHost(bytes.data(), changed.data(), layout);
      EXPECT_EQ(Compare(left_at, right_at, layout, 6), equal ? 0u : 7u)
          << "round " << round << " byte " << byte;
    }
  }
}

TEST_F(DeviceCompareGpuTest, CopiesWhatTheHostDoes) {
  std::mt19937 random(14);
  const int64_t sizes[] = {1000, 500};
  const int64_t strides[] = {1003, 2};
  for (int round = 0; round < 300; ++round) {
    const Layout layout =
        round == 0 ? MakeLayout(sizes, strides, 2) : RandomLayout(random, 9);
    const int64_t span = layout.span_bytes() + 8;
    const int64_t to_shift = Below(random, 17) * layout.element_bytes;
    const int64_t from_shift = Below(random, 17) * layout.element_bytes;
    const std::vector<uint8_t> from = RandomBytes(from_shift + span, random);
    std::vector<uint8_t> to = RandomBytes(to_shift + span, random);
    Buffer device_from(driver(), from.size());
    Buffer device_to(driver(), to.size());
    device_from.Upload(from);
    device_to.Upload(to);
    const base::Status copied =
        compare_->Copy(device_to.address() + to_shift,
                       device_from.address() + from_shift, layout, stream());
    ASSERT_TRUE(copied) << copied.error().message();
    Synchronize();
    CopyOnHost(to.data() + to_shift, from.data() + from_shift, layout);
    EXPECT_EQ(device_to.Download<uint8_t>(), to) << "round " << round;
  }
}

// More elements than threads, and a tail after the last whole vector.
// Of all sizes and alignments, more than one launch takes, and no byte beside.
TEST_F(DeviceCompareGpuTest, CopiesManyRangesAtOnce) {
  std::mt19937 random(15);
  constexpr int64_t kBytes = int64_t{1} << 20;
  const std::vector<uint8_t> from = RandomBytes(kBytes, random);
  std::vector<uint8_t> expected = RandomBytes(kBytes, random);
  Buffer source(driver(), kBytes);
  Buffer target(driver(), kBytes);
  source.Upload(from);
  target.Upload(expected);
  std::vector<RangeCopy> copies;
  for (int64_t at = 0; at + 9000 < kBytes;) {
    const int64_t unit = int64_t{1} << Below(random, 5);
    at = (at + unit - 1) / unit * unit;
    const int64_t bytes =
        Below(random, 4) == 0 ? Below(random, 9000) : Below(random, 40) * unit;
    const int64_t take = Below(random, (kBytes - bytes) / unit) * unit;
    copies.push_back({target.address() + at, source.address() + take,
                      static_cast<uint64_t>(bytes)});
    std::copy_n(from.begin() + take, bytes, expected.begin() + at);
    at += bytes + Below(random, 3);
  }
  ASSERT_GT(copies.size(), 500u);
  ASSERT_TRUE(compare_->CopyAll(copies, stream()));
  ASSERT_TRUE(compare_->CopyAll({}, stream()));
  Synchronize();
  EXPECT_EQ(target.Download<uint8_t>(), expected);
}

TEST_F(DeviceCompareGpuTest, SeesOneBitInALargeDenseTensor) {
  std::mt19937 random(12);
  const int64_t count = (32 << 20) + 13;
  const std::vector<uint8_t> bytes = RandomBytes(count, random);
  Buffer left(driver(), count);
  Buffer right(driver(), count);
  left.Upload(bytes);
  right.Upload(bytes);
  const Layout layout = Dense(count, 1);
  EXPECT_EQ(Compare(left.address(), right.address(), layout, 0), 0u);
  for (int round = 0; round < 40; ++round) {
    const int64_t byte = round == 0   ? 0
                         : round == 1 ? count - 1
                         : round == 2 ? count - 13
                         : round == 3 ? count - 14
                                      : Below(random, count);
    const int bit = static_cast<int>(Below(random, 8));
    FlipBit(right, byte, bit);
    EXPECT_EQ(Compare(left.address(), right.address(), layout, 0), 1u) << byte;
    FlipBit(right, byte, bit);
  }
  EXPECT_EQ(Compare(left.address(), right.address(), layout, 0), 0u);
}

// The same away from vector alignment, and with rows that have gaps.
TEST_F(DeviceCompareGpuTest, SeesOneBitInALargeStridedTensor) {
  std::mt19937 random(13);
  const int64_t bytes_count = 8 << 20;
  const std::vector<uint8_t> bytes = RandomBytes(bytes_count, random);
  Buffer left(driver(), bytes_count);
  Buffer right(driver(), bytes_count);
  left.Upload(bytes);
  right.Upload(bytes);
  const int64_t sizes[] = {1000, 500};
  const int64_t strides[] = {1003, 2};
  for (const Layout& layout :
       {Dense(1'000'001, 4), MakeLayout(sizes, strides, 2)}) {
    const int64_t shift = layout.element_bytes;
    const std::vector<int64_t> offsets = ElementOffsets(layout);
    EXPECT_EQ(
        Compare(left.address() + shift, right.address() + shift, layout, 0),
        0u);
    for (int round = 0; round < 20; ++round) {
      const int64_t byte = shift + offsets[random() % offsets.size()] +
                           Below(random, layout.element_bytes);
      FlipBit(right, byte, round % 8);
      EXPECT_EQ(
          Compare(left.address() + shift, right.address() + shift, layout, 0),
          1u);
      FlipBit(right, byte, round % 8);
    }
  }
}

// Numbers a little apart, or a little further: of each type, in all layouts.
TEST_F(DeviceCompareGpuTest, FindsCloseWhatTheHostDoes) {
  std::mt19937 random(15);
  int close = 0;
  int far = 0;
  for (int round = 0; round < 400; ++round) {
    Layout layout = RandomLayout(random, 9);
    layout.element = std::array{
        Element::kBits, Element::kFloat16, Element::kFloat32, Element::kFloat64,
        Element::kBits}[std::countr_zero(layout.element_bytes)];
    if (layout.element_bytes == 2 && round % 2 == 0) {
      layout.element = Element::kBFloat16;
    }
    const int64_t span = layout.span_bytes();
    if (span == 0) continue;
    const std::vector<uint8_t> bytes = RandomBytes(span, random);
    // Any bits, and numbers of which one bit among the low ones differs.
    std::vector<uint8_t> changed = bytes;
    const std::vector<int64_t> offsets = ElementOffsets(layout);
    const int64_t at = offsets[random() % offsets.size()];
    const int64_t bits = 8 * int64_t{layout.element_bytes};
    const int64_t bit = Below(random, bits);
    changed[at + bit / 8] ^= static_cast<uint8_t>(1u << bit % 8);
    // Another run, which tells how far apart they may be.
    std::vector<uint8_t> nearby = changed;
    const int64_t other_bit = Below(random, bits);
    nearby[at + other_bit / 8] ^= static_cast<uint8_t>(1u << other_bit % 8);
    Buffer left(driver(), span);
    Buffer right(driver(), span);
    Buffer other(driver(), span);
    left.Upload(bytes);
    right.Upload(changed);
    other.Upload(nearby);
    flag_->Upload<uint32_t>({0, 0x5555'aaaa});
    const base::Status enqueued = compare_->EnqueueClose(
        left.address(), right.address(), round % 3 == 0 ? 0 : other.address(),
        layout, flag_->address(), 8, stream());
    ASSERT_TRUE(enqueued) << enqueued.error().message();
    Synchronize();
    const bool expected =
        CloseOnHost(bytes.data(), changed.data(),
                    round % 3 == 0 ? nullptr : nearby.data(), layout);
    ++(expected ? close : far);
    EXPECT_EQ(flag_->Download<uint32_t>()[0], expected ? 0u : 9u)
        << "round " << round << " bit " << bit;
  }
  EXPECT_GT(close, 20);
  EXPECT_GT(far, 20);
}

TEST_F(DeviceCompareGpuTest, FirstDifferenceWins) {
  Buffer left(driver(), 64);
  Buffer right(driver(), 64);
  left.Upload(std::vector<uint8_t>(64, 1));
  right.Upload(std::vector<uint8_t>(64, 2));
  EXPECT_EQ(Compare(left.address(), right.address(), Dense(64, 1), 41), 42u);
  EXPECT_EQ(Compare(left.address(), right.address(), Dense(64, 1), 41, 9), 9u);
}

TEST_F(DeviceCompareGpuTest, NothingToCompareIsEqual) {
  EXPECT_EQ(Compare(0, 0, Dense(0, 4), 1), 0u);
}

}  // namespace
}  // namespace reprise::kernels
