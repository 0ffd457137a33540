#include "bindings/torch/region/generator_states.h"

#include <torch/library.h>

#include <algorithm>
#include <mutex>

#include "bindings/torch/region/tape_ops.h"
#include "bindings/torch/runtime/kept_generator.h"

namespace reprise::bindings {
namespace {

// In the order of the operator's arguments.
enum : size_t { kGenerator, kState, kLeaves };

c10::OperatorHandle Find(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "");
}

at::Tensor StateOf(at::Generator generator) {
  const std::lock_guard lock(generator.mutex());
  return generator.get_state();
}

void SetState(at::Generator generator, const at::Tensor& state,
              bool /*leaves*/) {
  const std::lock_guard lock(generator.mutex());
  generator.set_state(state);
}

bool WritesTo(const TapeCall& call, const c10::StorageImpl* storage,
              const TapeNames& names) {
  for (size_t i = 0; i < call.arguments.size(); ++i) {
    if (!Writes(call.op, i)) continue;
    const bool writes =
        std::ranges::any_of(call.arguments[i].registers, [&](int32_t reg) {
          return reg >= 0 && names.StorageOf(reg) == storage;
        });
    if (writes) return true;
  }
  return false;
}

}  // namespace

const c10::OperatorHandle& GeneratorStates::Take() {
  static const c10::OperatorHandle op = Find("reprise::generator_state");
  return op;
}

const c10::OperatorHandle& GeneratorStates::Set() {
  static const c10::OperatorHandle op = Find("reprise::set_generator_state");
  return op;
}

bool GeneratorStates::AreOf(const c10::OperatorHandle& op) {
  return op == Take() || op == Set();
}

std::optional<Refusal> GeneratorStates::WhyNot(
    const c10::OperatorHandle& op, std::span<const c10::IValue> arguments,
    const TapeRecord& record, const TapeNames& names) {
  if (op == Take()) return std::nullopt;
  const at::Generator& generator = arguments[kGenerator].toGenerator();
  if (record.pass != TapePass::kWhole) return Refusal::kSetsInPass;
  if (!KeptGenerator::MayKeep(generator)) return Refusal::kSetsOtherGenerator;
  const TapeRegister* const reg =
      names.Find(arguments[kState].toTensor().unsafeGetTensorImpl());
  if (reg == nullptr || reg->origin != TapeRegister::Origin::kResult) {
    return Refusal::kSetsToOther;
  }
  const auto taken =
      record.calls.begin() + static_cast<std::ptrdiff_t>(reg->index);
  if (taken->op != Take() ||
      taken->arguments[kGenerator].value.toGenerator() != generator) {
    return Refusal::kSetsToOther;
  }
  const c10::StorageImpl* const storage = names.StorageOf(taken->results[0]);
  const bool is_written = std::any_of(
      taken + 1, record.calls.end(),
      [&](const TapeCall& call) { return WritesTo(call, storage, names); });
  return is_written ? std::optional(Refusal::kSetsToOther) : std::nullopt;
}

std::vector<const TapeCall*> GeneratorStates::LeftBehind(
    const TapeRecord& record, size_t call) {
  std::vector<const TapeCall*> left;
  for (size_t c = call + 1; c < record.calls.size(); ++c) {
    const TapeCall& later = record.calls[c];
    if (later.op != Set() || !later.arguments[kLeaves].value.toBool()) continue;
    const int32_t state = later.arguments[kState].registers[0];
    // Else that one is entered later.
    if (record.registers[static_cast<size_t>(state)].index < call) {
      left.push_back(&later);
    }
  }
  return left;
}

}  // namespace reprise::bindings

TORCH_LIBRARY_FRAGMENT(reprise, library) {
  namespace b = reprise::bindings;
  library.def("generator_state(Generator? generator) -> Tensor", &b::StateOf);
  library.def(
      "set_generator_state(Generator? generator, Tensor state, bool leaves) -> "
      "()",
      &b::SetState);
}
