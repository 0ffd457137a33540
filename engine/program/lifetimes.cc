#include "engine/program/lifetimes.h"

#include <algorithm>
#include <cstddef>

namespace reprise::engine {
Lifetimes Lifetimes::Of(const Trace& first, const Trace& second,
                        const Effects& effects,
                        std::span<const Segment> segments,
                        uint64_t least_bytes) {
  Lifetimes lifetimes;
  lifetimes.launched_at.resize(first.ops.size(), 0);
  for (size_t s = 1; s < segments.size(); ++s) {
    const Segment& before = segments[s - 1];
    const uint32_t at = LaunchedAt(segments[s], before, before.first_op);
    std::fill(lifetimes.launched_at.begin() + segments[s].first_op,
              lifetimes.launched_at.begin() + segments[s].end_op, at);
  }
  lifetimes.free_from.resize(first.values.size(), kNever);
  lifetimes.held.resize(first.values.size(), false);
  bool any = false;
  for (ValueId v = 0; v < first.values.size(); ++v) {
    const Value& a = first.values[v];
    const Value& b = second.values[v];
    if (a.external) continue;
    if (a.dead_at == Value::kLives || b.dead_at == Value::kLives) {
      lifetimes.held[v] = b.held || a.size_bytes < least_bytes;
      continue;
    }
    lifetimes.free_from[v] = std::max(a.dead_at, b.dead_at);
    any = true;
  }
  if (!any) return lifetimes;
  const auto all = [](ValueId) { return true; };
  for (uint32_t k = 0; k < first.ops.size(); ++k) {
    // One that is gated was asked for when it is launched: nothing undoes it.
    const bool overwrites = std::ranges::any_of(
        first.ops[k].operands, [](const ValueRef& ref) { return ref.written; });
    if (!overwrites || effects.gate(k) != Effects::Gate::kNone) continue;
    // What undoing it would run again reads these, or writes over them.
    const auto need = [&lifetimes, k](ValueId value) {
      uint32_t& free_from = lifetimes.free_from[value];
      if (free_from != kNever) free_from = std::max(free_from, k + 1);
    };
    for (const uint32_t op : effects.ToRestore(k, k + 1, all).ops) {
      for (const ValueRef& operand : first.ops[op].operands) {
        need(operand.value);
      }
      for (const ResultSpec& result : first.ops[op].results) {
        if (result.kind == ResultSpec::Kind::kValue) need(result.value);
      }
    }
  }
  return lifetimes;
}

}  // namespace reprise::engine
