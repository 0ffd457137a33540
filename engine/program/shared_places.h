// Which values of a program have their places in the same memory.

#ifndef REPRISE_ENGINE_PROGRAM_SHARED_PLACES_H_
#define REPRISE_ENGINE_PROGRAM_SHARED_PLACES_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/program/segments.h"
#include "engine/trace/trace.h"

namespace reprise::engine {

// Values that take one place in turn (Lifetimes): each is written over those
// before it, so the program must be done with these when it is launched.
//
// Immutable. Cost, when made: a sort of the values, and each pair that shares.
class SharedPlaces {
 public:
  // `outputs`: the values that have a place, ascending. `places` and
  // `place_bytes`: by value, where its place begins, and how much it holds.
  SharedPlaces(const Trace& trace, std::span<const Segment> segments,
               std::span<const ValueId> outputs,
               std::span<const uint64_t> places,
               std::span<const uint64_t> place_bytes);

  // Others whose places overlap that of `value`, ascending. Values are numbered
  // in the order in which they are made.
  std::span<const ValueId> neighbours(ValueId value) const {
    return neighbours_[value];
  }
  // Values that the segment makes over earlier ones, ascending.
  std::span<const ValueId> followers(size_t segment) const {
    return followers_[segment];
  }

 private:
  std::vector<std::vector<ValueId>> neighbours_;
  std::vector<std::vector<ValueId>> followers_;
};

}  // namespace reprise::engine

#endif  // REPRISE_ENGINE_PROGRAM_SHARED_PLACES_H_
