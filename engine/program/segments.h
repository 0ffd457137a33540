// Where a plan is cut into segments.

#ifndef REPRISE_ENGINE_PROGRAM_SEGMENTS_H_
#define REPRISE_ENGINE_PROGRAM_SEGMENTS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "engine/program/effects.h"

namespace reprise::engine {

// Ops [first_op, end_op) of a plan, launched together.
struct Segment {
  uint32_t first_op = 0;
  uint32_t end_op = 0;
  uint32_t launches = 0;
  // It is launched when its first op has come, not before (Effects::gate). The
  // head's has come when the first segment is launched.
  bool gated = false;
};

// The op at which `segment` is launched, behind `before`, which was launched at
// op `at`: its own first op if it is gated; else half-way through what was left
// of `before`, so that the device does not run dry.
uint32_t LaunchedAt(const Segment& segment, const Segment& before, uint32_t at);

// Of an op: what it launches, and the memory of what it makes. Of a segment:
// how much of both is enough.
struct SegmentSize {
  uint32_t launches = 0;
  uint64_t bytes = 0;
};

// Cuts a trace's ops into segments of about `enough`, none without a launch,
// and before each op that is gated. Fewer bytes, because values of a segment
// cannot follow one another.
std::vector<Segment> CutSegments(const Effects& effects,
                                 std::span<const SegmentSize> ops,
                                 const SegmentSize& enough);

}  // namespace reprise::engine

#endif  // REPRISE_ENGINE_PROGRAM_SEGMENTS_H_
