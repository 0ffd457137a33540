#include "engine/replay/external_binder.h"

#include <algorithm>
#include <cstddef>
#include <iterator>

namespace reprise::engine {

ExternalBinder::ExternalBinder(const Program* program, Binding* binding)
    : program_(program),
      trace_(program->trace.get()),
      binding_(binding),
      watched_(trace_->values.size(), false) {
  const Effects& effects = program_->effects;
  for (ValueId v = 0; v < trace_->values.size(); ++v) {
    const Value& value = trace_->values[v];
    if (value.external && !effects.input(v)) {
      watched_[v] = true;
      lasting_.push_back(v);
    }
    if (effects.late(v)) late_births_.push_back(value.birth_op);
  }
  std::ranges::sort(late_births_);
  for (uint32_t k = 0; k < trace_->ops.size(); ++k) {
    for (const ValueRef& operand : trace_->ops[k].operands) {
      const ValueId v = operand.value;
      if (effects.input(v) && k > trace_->values[v].birth_op) {
        watched_[v] = true;
      }
    }
  }
}

void ExternalBinder::NoteIfUnproven(const ValueRef& ref,
                                    const Operand& operand) {
  const uint64_t origin = operand.address() - ref.offset_bytes;
  if (!program_->movable[ref.value] &&
      origin != trace_->values[ref.value].origin) {
    unproven_.push_back(ref.value);
  }
}

void ExternalBinder::Bind(const ValueRef& ref, const Operand& operand,
                          StorageHolds& holds) {
  // The trace's own storages are weakly held by it.
  if (watched_[ref.value] &&
      operand.storage != trace_->values[ref.value].storage) {
    holds.Watch(operand.storage);
  }
  binding_->BindExternal(ref, operand);
}

bool ExternalBinder::BindHead(const OpView& head, StorageHolds& holds) {
  const TracedOp& expected = trace_->ops[0];
  unproven_.clear();
  for (size_t i = 0; i < head.operands.size(); ++i) {
    NoteIfUnproven(expected.operands[i], head.operands[i]);
  }
  if (!unproven_.empty()) return false;
  for (size_t i = 0; i < head.operands.size(); ++i) {
    Bind(expected.operands[i], head.operands[i], holds);
  }
  // The copy of a private value was made for one storage.
  for (size_t i = 0; i < head.operands.size(); ++i) {
    const ValueId v = expected.operands[i].value;
    if (!program_->effects.is_private(v)) continue;
    if (binding_->IsMoved(v)) {
      unproven_.push_back(v);
      return false;
    }
    if (head.operands[i].storage_bytes != trace_->values[v].size_bytes) {
      return false;
    }
  }
  return true;
}

bool ExternalBinder::IsApart(const OpView& head,
                             std::span<const ValueId> elsewhere) const {
  for (size_t i = 0; i < head.operands.size(); ++i) {
    if (!binding_->Apart(head.operands[i], trace_->ops[0].operands[i].value,
                         elsewhere)) {
      return false;
    }
  }
  return true;
}

ExternalBinder::Late ExternalBinder::BindLate(
    uint32_t index, const OpView& op, std::span<const ValueId> elsewhere,
    StorageHolds& holds) {
  const TracedOp& expected = trace_->ops[index];
  const auto brings = [&](const ValueRef& ref) {
    return program_->effects.late(ref.value) &&
           trace_->values[ref.value].birth_op == index;
  };
  unproven_.clear();
  for (size_t i = 0; i < op.operands.size(); ++i) {
    const ValueRef& ref = expected.operands[i];
    if (!brings(ref)) continue;
    if (!binding_->Apart(op.operands[i], ref.value, elsewhere)) {
      return {Readiness::kOtherOp};
    }
    NoteIfUnproven(ref, op.operands[i]);
  }
  if (!unproven_.empty()) return {Readiness::kUnproven};
  Late late;
  for (size_t i = 0; i < op.operands.size(); ++i) {
    const ValueRef& ref = expected.operands[i];
    if (!brings(ref)) continue;
    Bind(ref, op.operands[i], holds);
    late.bound = true;
  }
  return late;
}

bool ExternalBinder::Tell(uint32_t cursor, uint32_t end_op,
                          std::span<const KnownOperand> operands,
                          std::span<const ValueId> elsewhere,
                          StorageHolds& holds) {
  ForgetTold();
  for (const KnownOperand& operand : operands) {
    const ValueId v = operand.ref.value;
    const uint32_t birth = trace_->values[v].birth_op;
    const bool tells = program_->effects.late(v) && birth >= cursor &&
                       birth < end_op &&
                       std::ranges::find(told_, v) == told_.end();
    if (tells) {
      unproven_.clear();
      NoteIfUnproven(operand.ref, operand.at);
      if (!unproven_.empty() || !binding_->Apart(operand.at, v, elsewhere)) {
        return false;
      }
      Bind(operand.ref, operand.at, holds);
      told_.push_back(v);
    } else if (!binding_->IsAt(operand.ref, operand.at.storage,
                               operand.at.address())) {
      return false;
    }
  }
  const auto late = [this](uint32_t op) {
    return std::ranges::lower_bound(late_births_, op) - late_births_.begin();
  };
  if (late(end_op) - late(cursor) != std::ssize(told_)) return false;
  told_end_ = end_op;
  return true;
}

bool ExternalBinder::Stand() const {
  return std::ranges::all_of(lasting_,
                             [this](ValueId v) { return binding_->Stands(v); });
}

}  // namespace reprise::engine
