#include "engine/lifetimes.h"

#include <algorithm>
#include <cstddef>

namespace reprise::engine {
namespace {

// What a squash needs that undoes an op: values that ops run again read, or
// write over.
class Remade {
 public:
  explicit Remade(const Trace& trace)
      : trace_(trace), writers_(trace.values.size()) {
    for (uint32_t k = 0; k < trace.ops.size(); ++k) {
      const TracedOp& op = trace.ops[k];
      for (const ResultSpec& result : op.results) {
        if (result.kind == ResultSpec::Kind::kValue) Writes(k, result.value);
      }
      for (const ValueRef& operand : op.operands) {
        if (operand.written) Writes(k, operand.value);
      }
    }
  }

  // `need(value)` of all that is needed where op `undone`, which was launched
  // ahead and wrote over values, is undone: each is made again from its birth
  // on (Effects::OpsToRestore).
  template <typename Need>
  void Visit(uint32_t undone, Need need) {
    undone_ = undone;
    visited_.assign(trace_.values.size(), false);
    for (const ValueRef& operand : trace_.ops[undone].operands) {
      if (operand.written) Remake(operand.value);
    }
    while (!due_.empty()) {
      const ValueId value = due_.back();
      due_.pop_back();
      for (const uint32_t k : writers_[value]) {
        if (k >= undone) break;
        const TracedOp& op = trace_.ops[k];
        for (const ValueRef& operand : op.operands) {
          need(operand.value);
          if (operand.written || IsWrittenBehind(k, operand.value)) {
            Remake(operand.value);
          }
        }
        for (const ResultSpec& result : op.results) {
          if (result.kind != ResultSpec::Kind::kValue) continue;
          need(result.value);
          if (IsWrittenBehind(k, result.value)) Remake(result.value);
        }
      }
    }
  }

 private:
  void Writes(uint32_t op, ValueId value) {
    std::vector<uint32_t>& writers = writers_[value];
    if (writers.empty() || writers.back() != op) writers.push_back(op);
  }
  bool IsWrittenBehind(uint32_t op, ValueId value) const {
    return std::ranges::any_of(
        writers_[value], [&](uint32_t k) { return k > op && k <= undone_; });
  }
  void Remake(ValueId value) {
    if (trace_.values[value].external || visited_[value]) return;
    visited_[value] = true;
    due_.push_back(value);
  }

  const Trace& trace_;
  std::vector<std::vector<uint32_t>> writers_;  // by value, ascending
  uint32_t undone_ = 0;
  std::vector<bool> visited_;
  std::vector<ValueId> due_;
};

}  // namespace

Lifetimes Lifetimes::Of(const Trace& first, const Trace& second,
                        const Effects& effects,
                        std::span<const Segment> segments) {
  Lifetimes lifetimes;
  // As Instance launches: half-way through the segment before, unless gated.
  lifetimes.launched_at.resize(first.ops.size(), 0);
  for (size_t s = 1; s < segments.size(); ++s) {
    const Segment& before = segments[s - 1];
    const uint32_t at = segments[s].gated
                            ? segments[s].first_op
                            : std::max((before.first_op + before.end_op) / 2,
                                       before.first_op + 1);
    std::fill(lifetimes.launched_at.begin() + segments[s].first_op,
              lifetimes.launched_at.begin() + segments[s].end_op, at);
  }
  lifetimes.free_from.resize(first.values.size(), kNever);
  bool any = false;
  for (ValueId v = 0; v < first.values.size(); ++v) {
    const Value& a = first.values[v];
    const Value& b = second.values[v];
    if (a.external || a.dead_at == Value::kLives || b.dead_at == Value::kLives)
      continue;
    lifetimes.free_from[v] = std::max(a.dead_at, b.dead_at);
    any = true;
  }
  if (!any) return lifetimes;
  Remade remade(first);
  for (uint32_t k = 0; k < first.ops.size(); ++k) {
    // One that is gated was asked for when it is launched: nothing undoes it.
    if (effects.gate(k) != Effects::Gate::kNone) continue;
    remade.Visit(k, [&](ValueId value) {
      uint32_t& free_from = lifetimes.free_from[value];
      if (free_from != kNever) free_from = std::max(free_from, k + 1);
    });
  }
  return lifetimes;
}

}  // namespace reprise::engine
