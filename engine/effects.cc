#include "engine/effects.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "engine/frontend.h"

namespace reprise::engine {
namespace {

// The last op of [0, end) that writes each value; its birth if none does.
std::vector<uint32_t> LastWriters(const Trace& trace, uint32_t end) {
  std::vector<uint32_t> last(trace.values.size());
  for (size_t v = 0; v < last.size(); ++v) last[v] = trace.values[v].birth_op;
  for (uint32_t k = 0; k < end; ++k) {
    for (const ValueRef& operand : trace.ops[k].operands) {
      if (operand.written) last[operand.value] = k;
    }
  }
  return last;
}

bool Writes(const TracedOp& op, uint32_t index, const Trace& trace,
            ValueId value) {
  if (!trace.values[value].external && trace.values[value].birth_op == index) {
    return true;
  }
  return std::ranges::any_of(op.operands, [value](const ValueRef& operand) {
    return operand.written && operand.value == value;
  });
}

}  // namespace

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

Effects Effects::Of(const Trace& first, const Trace& second, Remake remake) {
  std::vector<ValueId> inputs;
  for (ValueId v = 0; v < first.values.size(); ++v) {
    const Value& a = first.values[v];
    const Value& b = second.values[v];
    if (!a.external) continue;
    if (a.storage != b.storage || a.origin != b.origin) inputs.push_back(v);
  }
  return Effects(&first, inputs, ChangingSlots(first, second), remake);
}

Effects::Effects(const Trace* trace, const std::vector<ValueId>& inputs,
                 std::vector<uint64_t> changing, Remake remake)
    : trace_(trace),
      inputs_(trace->values.size(), false),
      changing_(std::move(changing)),
      gates_(trace->ops.size(), Gate::kNone),
      last_writers_(
          LastWriters(*trace, static_cast<uint32_t>(trace->ops.size()))) {
  for (const ValueId v : inputs) inputs_[v] = true;
  const std::vector<bool> unlasting =
      remake == Remake::kNothing ? std::vector<bool>(inputs_.size(), true)
                                 : Unlasting();
  std::vector<bool> tells(trace->ops.size(), false);
  for (const ValueId v : inputs) tells[trace->values[v].birth_op] = true;
  for (uint32_t k = 0; k < gates_.size(); ++k) {
    const TracedOp& op = trace->ops[k];
    if (tells[k]) {
      gates_[k] = Gate::kInput;
    } else if (this->changing(k) != 0) {
      gates_[k] = Gate::kNumber;
    } else if (op.may_trap) {
      gates_[k] = Gate::kTrap;
    } else if (std::ranges::any_of(op.operands, [&](const ValueRef& operand) {
                 return operand.written && unlasting[operand.value];
               })) {
      gates_[k] = Gate::kRemake;
    }
  }
}

std::vector<bool> Effects::Unlasting() const {
  std::vector<bool> unlasting = inputs_;
  for (ValueId v = 0; v < unlasting.size(); ++v) {
    const Value& value = trace_->values[v];
    if (value.external && !trace_->frontend->OwnsAddress(value.origin)) {
      unlasting[v] = true;
    }
  }
  std::vector<bool> overwritten(unlasting.size(), false);
  for (const TracedOp& op : trace_->ops) {
    for (const ValueRef& operand : op.operands) {
      if (operand.written) overwritten[operand.value] = true;
    }
  }
  // A value that is overwritten is made again in its turn, from what it came
  // from.
  for (bool grew = true; grew;) {
    grew = false;
    const auto add = [&](ValueId v) {
      if (unlasting[v]) return;
      unlasting[v] = true;
      grew = true;
    };
    for (const TracedOp& op : trace_->ops) {
      bool reads = false;
      for (const ValueRef& operand : op.operands) {
        const ValueId v = operand.value;
        reads |= unlasting[v] && (trace_->values[v].external || overwritten[v]);
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
  return unlasting;
}

std::vector<uint32_t> Effects::OpsToRestore(
    uint32_t verified, uint32_t launched,
    const std::function<bool(ValueId)>& needed) const {
  const Trace& trace = *trace_;
  const std::vector<uint32_t> last = LastWriters(trace, launched);
  std::vector<bool> remade(trace.values.size(), false);
  bool any = false;
  for (ValueId v = 0; v < trace.values.size(); ++v) {
    const Value& value = trace.values[v];
    if (value.external || value.birth_op >= verified) continue;
    if (last[v] >= verified && needed(v)) {
      remade[v] = true;
      any = true;
    }
  }
  std::vector<uint32_t> ops;
  if (!any) return ops;

  std::vector<bool> chosen(verified, false);
  for (bool grew = true; grew;) {
    grew = false;
    for (uint32_t k = verified; k-- > 0;) {
      const TracedOp& op = trace.ops[k];
      if (!chosen[k]) {
        bool writes = false;
        for (ValueId v = 0; v < remade.size() && !writes; ++v) {
          writes = remade[v] && Writes(op, k, trace, v);
        }
        if (!writes) continue;
        chosen[k] = true;
        grew = true;
      }
      // What a chosen op writes is made again as a whole, and what it reads
      // must be as it was at that op.
      for (const ValueRef& operand : op.operands) {
        const ValueId v = operand.value;
        if (trace.values[v].external || remade[v]) continue;
        if (operand.written || last[v] > k) {
          remade[v] = true;
          grew = true;
        }
      }
      for (const ResultSpec& result : op.results) {
        if (result.kind != ResultSpec::Kind::kValue) continue;
        const ValueId v = result.value;
        if (!trace.values[v].external && !remade[v] && last[v] > k) {
          remade[v] = true;
          grew = true;
        }
      }
    }
  }
  for (uint32_t k = 0; k < verified; ++k) {
    if (chosen[k]) ops.push_back(k);
  }
  return ops;
}

}  // namespace reprise::engine
