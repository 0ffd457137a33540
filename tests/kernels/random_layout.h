// Layouts for tests of comparisons.

#ifndef REPRISE_TESTS_KERNELS_RANDOM_LAYOUT_H_
#define REPRISE_TESTS_KERNELS_RANDOM_LAYOUT_H_

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "kernels/strided_layout.h"

namespace reprise::kernels {

inline Layout Strided(uint32_t element_bytes, const std::vector<int64_t>& sizes,
                      const std::vector<int64_t>& strides) {
  return MakeLayout(sizes, strides, element_bytes);
}

// A number from 0 to below `limit`.
inline int64_t Below(std::mt19937& random, int64_t limit) {
  return std::uniform_int_distribution<int64_t>(0, limit - 1)(random);
}

// Byte offsets of all elements, one by one.
inline std::vector<int64_t> ElementOffsets(const Layout& layout) {
  std::vector<int64_t> offsets;
  const int64_t count = layout.elements();
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i;
    int64_t offset = 0;
    for (int d = layout.rank - 1; d >= 0; --d) {
      offset += rest % layout.sizes[d] * layout.strides[d];
      rest /= layout.sizes[d];
    }
    offsets.push_back(offset * layout.element_bytes);
  }
  return offsets;
}

// From the first element to the end of the last.
inline int64_t SpanBytes(const Layout& layout) {
  int64_t last = 0;
  for (const int64_t offset : ElementOffsets(layout)) {
    last = std::max(last, offset + layout.element_bytes);
  }
  return last;
}

// Which of `span_bytes` bytes belong to an element.
inline std::vector<bool> BytesOf(const Layout& layout, int64_t span_bytes) {
  std::vector<bool> bytes(span_bytes);
  for (const int64_t offset : ElementOffsets(layout)) {
    for (uint32_t b = 0; b < layout.element_bytes; ++b) {
      bytes[offset + b] = true;
    }
  }
  return bytes;
}

// Permuted, sliced, expanded, overlapping and empty layouts.
inline Layout RandomLayout(std::mt19937& random, int64_t largest_size = 5) {
  const auto below = [&random](int64_t limit) { return Below(random, limit); };
  Layout layout;
  layout.element_bytes = 1u << below(5);
  layout.rank = static_cast<int>(below(6));
  std::vector<int> order(layout.rank);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  int64_t stride = 1;
  for (const int d : order) {
    layout.sizes[d] = below(30) == 0 ? 0 : 1 + below(largest_size);
    switch (below(8)) {
      case 0:
        layout.strides[d] = 0;
        break;
      case 1:
        layout.strides[d] = 1 + below(3);
        break;
      default:
        layout.strides[d] = stride;
        stride *= layout.sizes[d] == 0 ? 1 : layout.sizes[d];
        if (below(3) == 0) stride += below(4);
    }
  }
  return layout;
}

}  // namespace reprise::kernels

#endif  // REPRISE_TESTS_KERNELS_RANDOM_LAYOUT_H_
