#include "engine/replay/binding.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <numeric>
#include <optional>
#include <utility>

namespace reprise::engine {
namespace {

// Two slots hold one number, and did when the op was recorded.
bool SameNumbers(const ScalarSlot& a, const ScalarSlot& b, const OpView& op) {
  return a.recorded.bits == b.recorded.bits &&
         a.recorded.type == b.recorded.type &&
         op.scalars[a.scalar].bits == op.scalars[b.scalar].bits;
}

}  // namespace

Binding::Binding(const Program* program, std::vector<uint64_t> places,
                 Executor* executor)
    : program_(program),
      trace_(program->trace.get()),
      executor_(executor),
      places_(std::move(places)),
      bound_(trace_->values.size()),
      shadow_(trace_->values.size()),
      outputs_(program->Outputs()) {
  arena_begin_ = ~uint64_t{0};
  for (const ValueId v : outputs_) {
    arena_begin_ = std::min(arena_begin_, places_[v]);
    arena_end_ = std::max(arena_end_, places_[v] + program_->place_bytes[v]);
  }
  for (ValueId v = 0; v < bound_.size(); ++v) {
    const Value& value = trace_->values[v];
    bound_[v].origin = value.external ? value.origin : places_[v];
    if (!value.external) continue;
    bound_[v].place = {value.storage, value.base};
    bound_[v].end = value.origin + value.size_bytes;
  }
}

bool Binding::Stands(ValueId value) const {
  const StoragePlace& place = bound_[value].place;
  const Frontend& frontend = *trace_->frontend;
  return place.storage == nullptr ||
         (frontend.Alive(place.storage) &&
          frontend.Base(place.storage) == place.base);
}

void Binding::BindAt(ValueId value, uint64_t origin) {
  if (bound_[value].origin == origin) return;
  bound_[value].origin = origin;
  if (!program_->effects.is_private(value)) executor_->Bind(value, origin);
}

void Binding::BindExternal(const ValueRef& ref, const Operand& operand) {
  BindAt(ref.value, operand.address() - ref.offset_bytes);
  bound_[ref.value].place = {operand.storage, operand.base};
  bound_[ref.value].end = operand.base + operand.storage_bytes;
}

void Binding::BindOutput(ValueId value, uint64_t origin) {
  BindAt(value, origin);
  bound_[value].place = {};
}

kernels::RangeCopy Binding::Taking(ValueId value) const {
  return {places_[value], bound_[value].origin,
          trace_->values[value].size_bytes};
}

bool Binding::IsMoved(ValueId value) const {
  const Value& recorded = trace_->values[value];
  const Bound& bound = bound_[value];
  return recorded.external && (bound.origin != recorded.origin ||
                               bound.place.base != recorded.base ||
                               bound.place.storage != recorded.storage);
}

bool Binding::IsReplaced(ValueId value) const {
  const Value& recorded = trace_->values[value];
  const Frontend& frontend = *trace_->frontend;
  return !frontend.Alive(recorded.storage) ||
         frontend.Base(recorded.storage) != recorded.base;
}

Executor::Fit Binding::BindNumbers(uint32_t index, const OpView& op) {
  if (program_->effects.changing(index).empty()) return Executor::Fit::kBound;
  numbers_.clear();
  for (const ScalarSlot& slot : trace_->ops[index].slots) {
    numbers_.push_back(op.scalars[slot.scalar].bits);
  }
  return executor_->SetScalars(index, numbers_);
}

void Binding::Shadow(ValueId value, const StoragePlace& place) {
  shadow_[value] = place;
  shadowed_ = true;
}

void Binding::EndShadows() {
  if (shadowed_) std::ranges::fill(shadow_, StoragePlace{});
  shadowed_ = false;
}

bool Binding::SameWords(uint32_t index, const OpView& op) const {
  const TracedOp& expected = trace_->ops[index];
  if (op.op != expected.op || op.words.size() != expected.words.size() ||
      op.operands.size() != expected.operands.size()) {
    return false;
  }
  if (std::memcmp(op.words.data(), expected.words.data(),
                  op.words.size_bytes()) == 0) [[likely]] {
    return true;
  }
  return !expected.slots.empty() &&
         SameWordsAround(expected, &program_->effects.changing(index), op);
}

bool Binding::SameWordsAround(const TracedOp& expected, const SlotSet* changing,
                              const OpView& op) const {
  const auto same = [&](size_t begin, size_t end) {
    // Between elements of a list there is a word.
    if (end - begin == 1) return op.words[begin] == expected.words[begin];
    return std::memcmp(op.words.data() + begin, expected.words.data() + begin,
                       (end - begin) * sizeof(uint64_t)) == 0;
  };
  size_t next = 0;
  for (size_t i = 0; i < expected.slots.size(); ++i) {
    const ScalarSlot& slot = expected.slots[i];
    const Scalar& recorded = slot.recorded;
    if (!same(next, recorded.word)) return false;
    next = recorded.word + 1;
    // Words that follow may say that this op has no slots.
    if (slot.scalar >= op.scalars.size()) return false;
    const Scalar& now = op.scalars[slot.scalar];
    if (now.word != recorded.word) return false;
    const bool may_change =
        changing == nullptr || (!changing->empty() && (*changing)[i]);
    if (!may_change) {
      if (now.bits != recorded.bits) return false;
    } else if (i == 0 || !SameNumbers(expected.slots[i - 1], slot, op)) {
      if (Marker(now) != Marker(recorded)) return false;
    }
  }
  return same(next, op.words.size());
}

bool Binding::SameBound(uint32_t index, const OpView& op) const {
  if (index == 0) return true;
  const TracedOp& expected = trace_->ops[index];
  for (size_t i = 0; i < op.operands.size(); ++i) {
    const ValueRef& ref = expected.operands[i];
    const Value& value = trace_->values[ref.value];
    if (program_->effects.late(ref.value) && value.birth_op == index) continue;
    const uint64_t origin = shadowed_ && !value.external
                                ? shadow_[ref.value].base
                                : bound_[ref.value].origin;
    if (op.operands[i].address() != origin + ref.offset_bytes) return false;
  }
  return true;
}

bool Binding::Matches(uint32_t index, const OpView& op) const {
  if (!SameWords(index, op)) return false;
  const TracedOp& expected = trace_->ops[index];
  for (size_t i = 0; i < op.operands.size(); ++i) {
    const Operand& operand = op.operands[i];
    if (!IsAt(expected.operands[i], operand.storage, operand.address())) {
      return false;
    }
  }
  return true;
}

bool Binding::MatchesShadow(uint32_t index, const OpView& op) const {
  if (!SameWords(index, op)) return false;
  const TracedOp& expected = trace_->ops[index];
  for (size_t i = 0; i < op.operands.size(); ++i) {
    const ValueRef& ref = expected.operands[i];
    const bool external = trace_->values[ref.value].external;
    const Bound& bound = bound_[ref.value];
    const StoragePlace& shadow = shadow_[ref.value];
    const uint64_t origin = external ? bound.origin : shadow.base;
    if (op.operands[i].address() != origin + ref.offset_bytes) return false;
    if (op.operands[i].storage !=
        (external ? bound.place.storage : shadow.storage)) {
      return false;
    }
  }
  return true;
}

bool Binding::OtherNumbers(uint32_t index, const OpView& op) const {
  const TracedOp& expected = trace_->ops[index];
  return !expected.slots.empty() && op.op == expected.op &&
         op.words.size() == expected.words.size() &&
         op.operands.size() == expected.operands.size() &&
         !SameWordsAround(expected, &program_->effects.changing(index), op) &&
         SameWordsAround(expected, nullptr, op) && SameBound(index, op);
}

bool Binding::Apart(const Operand& operand, ValueId value,
                    std::span<const ValueId> elsewhere) const {
  const uint64_t begin = operand.base;
  const uint64_t end = begin + operand.storage_bytes;
  const auto apart = [&](ValueId v, uint64_t origin) {
    return end <= origin || origin + program_->place_bytes[v] <= begin;
  };
  if (begin < arena_end_ && arena_begin_ < end) {
    for (const ValueId v : outputs_) {
      if (!apart(v, bound_[v].origin)) return false;
    }
  }
  for (const ValueId v : elsewhere) {
    if (!apart(v, bound_[v].origin)) return false;
  }
  // What the program has there is written behind the pass only.
  for (const ValueId v : program_->effects.privates()) {
    const Bound& bound = bound_[v];
    if (v != value && bound.place.base < end &&
        begin < bound.origin + trace_->values[v].size_bytes) {
      return false;
    }
  }
  if (!shadowed_) return true;
  // Eager gives the memory of what the program has dropped to what comes next.
  return std::ranges::all_of(outputs_, [&](ValueId v) {
    const StoragePlace& shadow = shadow_[v];
    return shadow.storage == nullptr || apart(v, shadow.base) ||
           !trace_->frontend->Alive(shadow.storage);
  });
}

bool Binding::MovesOntoWrites(const OpView& head) const {
  const std::vector<ValueRef>& refs = trace_->ops[0].operands;
  for (size_t i = 0; i < refs.size(); ++i) {
    const ValueId v = refs[i].value;
    if (program_->effects.input(v) || !IsMoved(v)) continue;
    const Operand& operand = head.operands[i];
    for (const ValueId written : program_->effects.written_outside()) {
      const uint64_t end =
          bound_[written].origin + trace_->values[written].size_bytes;
      if (written != v && operand.base < end &&
          bound_[written].place.base < operand.base + operand.storage_bytes) {
        return true;
      }
    }
  }
  return false;
}

bool Binding::WritesWhereItMoved(uint32_t index) const {
  return program_->effects.writes_outside(index) &&
         std::ranges::any_of(
             trace_->ops[index].operands,
             [this](const ValueRef& ref) { return IsMoved(ref.value); });
}

bool Binding::WritesApart(uint32_t index, const OpView& op) const {
  if (!WritesWhereItMoved(index)) return true;
  std::vector<Extent> extents;
  for (const Operand& operand : op.operands) {
    extents.push_back({operand.base, operand.base + operand.storage_bytes});
  }
  return WritesApart(trace_->ops[index].operands, extents);
}

bool Binding::WritesApart(uint32_t index) const {
  if (!WritesWhereItMoved(index)) return true;
  std::vector<Extent> extents;
  for (const ValueRef& ref : trace_->ops[index].operands) {
    const Bound& bound = bound_[ref.value];
    extents.push_back(
        trace_->values[ref.value].external
            ? Extent{bound.place.base, bound.end}
            : Extent{bound.origin,
                     bound.origin + program_->place_bytes[ref.value]});
  }
  return WritesApart(trace_->ops[index].operands, extents);
}

bool Binding::WritesApart(const std::vector<ValueRef>& refs,
                          const std::vector<Extent>& extents) const {
  std::vector<size_t> by_place(refs.size());
  std::iota(by_place.begin(), by_place.end(), size_t{0});
  std::ranges::sort(by_place, {}, [&extents](size_t i) {
    return std::pair(extents[i].begin, extents[i].end);
  });
  // Of those that begin earlier, the ones that reach furthest.
  std::optional<size_t> any;
  std::optional<size_t> written;
  for (const size_t i : by_place) {
    const std::optional<size_t>& other = refs[i].written ? any : written;
    if (other.has_value() && refs[*other].value != refs[i].value &&
        extents[i].begin < extents[*other].end) {
      return false;
    }
    if (!any.has_value() || extents[*any].end < extents[i].end) any = i;
    if (refs[i].written &&
        (!written.has_value() || extents[*written].end < extents[i].end)) {
      written = i;
    }
  }
  return true;
}

bool Binding::Made(uint32_t index, size_t operand, const Operand& given) const {
  const std::vector<ValueRef>& refs = trace_->ops[index].operands;
  if (operand >= refs.size()) return false;
  const ValueRef& ref = refs[operand];
  if (trace_->values[ref.value].external) return false;
  return shadowed_
             ? shadow_[ref.value].storage == given.storage
             : bound_[ref.value].origin + ref.offset_bytes == given.address();
}

}  // namespace reprise::engine
