#include "bindings/torch/region/tape_arithmetic.h"

#include <algorithm>

#include "bindings/torch/base/ivalues.h"

namespace reprise::bindings {

bool NumberRead::Resembles(const NumberRead& other) const {
  return std::ranges::equal(added, other.added, SameBits, &Added::value,
                            &Added::value);
}

}  // namespace reprise::bindings
