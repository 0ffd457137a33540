#include "engine/program/segments.h"

#include <algorithm>

namespace reprise::engine {

uint32_t LaunchedAt(const Segment& segment, const Segment& before,
                    uint32_t at) {
  if (segment.gated) return segment.first_op;
  return std::max((at + before.end_op) / 2, at + 1);
}

std::vector<Segment> CutSegments(const Effects& effects,
                                 std::span<const uint32_t> launches,
                                 uint32_t segment_launches) {
  const auto ops = static_cast<uint32_t>(launches.size());
  std::vector<Segment> segments;
  Segment open;
  for (uint32_t k = 0; k < ops; ++k) {
    const bool gated = effects.gate(k) != Effects::Gate::kNone;
    const bool full =
        open.launches > 0 && open.launches + launches[k] > segment_launches;
    if (k > open.first_op && (gated || full)) {
      open.end_op = k;
      segments.push_back(open);
      open = Segment{k, k, 0, gated};
    }
    open.launches += launches[k];
  }
  open.end_op = ops;
  segments.push_back(open);
  return segments;
}

}  // namespace reprise::engine
