#include "engine/program/private_values.h"

#include <algorithm>
#include <cstddef>

#include "engine/trace/frontend.h"
#include "kernels/byte_runs.h"
#include "kernels/strided_layout.h"

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
  bool written = false;
  bool other = false;  // it cannot be private for what one of them does
};

std::vector<Use> UsesOf(const Trace& trace) {
  std::vector<Use> uses(trace.values.size());
  for (const TracedOp& op : trace.ops) {
    for (const ValueRef& operand : op.operands) {
      Use& use = uses[operand.value];
      use.written |= operand.written;
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

// Calls `visit` with each external that the op writes.
template <typename Visit>
void ForEachWritten(const Trace& trace, const TracedOp& op, Visit visit) {
  for (const ValueRef& operand : op.operands) {
    if (operand.written && trace.values[operand.value].external) {
      visit(operand.value);
    }
  }
}

// An op of which all that it writes outside is not chosen has to wait for the
// program anyway: none of it is chosen then.
void AllOrNone(const Trace& trace, std::vector<bool>& chosen) {
  for (bool narrower = true; narrower;) {
    narrower = false;
    for (const TracedOp& op : trace.ops) {
      bool some = false;
      bool all = true;
      ForEachWritten(trace, op, [&](ValueId v) {
        some |= chosen[v];
        all &= chosen[v];
      });
      if (!some || all) continue;
      ForEachWritten(trace, op, [&](ValueId v) { chosen[v] = false; });
      narrower = true;
    }
  }
}

// A writer right in front of an op that waits for the program waits with it:
// that is one launch more, and copies would be two.
// Those in front of it that would then wait, too, keep their copies: a row of
// them would be as many launches.
void NotInFrontOfWaiting(const Trace& trace, std::vector<bool>& chosen) {
  std::vector<bool> in_front(chosen.size(), true);
  bool next_waits = false;
  for (size_t k = trace.ops.size(); k-- > 0;) {
    bool waits = false;
    ForEachWritten(trace, trace.ops[k], [&](ValueId v) {
      waits |= !chosen[v];
      if (!next_waits) in_front[v] = false;
    });
    next_waits = waits;
  }
  for (ValueId v = 0; v < chosen.size(); ++v) {
    if (in_front[v]) chosen[v] = false;
  }
}

// The ones that are written first.
void AtMost(const Trace& trace, uint64_t most_bytes,
            std::vector<bool>& chosen) {
  std::vector<bool> counted(chosen.size(), false);
  uint64_t bytes = 0;
  for (const TracedOp& op : trace.ops) {
    ForEachWritten(trace, op, [&](ValueId v) {
      if (!chosen[v] || counted[v]) return;
      counted[v] = true;
      bytes += trace.values[v].size_bytes;
      if (bytes > most_bytes) chosen[v] = false;
    });
  }
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
    chosen[v] = value.external && !value.arrives && uses[v].written &&
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
  AllOrNone(trace, chosen);
  AtMost(trace, kMostOfAll * most_bytes, chosen);
  AllOrNone(trace, chosen);
  NotInFrontOfWaiting(trace, chosen);
  AllOrNone(trace, chosen);
  std::vector<ValueId> found;
  for (ValueId v = 0; v < chosen.size(); ++v) {
    if (chosen[v]) found.push_back(v);
  }
  return found;
}

}  // namespace reprise::engine
