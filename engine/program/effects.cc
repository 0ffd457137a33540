#include "engine/program/effects.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

#include "engine/program/private_values.h"
#include "engine/trace/frontend.h"

namespace reprise::engine {
namespace {

constexpr uint32_t kNever = ~uint32_t{0};

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

// The op makes or writes a value that is in `values`.
bool WritesAny(const TracedOp& op, const std::vector<bool>& values) {
  return std::ranges::any_of(op.results,
                             [&values](const ResultSpec& result) {
                               return result.kind == ResultSpec::Kind::kValue &&
                                      values[result.value];
                             }) ||
         std::ranges::any_of(op.operands, [&values](const ValueRef& operand) {
           return operand.written && values[operand.value];
         });
}

// Which values can be made again, in program order. An op that is passed may be
// the last one that the program has asked for.
class Remaking {
 public:
  Remaking(const Trace& trace, const std::vector<bool>& inputs,
           const std::vector<bool>& privates, Effects::Remake remake)
      : trace_(trace),
        remake_(remake),
        private_(privates),
        users_(trace.values.size()),
        overwritten_(trace.values.size(), false),
        lost_(inputs) {
    for (uint32_t k = 0; k < trace.ops.size(); ++k) {
      for (const ValueRef& operand : trace.ops[k].operands) {
        users_[operand.value].push_back(k);
        if (operand.written) overwritten_[operand.value] = true;
      }
      for (const ResultSpec& result : trace.ops[k].results) {
        if (result.kind != ResultSpec::Kind::kValue) continue;
        users_[result.value].push_back(k);
      }
    }
    for (ValueId v = 0; v < lost_.size(); ++v) {
      const Value& value = trace.values[v];
      if (private_[v]) continue;
      if (remake == Effects::Remake::kNothing ||
          (value.external && !trace.frontend->OwnsAddress(value.origin))) {
        lost_[v] = true;
      }
    }
  }

  // The op writes over a value that could not be made again where all ops
  // before it have been asked for.
  bool Keeps(uint32_t k) const {
    return std::ranges::any_of(trace_.ops[k].operands,
                               [this](const ValueRef& operand) {
                                 return operand.written && lost_[operand.value];
                               });
  }

  void Pass(uint32_t k) {
    const TracedOp& op = trace_.ops[k];
    bool is_lost = op.nondeterministic || remake_ == Effects::Remake::kNothing;
    for (const ValueRef& operand : op.operands) {
      is_lost |= lost_[operand.value] && ReadsAgain(operand.value);
      if (!operand.written || !external(operand.value)) continue;
      is_lost = true;
      // What is read there is there no more.
      for (ValueId v = 0; v < users_.size(); ++v) {
        if (!external(v) || !Overlap(v, operand.value)) continue;
        for (const uint32_t user : users_[v]) {
          if (user >= k) break;
          LoseWhatItMakes(user, k);
        }
      }
    }
    if (is_lost) LoseWhatItMakes(k, k);
  }

 private:
  // A private one is made by the pass when it takes it, and can be taken again.
  bool external(ValueId value) const {
    return trace_.values[value].external && !private_[value];
  }
  // Storages may lie in one memory (DLPack).
  bool Overlap(ValueId a, ValueId b) const {
    const Value& one = trace_.values[a];
    const Value& other = trace_.values[b];
    return a == b || (one.base < other.origin + other.size_bytes &&
                      other.base < one.origin + one.size_bytes);
  }
  // An op that is run again reads it as it is then, or has it made again, too.
  bool ReadsAgain(ValueId value) const {
    return external(value) || overwritten_[value];
  }

