#include "engine/segments.h"

#include <algorithm>

namespace reprise::engine {

std::vector<ValueId> Inputs(const Trace& first, const Trace& second) {
  std::vector<ValueId> inputs;
  for (ValueId v = 0; v < first.values.size(); ++v) {
    const Value& a = first.values[v];
    const Value& b = second.values[v];
    if (!a.external) continue;
    if (a.storage != b.storage || a.origin != b.origin) inputs.push_back(v);
  }
  return inputs;
}

std::vector<uint64_t> ChangingSlots(const Trace& first, const Trace& second) {
  std::vector<uint64_t> changing(first.ops.size(), 0);
  for (size_t k = 0; k < first.ops.size(); ++k) {
    const std::vector<ScalarSlot>& a = first.ops[k].slots;
    const std::vector<ScalarSlot>& b = second.ops[k].slots;
    for (size_t i = 0; i < a.size() && i < b.size(); ++i) {
      const bool same = a[i].recorded.bits == b[i].recorded.bits;
      changing[k] |= uint64_t{!same} << i;
    }
  }
  return changing;
}

std::vector<uint32_t> OpsThatWait(const Trace& first, const Trace& second) {
  const size_t values = first.values.size();
  // Rebuilding the value reads an input of the pass.
  std::vector<bool> from_input(values, false);
  std::vector<bool> overwritten(values, false);
  for (ValueId v : Inputs(first, second)) from_input[v] = true;
  // Memory that goes without a word is as good as an input's.
  for (ValueId v = 0; v < values; ++v) {
    const Value& value = first.values[v];
    if (value.external && !first.frontend->OwnsAddress(value.origin)) {
      from_input[v] = true;
    }
  }
  for (const TracedOp& op : first.ops) {
    for (const ValueRef& operand : op.operands) {
      if (operand.written) overwritten[operand.value] = true;
    }
  }
  // A value that is overwritten is rebuilt in its turn, from what it came from.
  for (bool grew = true; grew;) {
    grew = false;
    const auto add = [&](ValueId v) {
      if (from_input[v]) return;
      from_input[v] = true;
      grew = true;
    };
    for (const TracedOp& op : first.ops) {
      bool reads = false;
      for (const ValueRef& operand : op.operands) {
        const ValueId v = operand.value;
        reads |= from_input[v] && (first.values[v].external || overwritten[v]);
      }
      if (!reads) continue;
      for (const ResultSpec& result : op.results) {
        if (result.kind == ResultSpec::Kind::kValue) add(result.value);
      }
      for (const ValueRef& operand : op.operands) {
        if (operand.written) add(operand.value);
      }
    }
  }
  const std::vector<uint64_t> slots = ChangingSlots(first, second);
  std::vector<uint32_t> waiting;
  for (uint32_t k = 0; k < first.ops.size(); ++k) {
    if (slots[k] != 0) {
      waiting.push_back(k);
      continue;
    }
    for (const ValueRef& operand : first.ops[k].operands) {
      if (!operand.written || !from_input[operand.value]) continue;
      waiting.push_back(k);
      break;
    }
  }
  return waiting;
}

std::vector<uint32_t> OpsThatOverwrite(const Trace& trace) {
  std::vector<uint32_t> overwriting;
  for (uint32_t k = 0; k < trace.ops.size(); ++k) {
    const std::vector<ValueRef>& operands = trace.ops[k].operands;
    if (std::any_of(operands.begin(), operands.end(),
                    [](const ValueRef& operand) { return operand.written; })) {
      overwriting.push_back(k);
    }
  }
  return overwriting;
}

std::vector<Segment> CutSegments(const Trace& trace,
                                 std::span<const ValueId> inputs,
                                 std::span<const uint32_t> waiting,
                                 std::span<const uint32_t> launches,
                                 uint32_t segment_launches) {
  const auto ops = static_cast<uint32_t>(trace.ops.size());
  std::vector<bool> gates(ops, false);
  for (ValueId v : inputs) gates[trace.values[v].birth_op] = true;
  for (uint32_t k = 0; k < ops; ++k) {
    if (trace.ops[k].may_trap) gates[k] = true;
  }
  for (uint32_t k : waiting) gates[k] = true;
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
