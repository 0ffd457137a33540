// A number in each direction of a grid.

#ifndef REPRISE_ENGINE_BASE_DIM3_H_
#define REPRISE_ENGINE_BASE_DIM3_H_

#include <cstdint>

namespace reprise::base {

// A number of blocks or threads in each direction.
struct Dim3 {
  uint32_t x = 1;
  uint32_t y = 1;
  uint32_t z = 1;
  bool operator==(const Dim3&) const = default;
};

}  // namespace reprise::base

#endif  // REPRISE_ENGINE_BASE_DIM3_H_
