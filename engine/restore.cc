#include "engine/restore.h"

#include <algorithm>

namespace reprise::engine {
namespace {

// The last op of [0, launched) that writes each value; its birth if none does.
std::vector<uint32_t> LastWriters(const Trace& trace, uint32_t launched) {
  std::vector<uint32_t> last(trace.values.size());
  for (size_t v = 0; v < last.size(); ++v) last[v] = trace.values[v].birth_op;
  for (uint32_t k = 0; k < launched; ++k) {
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
  return std::any_of(op.operands.begin(), op.operands.end(),
                     [value](const ValueRef& operand) {
                       return operand.written && operand.value == value;
                     });
}

}  // namespace

std::vector<uint32_t> OpsToRestore(const Trace& trace, uint32_t verified,
                                   uint32_t launched,
                                   const std::function<bool(ValueId)>& needed) {
  const std::vector<uint32_t> last = LastWriters(trace, launched);
  std::vector<bool> rebuild(trace.values.size(), false);
  bool any = false;
  for (ValueId v = 0; v < trace.values.size(); ++v) {
    const Value& value = trace.values[v];
    if (value.external || value.birth_op >= verified) continue;
    if (last[v] >= verified && needed(v)) {
      rebuild[v] = true;
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
        for (ValueId v = 0; v < rebuild.size() && !writes; ++v) {
          writes = rebuild[v] && Writes(op, k, trace, v);
        }
        if (!writes) continue;
        chosen[k] = true;
        grew = true;
      }
      // What a chosen op writes is rebuilt as a whole, and what it reads must
      // be as it was at that op.
      for (const ValueRef& operand : op.operands) {
        const ValueId v = operand.value;
        if (trace.values[v].external || rebuild[v]) continue;
        if (operand.written || last[v] > k) {
          rebuild[v] = true;
          grew = true;
        }
      }
      for (const ResultSpec& result : op.results) {
        if (result.kind != ResultSpec::Kind::kValue) continue;
        const ValueId v = result.value;
        if (!trace.values[v].external && !rebuild[v] && last[v] > k) {
          rebuild[v] = true;
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
