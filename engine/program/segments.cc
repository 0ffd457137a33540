#include "engine/program/segments.h"

#include <algorithm>

namespace reprise::engine {

uint32_t LaunchedAt(const Segment& segment, const Segment& before,
                    uint32_t at) {
  if (segment.gated) return segment.first_op;
  return std::max((at + before.end_op) / 2, at + 1);
}

std::vector<Segment> CutSegments(const Effects& effects,
                                 std::span<const SegmentSize> ops,
                                 const SegmentSize& enough) {
  std::vector<Segment> segments;
  Segment open;
  uint64_t bytes = 0;  // of the open one
  for (uint32_t k = 0; k < ops.size(); ++k) {
    const bool gated = effects.gate(k) != Effects::Gate::kNone;
    const bool full = open.launches > 0 &&
                      (open.launches + ops[k].launches > enough.launches ||
                       bytes + ops[k].bytes > enough.bytes);
    if (k > open.first_op && (gated || full)) {
      open.end_op = k;
      segments.push_back(open);
      open = Segment{k, k, 0, gated};
      bytes = 0;
    }
    open.launches += ops[k].launches;
    bytes += ops[k].bytes;
  }
  open.end_op = static_cast<uint32_t>(ops.size());
  segments.push_back(open);
  return segments;
}

}  // namespace reprise::engine
