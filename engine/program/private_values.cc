#include "engine/program/private_values.h"

#include <algorithm>
#include <cstddef>

#include "engine/trace/frontend.h"
#include "kernels/compare.h"

namespace reprise::engine {
namespace {

constexpr uint64_t kMostOfAll = 64;  // times what one may take

bool Overlap(const Value& a, const Value& b) {
  return a.base < b.origin + b.size_bytes && b.base < a.origin + a.size_bytes;
}

// Every byte of the storage, so that none is given back that is another's.
bool WritesAll(const kernels::Layout& layout, const ValueRef& operand,
               const Trace& trace) {
  const Value& value = trace.values[operand.value];
  return operand.offset_bytes == 0 && value.origin == value.base &&
         kernels::IsDense(layout) &&
         static_cast<uint64_t>(layout.span_bytes()) == value.size_bytes;
}

// By value, what the ops of a trace do with it.
struct Use {
  uint32_t writes = 0;
  bool other = false;  // it cannot be private for what one of them does
};

std::vector<Use> UsesOf(const Trace& trace) {
  std::vector<Use> uses(trace.values.size());
  for (const TracedOp& op : trace.ops) {
    for (const ValueRef& operand : op.operands) {
      Use& use = uses[operand.value];
      if (operand.written) ++use.writes;
      use.other |= op.by_eager;
      use.other |= operand.written && (op.nondeterministic || op.may_draw);
      // Of a tensor that lies before the one that came first.
      use.other |=
          operand.offset_bytes >= trace.values[operand.value].size_bytes;
    }
    size_t written = 0;
    for (const ValueRef& operand : op.operands) {
      if (!operand.written) continue;
      const bool whole = written < op.written.size() &&
                         WritesAll(op.written[written], operand, trace);
      uses[operand.value].other |= !whole;
      ++written;
    }
  }
  return uses;
}

}  // namespace

std::vector<ValueId> PrivateValues(const Trace& trace,
                                   const std::vector<ValueId>& inputs,
                                   const std::vector<bool>& named,
                                   uint64_t most_bytes) {
  if (most_bytes == 0) return {};
  const std::vector<Use> uses = UsesOf(trace);
  std::vector<bool> chosen(trace.values.size(), false);
  for (ValueId v = 0; v < chosen.size(); ++v) {
    const Value& value = trace.values[v];
    chosen[v] = value.external && !value.arrives && uses[v].writes == 1 &&
                !uses[v].other && value.size_bytes <= most_bytes && named[v] &&
                trace.frontend->OwnsAddress(value.origin);
  }
  for (const ValueId v : inputs) chosen[v] = false;
  for (ValueId v = 0; v < chosen.size(); ++v) {
    if (!chosen[v]) continue;
    for (ValueId other = 0; other < chosen.size(); ++other) {
      if (other == v || !trace.values[other].external) continue;
      if (Overlap(trace.values[v], trace.values[other])) chosen[v] = false;
    }
  }
  std::vector<ValueId> found;
  uint64_t bytes = 0;
  for (const TracedOp& op : trace.ops) {
    const size_t before = found.size();
    uint64_t more = 0;
    bool all = true;
    for (const ValueRef& operand : op.operands) {
      const Value& value = trace.values[operand.value];
      if (!operand.written || !value.external) continue;
      all = all && chosen[operand.value];
      found.push_back(operand.value);
      more += value.size_bytes;
    }
    if (all && bytes + more <= kMostOfAll * most_bytes) {
      bytes += more;
    } else {
      found.resize(before);
    }
  }
  std::ranges::sort(found);
  return found;
}

}  // namespace reprise::engine
