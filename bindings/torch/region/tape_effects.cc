#include "bindings/torch/region/tape_effects.h"

#include <algorithm>

#include "bindings/torch/region/tape_ops.h"

namespace reprise::bindings {

void TapeEffects::Note(size_t index, std::span<const c10::IValue> arguments) {
  const TapeCall& call = record_.calls[index];
  const bool off = IsOff(call.op, arguments);
  const bool secretly = WritesSecretly(call.op) && !off;
  for (size_t i = 0; i < call.arguments.size(); ++i) {
    if (!secretly && !Writes(call.op, i)) continue;
    // A result may be a view of what is not.
    for (const int32_t reg : call.arguments[i].registers) {
      if (reg < 0 || !names_.IsOutside(reg)) continue;
      const TapeRegister& of = record_.registers[static_cast<size_t>(reg)];
      if (Writes(call.op, i) || (of.origin == TapeRegister::Origin::kForeign &&
                                 !of.form.requires_grad)) {
        written_outside_.insert(names_.StorageOf(reg));
      }
    }
  }
  draws_ |= Draws(call.op);
  const bool changes = secretly || (DrawsForGood(call.op, arguments) && !off);
  if (changes || !written_outside_.empty()) NoteChange(index);
}

void TapeEffects::NotePython(size_t call) {
  calls_python_ = true;
  draws_ = true;
  NoteChange(call);
}

void TapeEffects::NoteHooks(size_t call) { NoteChange(call); }

void TapeEffects::NoteChange(size_t call) {
  pure_ = false;
  record_.first_effect = std::min(record_.first_effect, call);
}

}  // namespace reprise::bindings
