// How a kernel is launched.

#ifndef REPRISE_ENGINE_BATCH_LAUNCH_CONFIG_H_
#define REPRISE_ENGINE_BATCH_LAUNCH_CONFIG_H_

#include <cstdint>

#include "engine/base/dim3.h"

namespace reprise::engine {

using base::Dim3;

// All of it is part of what makes two batches the same. What the device cannot
// do is told when the batch is submitted.
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

}  // namespace reprise::engine

#endif  // REPRISE_ENGINE_BATCH_LAUNCH_CONFIG_H_
