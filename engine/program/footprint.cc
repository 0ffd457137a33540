#include "engine/program/footprint.h"

namespace reprise::engine {

Footprint::Footprint(const Trace& trace, const Effects& effects,
                     std::span<const Segment> segments)
    : externals_(segments.size()), values_(segments.size()) {
  std::vector<size_t> noted(trace.values.size(), ~size_t{0});  // the segment
  for (const ValueId v : effects.privates()) {
    noted[v] = 0;
    externals_[0].push_back(v);
  }
  for (size_t s = 0; s < segments.size(); ++s) {
    const Segment& segment = segments[s];
    for (uint32_t k = segment.first_op; k < segment.end_op; ++k) {
      for (const ValueRef& operand : trace.ops[k].operands) {
        const ValueId v = operand.value;
        const Value& value = trace.values[v];
        const bool shown =
            value.birth_op == segment.first_op && (s == 0 || effects.late(v));
        const bool own = !value.external && value.birth_op >= segment.first_op;
        if (shown || own || noted[v] == s) continue;
        noted[v] = s;
        (value.external ? externals_ : values_)[s].push_back(v);
      }
    }
  }
}

}  // namespace reprise::engine
