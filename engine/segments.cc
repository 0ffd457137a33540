#include "engine/segments.h"

#include <algorithm>

namespace reprise::engine {

std::vector<ValueId> LateExternals(const Trace& first, const Trace& second) {
  std::vector<ValueId> late;
  for (ValueId v = 0; v < first.values.size(); ++v) {
    const Value& a = first.values[v];
    const Value& b = second.values[v];
    if (!a.external || a.birth_op == 0) continue;
    if (a.storage != b.storage || a.origin != b.origin) late.push_back(v);
  }
  return late;
}

namespace {

bool UsesIndicesFromOutside(const Trace& trace, const TracedOp& op) {
  return std::any_of(op.operands.begin(), op.operands.end(),
                     [&trace](const ValueRef& operand) {
                       return operand.indexes &&
                              trace.values[operand.value].external;
                     });
}

}  // namespace

std::vector<Segment> CutSegments(const Trace& trace,
                                 std::span<const ValueId> late,
                                 std::span<const uint32_t> launches,
                                 uint32_t segment_launches) {
  const auto ops = static_cast<uint32_t>(trace.ops.size());
  std::vector<bool> gates(ops, false);
  for (ValueId v : late) gates[trace.values[v].birth_op] = true;
  for (uint32_t k = 0; k < ops; ++k) {
    if (UsesIndicesFromOutside(trace, trace.ops[k])) gates[k] = true;
  }
  std::vector<Segment> segments;
  Segment open;
  for (uint32_t k = 0; k < ops; ++k) {
    const bool full =
        open.launches > 0 && open.launches + launches[k] > segment_launches;
    if (k > open.first_op && (gates[k] || full)) {
      open.end_op = k;
      segments.push_back(open);
      open = Segment{k, k, 0, gates[k]};
    }
    open.launches += launches[k];
  }
  open.end_op = ops;
  segments.push_back(open);
  return segments;
}

}  // namespace reprise::engine
