// How a graph is given new arguments.

#ifndef REPRISE_ENGINE_BASE_PATCHING_H_
#define REPRISE_ENGINE_BASE_PATCHING_H_

#include <cstdint>

#include "engine/base/export.h"

namespace reprise::base {

// All give the same bits.
enum class Patching : uint8_t {
  // What costs least, of the others, by times measured on this machine, by how
  // many launches change, and by whether the stream has work in flight when a
  // replay comes; for each plan, and anew when those change. Costs are the
  // submitting thread's time, and the device's where replays wait for it.
  kMeasured,
  // One call of the driver for each launch that changed.
  kSetParams,
  // Kernels that were compiled from source read their arguments from a table in
  // device memory, which the graph's first node writes; the node carries the
  // whole table, up to 32 512 bytes, and is given another one if anything in it
  // changed, with one call. Costs each launch a load on the device, some 0.1
  // us, and the graph some 2 us.
  // Launches that do not fit, adopted kernels, copies and fills are as in
  // kSetParams.
  kTable,
  // The graph's description is changed, and the executable graph takes all of
  // it over at once (cuGraphExecUpdate).
  kExecUpdate,
};

REPRISE_EXPORT const char* ToString(Patching patching);

}  // namespace reprise::base

#endif  // REPRISE_ENGINE_BASE_PATCHING_H_
