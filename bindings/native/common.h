// What all of the C++ API shares.

#ifndef REPRISE_BINDINGS_NATIVE_COMMON_H_
#define REPRISE_BINDINGS_NATIVE_COMMON_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "engine/base/dim3.h"
#include "engine/base/export.h"
#include "engine/base/patching.h"
#include "engine/base/status.h"

namespace reprise {

using base::Code;
using base::Dim3;
using base::Error;
using base::Patching;
using base::Result;
using base::Status;
using base::ToString;

namespace native {
// For messages: "3 elements of 8 bytes".
inline std::string ElementsOf(uint64_t count, uint64_t element_bytes) {
  return std::to_string(count) + " elements of " +
         std::to_string(element_bytes) + " bytes";
}
}  // namespace native

// How a kernel is launched. All of it is part of what makes two batches the
// same. What the device cannot do is told when the batch is submitted.
struct LaunchConfig {
  Dim3 grid = {};
  Dim3 block = {};
  uint32_t shared_bytes = 0;  // dynamic shared memory, beyond 48 KiB too
  // Blocks of a cluster, a divisor of the grid in each direction; 1 of 1: none.
  Dim3 cluster = {};
  // All blocks run at a time, so that the grid may synchronise. Such a launch
  // keeps its place in the program's order.
  bool cooperative = false;
  // The kernel may begin before the kernels that it waits for have ended. It
  // calls cudaGridDependencySynchronize (griddepcontrol.wait) on every path,
  // before it touches what earlier launches write or read.
  bool programmatic = false;
  int32_t priority =
      0;  // as a stream's: of the waiting ones the least is first
};

}  // namespace reprise

#endif  // REPRISE_BINDINGS_NATIVE_COMMON_H_
