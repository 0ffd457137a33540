// Faults that tests plant in the simulated driver, to see that random batches
// catch them.

#ifndef REPRISE_TESTS_SIM_DRIVER_FAULT_H_
#define REPRISE_TESTS_SIM_DRIVER_FAULT_H_

#include <cuda.h>

#include <cstdint>
#include <set>

#include "engine/device/driver.h"
#include "tests/sim/simulated_gpu.h"

namespace reprise::sim {

enum class DriverFault : uint8_t {
  kNone,
  kSkippedPatch,      // a kernel of a graph keeps its arguments, now and then
  kStaleCopy,         // a copy of a graph does
  kStaleFill,         // a fill of a graph does
  kStaleUpdate,       // a graph as a whole does
  kMissingEdge,       // a node waits for one less than it should, now and then
  kFillOnce,          // fills are done in a graph's first launch only
  kPatchedInFlight,   // what is written reaches launches in flight
  kTableWrittenOnce,  // a node that was left out is never put in again
  kLostWait,          // a stream does not wait for an event
  kFreedAtOnce,       // memory of a pool is free before its stream gets there
};

// Puts its entries in front of the GPU's, which it outlives. One at a time, as
// the GPU.
class PlantedFault {
 public:
  PlantedFault(SimulatedGpu& gpu, DriverFault fault);
  ~PlantedFault();
  PlantedFault(const PlantedFault&) = delete;
  PlantedFault& operator=(const PlantedFault&) = delete;

 private:
  // Every third time that it is asked.
  bool NowAndThen() { return ++asked_ % 3 == 0; }
  void Plant(DriverFault fault);
  void LoseEdges();
  void FillOnce();

  static inline PlantedFault* only = nullptr;

  SimulatedGpu& gpu_;
  const device::Driver driver_;  // without the fault
  uint64_t asked_ = 0;
  std::set<CUgraphNode> fills_;
};

}  // namespace reprise::sim

#endif  // REPRISE_TESTS_SIM_DRIVER_FAULT_H_
