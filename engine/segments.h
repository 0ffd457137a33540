// Where a plan is cut into segments.

#ifndef REPRISE_ENGINE_SEGMENTS_H_
#define REPRISE_ENGINE_SEGMENTS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "engine/effects.h"

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

// Cuts a trace's ops, op k making `launches[k]`, into segments of about
// `segment_launches`, and before each op that is gated.
std::vector<Segment> CutSegments(const Effects& effects,
                                 std::span<const uint32_t> launches,
                                 uint32_t segment_launches);

}  // namespace reprise::engine

#endif  // REPRISE_ENGINE_SEGMENTS_H_
