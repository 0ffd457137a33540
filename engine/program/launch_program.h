// A trace's launches, and where what changes from launch to launch stands in
// them.

#ifndef REPRISE_ENGINE_PROGRAM_LAUNCH_PROGRAM_H_
#define REPRISE_ENGINE_PROGRAM_LAUNCH_PROGRAM_H_

#include <cstdint>
#include <vector>

#include "engine/device/launch.h"
#include "engine/program/draw_sites.h"
#include "engine/trace/scalar.h"
#include "engine/trace/trace.h"

namespace reprise::engine {

// Eight bytes of a launch's image that hold the address of a value plus a
// delta.
struct ValueSite {
  uint32_t launch;  // in the program
  uint32_t offset_bytes;
  ValueId value;
  uint64_t delta_bytes;
};

// All launches of a trace in program order, and where its values stand in them.
struct LaunchProgram {
  std::vector<device::Launch> launches;
  std::vector<uint32_t> op_begin;  // launches of op k: [op_begin[k], [k + 1])
  std::vector<ValueSite> sites;
  // The same of externals that did not move: recognised, and not proven.
  std::vector<ValueSite> pinned;
  std::vector<ValueId> pinned_ends;  // something points behind their last byte
  std::vector<ScalarSite> scalars;   // in the order of ops
  std::vector<ScalarCopy> copies;    // so these
  std::vector<ScalarRounding> roundings;
  std::vector<DrawSite> draws;  // in the order of ops
  uint32_t values = 0;  // temporaries are numbered after the trace's values
};

}  // namespace reprise::engine

#endif  // REPRISE_ENGINE_PROGRAM_LAUNCH_PROGRAM_H_
