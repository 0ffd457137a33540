// How a kernel is launched.

#ifndef REPRISE_ENGINE_BATCH_LAUNCH_CONFIG_H_
#define REPRISE_ENGINE_BATCH_LAUNCH_CONFIG_H_

#include <cstdint>

#include "engine/batch/count.h"

namespace reprise::engine {

// All of it is part of what makes two batches the same. What the device cannot
// do is told when the batch is submitted. Grid, block, cluster and shared
// memory take integers of any type: Submit refuses one that is out of range.
struct LaunchConfig {
  LaunchDim3 grid = {};
  LaunchDim3 block = {};
  Count shared_bytes = 0;  // dynamic shared memory, beyond 48 KiB too
  // Blocks of a cluster, a divisor of the grid in each direction; 1 of 1: none.
  LaunchDim3 cluster = {};
  // All blocks run at a time, so that the grid may synchronise. Such a launch
  // keeps its place in the program's order.
  bool cooperative = false;
  // The kernel may begin before the kernels that it waits for have ended. It
  // calls cudaGridDependencySynchronize (griddepcontrol.wait) on every path,
  // before it touches what earlier launches write or read.
  bool programmatic = false;
  int32_t priority =
      0;  // as a stream's: of the waiting ones the least is first

  // Every number of blocks and threads is 1 to 2^31 (or 0 of a cluster's), and
  // the shared memory less than 2^31 bytes.
  constexpr bool InRange() const {
    const int64_t positive = (grid.x.given() - 1) | (grid.y.given() - 1) |
                             (grid.z.given() - 1) | (block.x.given() - 1) |
                             (block.y.given() - 1) | (block.z.given() - 1);
    const int64_t others = cluster.x.given() | cluster.y.given() |
                           cluster.z.given() | shared_bytes.given();
    return static_cast<uint64_t>(positive | others) >> 31 == 0;
  }
};

}  // namespace reprise::engine

#endif  // REPRISE_ENGINE_BATCH_LAUNCH_CONFIG_H_
