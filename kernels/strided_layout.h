// Where the elements of a strided tensor lie.

#ifndef REPRISE_KERNELS_STRIDED_LAYOUT_H_
#define REPRISE_KERNELS_STRIDED_LAYOUT_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

namespace reprise::kernels {

inline constexpr int kMaxRank = 12;

// What an element is, where it is more than its bits.
enum class Element : uint8_t { kBits, kFloat16, kBFloat16, kFloat32, kFloat64 };

// The elements of a strided tensor: sizes and strides in elements. Bytes
// between elements (padding) are no part of it. Thread-compatible value.
struct Layout {
  int rank = 0;
  uint32_t element_bytes = 1;  // of `element`, where that is a number
  Element element = Element::kBits;
  std::array<int64_t, kMaxRank> sizes{};
  std::array<int64_t, kMaxRank> strides{};

  int64_t elements() const;
  // From the first element to behind the last one; 0 where there are none. Of
  // strides that are not negative.
  int64_t span_bytes() const;
};

// `sizes` and `strides` have the same length, kMaxRank at most.
inline Layout MakeLayout(std::span<const int64_t> sizes,
                         std::span<const int64_t> strides,
                         uint32_t element_bytes,
                         Element element = Element::kBits) {
  Layout layout;
  layout.element = element;
  layout.rank = static_cast<int>(sizes.size());
  layout.element_bytes = element_bytes;
  std::copy(sizes.begin(), sizes.end(), layout.sizes.begin());
  std::copy(strides.begin(), strides.end(), layout.strides.begin());
  return layout;
}

}  // namespace reprise::kernels

#endif  // REPRISE_KERNELS_STRIDED_LAYOUT_H_
