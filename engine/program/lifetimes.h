// When the values of a trace are in use.

#ifndef REPRISE_ENGINE_PROGRAM_LIFETIMES_H_
#define REPRISE_ENGINE_PROGRAM_LIFETIMES_H_

#include <cstdint>
#include <span>
#include <vector>

#include "engine/program/effects.h"
#include "engine/program/segments.h"
#include "engine/trace/trace.h"

namespace reprise::engine {

// One that dies within the pass may give its memory to another that comes
// later: to one that is launched when the program was seen to be done with it.
// Times are ops that the program has come to. Pure value.
struct Lifetimes {
  static constexpr uint32_t kNever = ~uint32_t{0};

  // By op, the earliest time at which its segment is launched.
  std::vector<uint32_t> launched_at;
  // By value, from when on nothing needs it: the program has dropped it, in
  // both recordings, and nothing that a squash may have to make again is made
  // from it. kNever for what lives on behind the pass, and for externals.
  std::vector<uint32_t> free_from;
  // By value: it is in use still when the plan is launched again, or may be, so
  // that no other may have been in its place before it.
  std::vector<bool> held;

  // As two recordings of one trace tell; `effects` and `segments` are made from
  // the first one. What lives on behind the pass, and takes less than
  // `least_bytes`, counts as held.
  static Lifetimes Of(const Trace& first, const Trace& second,
                      const Effects& effects, std::span<const Segment> segments,
                      uint64_t least_bytes = 0);
};

}  // namespace reprise::engine

#endif  // REPRISE_ENGINE_PROGRAM_LIFETIMES_H_
