// What the segments of a program touch of the memory that is not their own.

#ifndef REPRISE_ENGINE_PROGRAM_FOOTPRINT_H_
#define REPRISE_ENGINE_PROGRAM_FOOTPRINT_H_

#include <cstddef>
#include <span>
#include <vector>

#include "engine/program/effects.h"
#include "engine/program/segments.h"
#include "engine/trace/trace.h"

namespace reprise::engine {

// By segment, the values that were bound before its launch and may have gone
// since: the program may free memory of its own in mid-pass. Values of the op
// at which a segment is launched are not among them, as far as that op shows
// them: its operands are alive.
//
// Immutable, and the same for all instances of a program. Cost, when made:
// linear in the trace's operands.
class Footprint {
 public:
  Footprint(const Trace& trace, const Effects& effects,
            std::span<const Segment> segments);

  // The segment touches these externals. Private values are the first one's:
  // they are copied before it.
  std::span<const ValueId> externals(size_t segment) const {
    return externals_[segment];
  }
  // The segment touches these values, which earlier segments make. They are in
  // the program's memory only if they escape.
  std::span<const ValueId> values(size_t segment) const {
    return values_[segment];
  }

 private:
  std::vector<std::vector<ValueId>> externals_;
  std::vector<std::vector<ValueId>> values_;
};

}  // namespace reprise::engine

#endif  // REPRISE_ENGINE_PROGRAM_FOOTPRINT_H_
