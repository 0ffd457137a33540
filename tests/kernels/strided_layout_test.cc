// Counts and spans of layouts against a naive walk over the elements.

#include "kernels/strided_layout.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

#include "tests/kernels/random_layout.h"

namespace reprise::kernels {
namespace {

TEST(LayoutTest, SpanReachesFromTheFirstElementBehindTheLast) {
  std::mt19937 random(7);
  for (int round = 0; round < 500; ++round) {
    const Layout layout = RandomLayout(random);
    EXPECT_EQ(layout.span_bytes(), SpanBytes(layout));
  }
}

TEST(LayoutTest, CountsElementsThatShareTheirBytesToo) {
  EXPECT_EQ(Strided(4, {}, {}).elements(), 1);
  EXPECT_EQ(Strided(4, {2, 3}, {3, 1}).elements(), 6);
  EXPECT_EQ(Strided(4, {2, 3}, {0, 1}).elements(), 6);
  EXPECT_EQ(Strided(4, {2, 0}, {3, 1}).elements(), 0);
}

TEST(MakeLayoutTest, KeepsAllThatItIsTold) {
  const std::vector<int64_t> sizes = {2, 3};
  const std::vector<int64_t> strides = {5, 1};
  const Layout layout = MakeLayout(sizes, strides, 2, Element::kBFloat16);
  EXPECT_EQ(layout.rank, 2);
  EXPECT_EQ(layout.element_bytes, 2u);
  EXPECT_EQ(layout.element, Element::kBFloat16);
  EXPECT_EQ(layout.sizes[1], 3);
  EXPECT_EQ(layout.strides[0], 5);
}

}  // namespace
}  // namespace reprise::kernels
