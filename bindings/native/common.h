// What all of the C++ API shares.

#ifndef REPRISE_BINDINGS_NATIVE_COMMON_H_
#define REPRISE_BINDINGS_NATIVE_COMMON_H_

#include <cstddef>
#include <cstdint>

#include "engine/base/status.h"

#define REPRISE_EXPORT __attribute__((visibility("default")))

namespace reprise {

using base::Code;
using base::Error;
using base::Result;
using base::Status;

// A number of blocks or threads in each direction.
struct Dim3 {
  uint32_t x = 1;
  uint32_t y = 1;
  uint32_t z = 1;
  bool operator==(const Dim3&) const = default;
};

struct LaunchConfig {
  Dim3 grid = {};
  Dim3 block = {};
  uint32_t shared_bytes = 0;  // dynamic shared memory
};

}  // namespace reprise

#endif  // REPRISE_BINDINGS_NATIVE_COMMON_H_
