// Every encoding gives what a cast gives, and numbers by which ops choose have
// no marker.

#include "engine/trace/scalar.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <limits>
#include <optional>

namespace reprise::engine {
namespace {

std::optional<uint64_t> Of(Encoding encoding, double value) {
  return Encode(encoding, NumberType::kFloat64, std::bit_cast<uint64_t>(value));
}

std::optional<uint64_t> OfInt(Encoding encoding, int64_t value) {
  return Encode(encoding, NumberType::kInt64, static_cast<uint64_t>(value));
}

std::optional<uint64_t> MarkerOf(double value) {
  return Marker({0, NumberType::kFloat64, std::bit_cast<uint64_t>(value)});
}

TEST(ScalarTest, NumbersByWhichOpsChooseHaveNoMarker) {
  for (double value : {0.0, -0.0, 0.5, 1.0, 2.0, 3.0}) {
    EXPECT_FALSE(MarkerOf(value)) << value;
    EXPECT_FALSE(MarkerOf(-value)) << value;
  }
  EXPECT_FALSE(MarkerOf(std::numeric_limits<double>::infinity()));
  EXPECT_FALSE(MarkerOf(std::numeric_limits<double>::quiet_NaN()));
  EXPECT_TRUE(MarkerOf(0.3));
  EXPECT_EQ(MarkerOf(0.3), MarkerOf(1e-300));
  EXPECT_NE(MarkerOf(0.3), MarkerOf(-0.3));
  EXPECT_FALSE(Marker({0, NumberType::kInt64, 3}));
  EXPECT_TRUE(Marker({0, NumberType::kInt64, 4}));
  EXPECT_EQ(Marker({0, NumberType::kInt32, 0xffff'fff0}), MarkerOf(-16));
  EXPECT_FALSE(Marker({0, NumberType::kFloat16, 0x3c00}));   // 1
  EXPECT_FALSE(Marker({0, NumberType::kBFloat16, 0x3f80}));  // 1
}

// Ops refuse what a dtype cannot hold.
TEST(ScalarTest, NumbersThatSomeDtypeCannotHoldHaveOtherMarkers) {
  EXPECT_EQ(MarkerOf(65504), MarkerOf(0.3));
  EXPECT_NE(MarkerOf(65504.5), MarkerOf(0.3));
  EXPECT_EQ(MarkerOf(65504.5), MarkerOf(1e9));
  EXPECT_NE(MarkerOf(-1e9), MarkerOf(1e9));
  EXPECT_NE(MarkerOf(-1e9), MarkerOf(-0.3));
  EXPECT_FALSE(MarkerOf(0x1p31));
  EXPECT_FALSE(MarkerOf(-0x1p31));
  EXPECT_FALSE(MarkerOf(1e300));
  EXPECT_FALSE(Marker({0, NumberType::kInt64, uint64_t{1} << 31}));
  // The markers themselves are no numbers that have one.
  for (double value : {0.3, -0.3, 1e9, -1e9}) {
    EXPECT_FALSE(Marker({0, NumberType::kFloat64, *MarkerOf(value)}));
    EXPECT_FALSE(Marker({0, NumberType::kInt64, *MarkerOf(value)}));
  }
}

TEST(ScalarTest, NoSeedOrOffsetIsSpecial) {
  constexpr Decides kAny = Decides::kNothingAtAll;
  const auto marker = [](uint64_t bits) {
    return Marker({0, NumberType::kInt64, bits, kAny});
  };
  for (uint64_t bits : {uint64_t{0}, uint64_t{3}, uint64_t{65505},
                        uint64_t{1} << 31, uint64_t{1} << 63, ~uint64_t{0}}) {
    ASSERT_TRUE(marker(bits)) << bits;
    EXPECT_EQ(marker(bits), marker(40)) << bits;
    EXPECT_EQ(Encode(Encoding::kInt64, NumberType::kInt64, bits, kAny), bits);
    // It stands in kernels as it is.
    for (uint32_t width : {2, 4, 8}) {
      for (Encoding encoding : EncodingsOf(width)) {
        if (encoding == Encoding::kInt64) continue;
        EXPECT_FALSE(Encode(encoding, NumberType::kInt64, bits, kAny));
      }
    }
  }
  EXPECT_NE(marker(40), Marker({0, NumberType::kInt64, 40}));
}

TEST(ScalarTest, WideEncodingsAreCasts) {
  EXPECT_EQ(Of(Encoding::kFloat64, 0.3), std::bit_cast<uint64_t>(0.3));
  EXPECT_EQ(Of(Encoding::kNegativeFloat64, 0.3), std::bit_cast<uint64_t>(-0.3));
  EXPECT_EQ(Of(Encoding::kInverseFloat64, 0.3),
            std::bit_cast<uint64_t>(1 / 0.3));
  EXPECT_EQ(Of(Encoding::kFloat32, 0.3), std::bit_cast<uint32_t>(0.3f));
  EXPECT_EQ(Of(Encoding::kInverseFloat32, 0.3),
            std::bit_cast<uint32_t>(1.0f / 0.3f));
  EXPECT_EQ(Of(Encoding::kInverseRounded, 0.3),
            std::bit_cast<uint32_t>(static_cast<float>(1.0 / 0.3)));
  EXPECT_EQ(OfInt(Encoding::kInt64, -7), static_cast<uint64_t>(-7));
  EXPECT_EQ(OfInt(Encoding::kNegativeInt32, 7), uint64_t{0xfffffff9});
  EXPECT_EQ(Of(Encoding::kInt32, 7.9), uint64_t{7});
  EXPECT_EQ(Of(Encoding::kFloat32Wide, 0.3),
            std::bit_cast<uint64_t>(double{0.3f}));
  EXPECT_EQ(Of(Encoding::kFloat16Wide, 2051), std::bit_cast<uint32_t>(2052.0f));
  // Rounded once, not by way of a double.
  constexpr int64_t kLong = (int64_t{1} << 60) + (int64_t{1} << 36) + 1;
  EXPECT_EQ(OfInt(Encoding::kFloat32, kLong),
            std::bit_cast<uint32_t>(static_cast<float>(kLong)));
}

TEST(ScalarTest, WhatIsOutOfRangeHasNoEncoding) {
  EXPECT_FALSE(OfInt(Encoding::kInt32, int64_t{1} << 31));
  EXPECT_FALSE(Of(Encoding::kInt64, 1e19));
  EXPECT_FALSE(Of(Encoding::kFloat32, 1e39));
  EXPECT_FALSE(Of(Encoding::kFloat32, 1e-60));
  EXPECT_FALSE(Of(Encoding::kFloat16, 65520));
  EXPECT_EQ(Of(Encoding::kFloat16, 65519), uint64_t{0x7bff});
  // Ops may choose by the rounded number.
  EXPECT_FALSE(Of(Encoding::kFloat16, 2.0001));
  EXPECT_FALSE(Of(Encoding::kBFloat16, 2.003));
  EXPECT_FALSE(Of(Encoding::kInt32, 3.7));
}

TEST(ScalarTest, HalvesRoundToTheNearestAndToEvenBetweenTwo) {
  EXPECT_EQ(Of(Encoding::kFloat16, 1.5), uint64_t{0x3e00});
  EXPECT_EQ(Of(Encoding::kFloat16, -1.5), uint64_t{0xbe00});
  EXPECT_EQ(Of(Encoding::kFloat16, 2049), Of(Encoding::kFloat16, 2048));
  EXPECT_EQ(Of(Encoding::kFloat16, 2051), Of(Encoding::kFloat16, 2052));
  EXPECT_EQ(Of(Encoding::kFloat16, 0x1p-24), uint64_t{1});
  EXPECT_EQ(Of(Encoding::kFloat16, 0x1.8p-24), uint64_t{2});
  EXPECT_EQ(Of(Encoding::kFloat16, 0x1p-14), uint64_t{0x0400});
  EXPECT_EQ(Of(Encoding::kFloat16, 0x1.ffep-15 + 0x1p-26), uint64_t{0x0400});
  EXPECT_EQ(Of(Encoding::kBFloat16, 257), Of(Encoding::kBFloat16, 256));
  EXPECT_EQ(Of(Encoding::kBFloat16, 259), Of(Encoding::kBFloat16, 260));
  EXPECT_EQ(Of(Encoding::kBFloat16High, 1.5), uint64_t{0x3fc0'0000});
}

// Whatever a half holds comes back from it.
TEST(ScalarTest, EveryHalfIsEncodedAsItself) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    if (Marker({0, NumberType::kFloat16, bits})) {
      ASSERT_EQ(Encode(Encoding::kFloat16, NumberType::kFloat16, bits), bits);
    }
    if (Marker({0, NumberType::kBFloat16, bits})) {
      ASSERT_EQ(Encode(Encoding::kBFloat16, NumberType::kBFloat16, bits), bits);
    }
  }
}

}  // namespace
}  // namespace reprise::engine
