#include "bindings/torch/region/tape_arithmetic.h"

#include <algorithm>
#include <bit>

namespace reprise::bindings {

bool NumberRead::Resembles(const NumberRead& other) const {
  return std::ranges::equal(added, other.added,
                            [](const Added& one, const Added& another) {
                              return std::bit_cast<uint64_t>(one.value) ==
                                     std::bit_cast<uint64_t>(another.value);
                            });
}

}  // namespace reprise::bindings
