// Where launches hold the seed and the offset that they draw with.

#ifndef REPRISE_ENGINE_PROGRAM_DRAW_SITES_H_
#define REPRISE_ENGINE_PROGRAM_DRAW_SITES_H_

#include <cstdint>
#include <vector>

#include "engine/base/status.h"
#include "engine/device/launch.h"
#include "engine/trace/generator.h"

namespace reprise::engine {

struct TracedOp;

// Eight bytes of a launch's image that hold a part of the state that the
// generator had at their op.
struct DrawSite {
  enum class Part : uint8_t { kSeed, kOffset };
  uint32_t op = 0;
  uint32_t launch = 0;  // in the program
  uint32_t offset_bytes = 0;
  Part part = Part::kSeed;
  uint64_t ahead = 0;  // of the offset, where an op draws several times

  uint64_t WordAt(const GeneratorState& state) const {
    return part == Part::kSeed ? state.seed : state.offset + ahead;
  }
};

// What two recordings of an op that draws tell.
struct ExplainedDraw {
  std::vector<DrawSite> sites;  // launches counted from the op's first one
  // As first recorded, but that what nobody writes is zero.
  std::vector<device::Launch> launches;
  // Both recordings with zeros where the generator's state stands: the rest is
  // to be explained by other means.
  std::vector<device::Launch> first;
  std::vector<device::Launch> second;
};

// A kernel that draws is given the seed and, behind it, the offset, by value,
// mostly in a struct of torch's (PhiloxCudaState: seed, offset, a zero, a flag
// that is not set and seven bytes that nobody writes, which may look like an
// address and must not be patched as one). What was the same in both recordings
// is a constant; where all was and the seed is a small number, only a parameter
// that is that struct is known to be one. kFailedPrecondition where a state
// that differs stands nowhere. Pure function of its arguments.
base::Result<ExplainedDraw> ExplainDraw(const TracedOp& first,
                                        const TracedOp& second);

}  // namespace reprise::engine

#endif  // REPRISE_ENGINE_PROGRAM_DRAW_SITES_H_