  // What the op makes or writes, and what cannot be made again without: by ops
  // that read it, or that would write over it.
  void LoseWhatItMakes(uint32_t op, uint32_t passed) {
    std::vector<uint32_t> due = {op};
    const auto lose = [&](ValueId value) {
      if (external(value) || lost_[value]) return;
      lost_[value] = true;
      if (!overwritten_[value]) return;
      for (const uint32_t user : users_[value]) {
        if (user > passed) break;
        due.push_back(user);
      }
    };
    while (!due.empty()) {
      const TracedOp& traced = trace_.ops[due.back()];
      due.pop_back();
      for (const ResultSpec& result : traced.results) {
        if (result.kind == ResultSpec::Kind::kValue) lose(result.value);
      }
      for (const ValueRef& operand : traced.operands) {
        if (operand.written) lose(operand.value);
      }
    }
  }

  const Trace& trace_;
  const Effects::Remake remake_;
  const std::vector<bool>& private_;  // by value
  // By value: the ops that make it, read it or write it, ascending.
  std::vector<std::vector<uint32_t>> users_;
  std::vector<bool> overwritten_;  // by value, in the whole trace
  std::vector<bool> lost_;         // by value
};

}  // namespace

std::vector<SlotSet> ChangingSlots(const Trace& first, const Trace& second) {
  std::vector<SlotSet> changing(first.ops.size());
  for (size_t k = 0; k < first.ops.size(); ++k) {
    const std::vector<ScalarSlot>& a = first.ops[k].slots;
    const std::vector<ScalarSlot>& b = second.ops[k].slots;
    for (size_t i = 0; i < a.size() && i < b.size(); ++i) {
      if (a[i].recorded.bits == b[i].recorded.bits) continue;
      changing[k].resize(a.size());
      changing[k][i] = true;
    }
  }
  return changing;
}

Effects Effects::Of(const Trace& first, const Trace& second, Remake remake,
                    Draws draws, uint64_t private_bytes,
                    const std::vector<bool>& named) {
  std::vector<ValueId> inputs;
  for (ValueId v = 0; v < first.values.size(); ++v) {
    const Value& a = first.values[v];
    const Value& b = second.values[v];
    if (!a.external) continue;
    if (a.arrives || a.comes_anew || b.comes_anew || a.storage != b.storage ||
        a.origin != b.origin) {
      inputs.push_back(v);
    }
  }
  std::vector<ValueId> privates =
      PrivateValues(first, inputs, named, private_bytes);
  return Effects(&first, inputs, ChangingSlots(first, second), remake,
                 std::move(draws), std::move(privates));
}

Effects::Effects(const Trace* trace, const std::vector<ValueId>& inputs,
                 std::vector<SlotSet> changing, Remake remake, Draws draws,
                 std::vector<ValueId> privates)
    : trace_(trace),
      inputs_(trace->values.size(), false),
      changing_(std::move(changing)),
      draws_(std::move(draws)),
      gates_(trace->ops.size(), Gate::kNone),
      foretold_(trace->ops.size(), false),
      tells_places_(trace->ops.size(), false),
      last_writers_(
          LastWriters(*trace, static_cast<uint32_t>(trace->ops.size()))),
      privates_(std::move(privates)),
      private_(trace->values.size(), false) {
  for (const ValueId v : privates_) private_[v] = true;
  NotePrivateWriters();
  NoteWrittenOutside();
  changing_.resize(trace->ops.size());
  std::vector<bool> tells(trace->ops.size(), false);
  for (const ValueId v : inputs) {
    inputs_[v] = true;
    tells[trace->values[v].birth_op] = true;
  }
  Remaking remaking(*trace, inputs_, private_, remake);
  for (uint32_t k = 0; k < gates_.size(); ++k) {
    gates_[k] = GateOf(k, tells[k], remaking.Keeps(k));
    // Who knows that the op comes does not know that switches were set.
    tells_places_[k] =
        changing_[k].empty() && !draws_.Waits(k) && !OtherSwitches(k);
    foretold_[k] = tells_places_[k] && !tells[k];
    remaking.Pass(k);
  }
}

void Effects::NotePrivateWriters() {
  first_private_writers_.resize(trace_->values.size(), kNever);
  for (uint32_t k = 0; k < trace_->ops.size(); ++k) {
    bool writes = false;
    for (const ValueRef& operand : trace_->ops[k].operands) {
      if (!operand.written || !private_[operand.value]) continue;
      writes = true;
      uint32_t& first = first_private_writers_[operand.value];
      first = std::min(first, k);
    }
    if (writes) private_writers_.push_back(k);
  }
}

void Effects::NoteWrittenOutside() {
  std::vector<bool> written(trace_->values.size(), false);
  for (const TracedOp& op : trace_->ops) {
    for (const ValueRef& operand : op.operands) {
      const ValueId v = operand.value;
      if (!operand.written || written[v] || !trace_->values[v].external)
        continue;
      written[v] = true;
      outside_.push_back(v);
    }
  }
}

bool Effects::OtherSwitches(uint32_t op) const {
  return op > 0 && trace_->ops[op].switches != trace_->ops[op - 1].switches;
}

Effects::Gate Effects::GateOf(uint32_t op, bool tells, bool keeps) const {
  const TracedOp& traced = trace_->ops[op];
  const bool outside =
      std::ranges::any_of(traced.operands, [this](const ValueRef& operand) {
        return operand.written && trace_->values[operand.value].external &&
               !private_[operand.value];
      });
  if (outside) return Gate::kOutside;
  if (tells) return Gate::kInput;
  const bool shared =
      std::ranges::any_of(traced.operands, [this](const ValueRef& operand) {
        const Value& value = trace_->values[operand.value];
        return value.external && value.shared;
      });
  if (shared) return Gate::kShared;
  if (!changing_[op].empty()) return Gate::kNumber;
  if (draws_.Waits(op)) return Gate::kGenerator;
  if (OtherSwitches(op)) return Gate::kSwitches;
  if (traced.may_trap) return Gate::kTrap;
  if (keeps) return Gate::kRemake;
  if (op > 0 && trace_->ops[op - 1].nondeterministic) return Gate::kSubstitute;
  return Gate::kNone;
}

std::vector<ValueId> Effects::PrivatesWrittenBefore(uint32_t end_op) const {
  std::vector<ValueId> written;
  std::ranges::copy_if(privates_, std::back_inserter(written), [&](ValueId v) {
    return first_private_writers_[v] < end_op;
  });
  return written;
}

Effects::Restoration Effects::ToRestore(
    uint32_t verified, uint32_t launched,
    const std::function<bool(ValueId)>& needed) const {
  const Trace& trace = *trace_;
  const std::vector<uint32_t> last = LastWriters(trace, launched);
  std::vector<bool> remade(trace.values.size(), false);
  bool any = false;
  const auto remake = [&](ValueId v) {
    if (last[v] < verified) return;
    remade[v] = true;
    any = true;
  };
  for (ValueId v = 0; v < trace.values.size(); ++v) {
    const Value& value = trace.values[v];
    if (!value.external && value.birth_op < verified && needed(v)) remake(v);
  }
  for (const ValueId v : PrivatesWrittenBefore(verified)) remake(v);
  Restoration found;
  if (!any) return found;

  std::vector<bool> chosen(verified, false);
  for (bool grew = true; grew;) {
    grew = false;
    for (uint32_t k = verified; k-- > 0;) {
      const TracedOp& op = trace.ops[k];
      if (!chosen[k]) {
        if (!WritesAny(op, remade)) continue;
        chosen[k] = true;
        grew = true;
      }
      // What a chosen op writes is made again as a whole, and what it reads
      // must be as it was at that op.
      for (const ValueRef& operand : op.operands) {
        const ValueId v = operand.value;
        if ((trace.values[v].external && !private_[v]) || remade[v]) continue;
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
    if (chosen[k]) found.ops.push_back(k);
  }
  std::ranges::copy_if(privates_, std::back_inserter(found.taken),
                       [&remade](ValueId v) { return remade[v]; });
  return found;
}

}  // namespace reprise::engine
