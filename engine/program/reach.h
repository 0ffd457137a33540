// What recorded work touches beside what its op says.

#ifndef REPRISE_ENGINE_PROGRAM_REACH_H_
#define REPRISE_ENGINE_PROGRAM_REACH_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "engine/program/launch_program.h"
#include "engine/trace/trace.h"

namespace reprise::engine {

// Of an op's launches, beside its operands, results and temporaries.
struct Reach {
  // Nobody can tell, or they must have the device to themselves.
  bool alone = false;
  // Memory of a library's, which they may write.
  bool libraries = false;
  // Values, and behind them temporaries, that they name and that are none of
  // the op's; they may write them.
  std::vector<ValueId> others = {};
};

// By op of `trace`, whose launches `program` has (pinned sites included). Ops
// that fork streams have the device to themselves, as cooperative launches do.
// Any other word for which `is_memory` holds is an address that is followed.
// Pure function. Cost: `is_memory` is asked once of each word that may be one.
std::vector<Reach> ReachOf(const Trace& trace, const LaunchProgram& program,
                           const std::function<bool(uint64_t)>& is_memory);

}  // namespace reprise::engine

#endif  // REPRISE_ENGINE_PROGRAM_REACH_H_
