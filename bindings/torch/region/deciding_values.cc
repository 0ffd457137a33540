#include "bindings/torch/region/deciding_values.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "bindings/torch/base/ivalues.h"
#include "bindings/torch/base/plain_tensor.h"
#include "bindings/torch/region/tape_ops.h"
#include "bindings/torch/runtime/op_policy.h"
#include "bindings/torch/runtime/session_source.h"

namespace reprise::bindings {
namespace {

using Origin = TapeRegister::Origin;

}  // namespace

void DecidingValues::NoteNumbers(std::span<const c10::IValue> arguments) {
  const auto note = [this](double value) {
    record_.arithmetic.deciding.push_back(std::abs(value));
    for (size_t i = 0; i < record_.numbers.values.size(); ++i) {
      if (std::abs(record_.numbers.values[i]) == std::abs(value)) {
        record_.numbers.decides[i] = true;
      }
    }
  };
  for (const c10::IValue& argument : arguments) {
    if (argument.isDouble()) note(argument.toDouble());
    if (!argument.isList()) continue;
    for (const c10::IValue& element : argument.toListRef()) {
      if (element.isDouble()) note(element.toDouble());
    }
  }
}

void DecidingValues::NoteTensors(const c10::OperatorHandle& op,
                                 std::span<const c10::IValue> arguments) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!DecidesByValues(op, i) || !arguments[i].isTensor()) continue;
    const at::Tensor& tensor = arguments[i].toTensor();
    if (!tensor.defined()) continue;
    if (!tensor.device().is_cpu()) {  // it is copied to the host
      fault_.Refuse(Refusal::kSizeDependsOnData, op);
      return;
    }
    NoteContentsBehind(tensor, FullName(op.operator_name()) + ": '" +
                                   op.schema().arguments()[i].name() + "'");
  }
}

DecidingValues::Origins DecidingValues::FindOrigins(
    const c10::StorageImpl* storage) {
  Origins found{.storages = {storage}};
  StorageSet& from = found.storages;
  for (size_t c = record_.calls.size(); c-- > 0;) {
    const TapeCall& call = record_.calls[c];
    const auto is_from = [&](int32_t reg) {
      return reg >= 0 && from.contains(names_.StorageOf(reg));
    };
    bool makes = std::ranges::any_of(call.results, is_from);
    for (size_t i = 0; i < call.arguments.size(); ++i) {
      makes |= Writes(call.op, i) &&
               std::ranges::any_of(call.arguments[i].registers, is_from);
    }
    if (!makes) continue;
    found.drawn |= Draws(call.op) || call.calls_python;
    found.unwritten |= LeavesUnwritten(call.op);
    const bool by_values = DecidesByValues(call.op);
    for (size_t i = 0; i < call.arguments.size(); ++i) {
      if (by_values && !DecidesByValues(call.op, i)) continue;
      NoteNumbers({&call.arguments[i].value, 1});
      for (const int32_t reg : call.arguments[i].registers) {
        if (reg >= 0) from.insert(names_.StorageOf(reg));
      }
    }
  }
  return found;
}

const c10::TensorImpl* DecidingValues::LookBefore(size_t reg) const {
  const TapeRegister& of = record_.registers[reg];
  const bool gone = of.foreign.has_value() && of.foreign->use_count() == 0;
  const c10::TensorImpl* const given =
      of.origin == Origin::kInput    ? inputs_[of.index].unsafeGetTensorImpl()
      : gone && of.content.defined() ? of.content.unsafeGetTensorImpl()
      : of.foreign.has_value() && !gone ? of.foreign->_unsafe_get_target()
                                        : nullptr;
  const bool is_there = given != nullptr && of.form.device.is_cpu() &&
                        !effects_.WritesTo(names_.storages()[reg]) &&
                        given->numel() * given->itemsize() <= kMostContentBytes;
  return is_there ? given : nullptr;
}

bool DecidingValues::NoteContentsOf(const StorageSet& from, bool inputs_too) {
  for (size_t reg = 0; reg < record_.registers.size(); ++reg) {
    const Origin origin = record_.registers[reg].origin;
    if (origin == Origin::kResult || !from.contains(names_.storages()[reg])) {
      continue;
    }
    const c10::TensorImpl* const given = LookBefore(reg);
    if (given == nullptr || (origin == Origin::kInput && !inputs_too)) {
      return false;
    }
    if (std::ranges::find(record_.contents, static_cast<int32_t>(reg),
                          &TapeContent::reg) == record_.contents.end()) {
      record_.contents.push_back(
          {static_cast<int32_t>(reg), CopyHostTensor(*given)});
    }
  }
  return true;
}

void DecidingValues::NoteContentsBehind(const at::Tensor& tensor,
                                        const std::string& reader) {
  // What has run ahead may write what is looked at.
  InterruptSessions("values of the host are read");
  names_.RegisterOf(tensor);
  if (!tensor.has_storage() || fault_.refused()) return;
  const auto [from, drawn, unwritten] =
      FindOrigins(tensor.storage().unsafeGetStorageImpl());
  if (drawn) fault_.Refuse(Refusal::kDecidedByDrawn, reader);
  if (!NoteContentsOf(from, /*inputs_too=*/true)) {
    fault_.Refuse(Refusal::kDecidedByDistant, reader);
  }
}

bool DecidingValues::KnowsSizes(const c10::OperatorHandle& op,
                                std::span<const c10::IValue> arguments) {
  // A mask says how much is taken of the first one.
  if (PicksByIndices(op) || op.operator_name().name == "aten::masked_select") {
    arguments = arguments.subspan(1);
  }
  StorageSet from;
  bool by_calls = true;  // alone
  bool on_host = true;
  ForTensors(arguments, [&](const at::Tensor& tensor) {
    if (!tensor.defined()) return;
    on_host &= tensor.device().is_cpu() && tensor.has_storage();
    if (!on_host) return;
    names_.RegisterOf(tensor);
    Origins found = FindOrigins(tensor.storage().unsafeGetStorageImpl());
    by_calls &= !found.drawn && !found.unwritten;
    from.merge(found.storages);
  });
  if (!on_host || !by_calls || fault_.refused()) return false;
  InterruptSessions("values of the host are read");
  return NoteContentsOf(from, /*inputs_too=*/false);
}

bool DecidingValues::MayVary(size_t index) const {
  if (record_.numbers.values.empty()) return false;
  const TapeCall& call = record_.calls[index];
  for (size_t i = 0; i < call.arguments.size(); ++i) {
    const c10::IValue& value = call.arguments[i].value;
    if (!value.isDouble() || IsProbability(call.op, i)) continue;
    // By its bits, as the matcher: of nan, too.
    const auto size = std::bit_cast<uint64_t>(std::abs(value.toDouble()));
    if (std::ranges::any_of(record_.numbers.values, [size](double number) {
          return std::bit_cast<uint64_t>(std::abs(number)) == size;
        })) {
      return true;
    }
  }
  return false;
}

}  // namespace reprise::bindings
