// The host comparison against a naive one, on random layouts.

#include "kernels/compare.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <vector>

#include "kernels/strided_layout.h"
#include "tests/kernels/random_layout.h"

namespace reprise::kernels {
namespace {

TEST(CopyOnHostTest, CopiesElementsAndNothingBeside) {
  std::mt19937 random(6);
  for (int round = 0; round < 500; ++round) {
    const Layout layout = RandomLayout(random);
    std::vector<unsigned char> from(SpanBytes(layout) + 8);
    for (unsigned char& byte : from)
      byte = static_cast<unsigned char>(random());
    std::vector<unsigned char> to(from.size());
    for (unsigned char& byte : to) byte = static_cast<unsigned char>(random());
    std::vector<unsigned char> expected = to;
    const std::vector<bool> copied =
        BytesOf(layout, static_cast<int64_t>(from.size()));
    for (size_t i = 0; i < to.size(); ++i) {
      if (copied[i]) expected[i] = from[i];
    }
    CopyOnHost(to.data(), from.data(), layout);
    EXPECT_EQ(to, expected);
  }
}

// One bit flipped anywhere in the span is seen if and only if an element of the
// naive walk holds it.
TEST(EqualOnHostTest, AgreesWithNaiveComparisonOnEveryByte) {
  std::mt19937 random(5);
  for (int round = 0; round < 500; ++round) {
    const Layout layout = RandomLayout(random);
    const int64_t span = SpanBytes(layout) + 8;
    std::vector<unsigned char> left(span);
    for (unsigned char& byte : left)
      byte = static_cast<unsigned char>(random());
    std::vector<unsigned char> right = left;
    EXPECT_TRUE(EqualOnHost(left.data(), right.data(), layout));
    const std::vector<bool> seen = BytesOf(layout, span);
    for (int64_t i = 0; i < span; ++i) {
      right[i] ^= static_cast<unsigned char>(1u << random() % 8);
      EXPECT_EQ(EqualOnHost(left.data(), right.data(), layout), !seen[i]);
      right[i] = left[i];
    }
  }
}

Layout Floats(Element element, uint32_t element_bytes, int64_t count) {
  Layout layout = Strided(element_bytes, {count}, {1});
  layout.element = element;
  return layout;
}

TEST(CloseOnHostTest, AsksForAShareOfTheLargest) {
  const std::vector<float> left = {1.0f, -512.0f, 0.0f, 1e-6f};
  const Layout layout = Floats(Element::kFloat32, 4, 4);
  const float most =
      512 * static_cast<float>(ClosenessOf(Element::kFloat32).share);
  for (size_t i = 0; i < left.size(); ++i) {
    std::vector<float> right = left;
    right[i] += 0.9f * most;
    EXPECT_TRUE(CloseOnHost(left.data(), right.data(), nullptr, layout)) << i;
    EXPECT_FALSE(EqualOnHost(left.data(), right.data(), layout)) << i;
    right[i] += 0.2f * most;
    EXPECT_FALSE(CloseOnHost(left.data(), right.data(), nullptr, layout)) << i;
  }
}

TEST(CloseOnHostTest, WhatIsNoNumberIsCloseToItsLikeOnly) {
  const float infinite = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> values = {infinite, -infinite, nan, 1.0f};
  const Layout one = Floats(Element::kFloat32, 4, 1);
  for (size_t i = 0; i < values.size(); ++i) {
    for (size_t j = 0; j < values.size(); ++j) {
      EXPECT_EQ(CloseOnHost(&values[i], &values[j], nullptr, one), i == j);
    }
  }
  // Beside others, too: they are no largest element.
  const std::vector<float> left = {infinite, 1.0f};
  const std::vector<float> right = {infinite, 2.0f};
  EXPECT_FALSE(CloseOnHost(left.data(), right.data(), nullptr,
                           Floats(Element::kFloat32, 4, 2)));
}

TEST(CloseOnHostTest, ReadsEachType) {
  const uint16_t halves[] = {0x3c00, 0x3c01, 0x3c08};   // 1, 1 + 2^-10, ^-7
  const uint16_t bfloats[] = {0x3f80, 0x3f81, 0x3f84};  // 1, 1 + 2^-7, ^-5
  const double doubles[] = {1.0, 1.0 + 0x1p-40, 1.0 + 0x1p-30};
  const auto expect = [](const auto* values, const Layout& layout) {
    EXPECT_TRUE(CloseOnHost(&values[0], &values[1], nullptr, layout));
    EXPECT_FALSE(CloseOnHost(&values[0], &values[2], nullptr, layout));
  };
  expect(halves, Floats(Element::kFloat16, 2, 1));
  expect(bfloats, Floats(Element::kBFloat16, 2, 1));
  expect(doubles, Floats(Element::kFloat64, 8, 1));
  // Bits are equal or not.
  EXPECT_FALSE(CloseOnHost(&doubles[0], &doubles[1], nullptr,
                           Floats(Element::kBits, 8, 1)));
}

// Bits, not values: two zeros and two NaNs may differ.
TEST(EqualOnHostTest, ComparesBitsNotValues) {
  const float zero = 0.0f;
  const float negative_zero = -0.0f;
  EXPECT_FALSE(EqualOnHost(&zero, &negative_zero, Strided(4, {}, {})));
  const uint32_t nan = 0x7fc0'0000;
  const uint32_t same_nan = 0x7fc0'0000;
  EXPECT_TRUE(EqualOnHost(&nan, &same_nan, Strided(4, {1}, {1})));
}

TEST(EqualOnHostTest, NoElementsAreEqualAndNotRead) {
  EXPECT_TRUE(EqualOnHost(nullptr, nullptr, Strided(4, {3, 0}, {1, 1})));
}

TEST(EqualOnHostTest, WalksBackwardsToo) {
  const int left[] = {1, 2, 3, 4};
  int right[] = {1, 2, 3, 4};
  const Layout layout = Strided(4, {2}, {-2});
  EXPECT_TRUE(EqualOnHost(left + 3, right + 3, layout));
  right[2] = 9;
  EXPECT_TRUE(EqualOnHost(left + 3, right + 3, layout));
  right[1] = 9;
  EXPECT_FALSE(EqualOnHost(left + 3, right + 3, layout));
}

}  // namespace
}  // namespace reprise::kernels
