#include "bindings/torch/region/tape_writer.h"

#include <ATen/SavedTensorHooks.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <utility>

#include "bindings/torch/base/ivalues.h"
#include "bindings/torch/region/generator_states.h"
#include "bindings/torch/region/outside_check.h"
#include "bindings/torch/region/tape_arguments.h"
#include "bindings/torch/region/tape_ops.h"
#include "bindings/torch/region/tape_results.h"
#include "bindings/torch/region/tape_views.h"
#include "bindings/torch/runtime/op_policy.h"

namespace reprise::bindings {
namespace {

using c10::DispatchKey;
using Origin = TapeRegister::Origin;

}  // namespace

TapeWriter::TapeWriter(Parts parts)
    : parts_(std::move(parts)),
      surroundings_(parts_.level, parts_.pass),
      record_{.level = parts_.level,
              .modes = surroundings_.modes(),
              .pass = parts_.pass,
              .numbers = TapeNumbers::Of(parts_.numbers, parts_.seen)},
      matcher_(parts_.expected, &record_),
      names_(record_, fault_, gradients_, watched_),
      effects_(record_, names_),
      deciding_(record_, fault_, names_, effects_, parts_.inputs),
      numbers_(record_, fault_, names_),
      reads_(record_, fault_, effects_, numbers_) {
  numbers_.Begin(parts_.watched);
  for (const at::Tensor& tensor : parts_.watched) {
    watched_.emplace(tensor.unsafeGetTensorImpl(), TensorBefore::Of(tensor));
    if (tensor.is_leaf()) gradients_.Add(tensor);
  }
  for (uint32_t i = 0; i < parts_.inputs.size(); ++i) {
    const at::Tensor& input = parts_.inputs[i];
    record_.inputs.push_back(names_.AddInput(input, i));
    const auto same =
        std::ranges::find_if(parts_.inputs, [&input](const at::Tensor& other) {
          return other.storage().is_alias_of(input.storage());
        });
    record_.placement.sharing.push_back(
        static_cast<uint32_t>(same - parts_.inputs.begin()));
  }
}

void TapeWriter::CheckSurroundings(const c10::OperatorHandle& op,
                                   std::span<const c10::IValue> arguments) {
  if (const char* const difference = surroundings_.Difference(record_.calls)) {
    fault_.Refuse(difference);
  }
  CheckHooks(arguments);
  const std::string& name = op.operator_name().name;
  if (HandsDataOut(op)) {
    reads_.Before(op, arguments);
  } else if (name.starts_with("c10d") || name.starts_with("_c10d")) {
    fault_.Refuse(Refusal::kOtherProcesses, op);
  } else if (!reads_.BeforeOther(op, arguments)) {
    reads_.SettleSizes(op, deciding_.KnowsSizes(op, arguments));
  }
  backward_.NoteCall(record_, fault_);
  if (!surroundings_.OnItsStream()) fault_.Refuse(Refusal::kSeveralStreams);
}

void TapeWriter::CheckHooks(std::span<const c10::IValue> arguments) {
  if (parts_.pass == TapePass::kBackward || !at::GradMode::is_enabled() ||
      BackwardInside::IsHere()) {
    return;
  }
  bool tracks = false;
  ForTensors(arguments, [&tracks](const at::Tensor& tensor) {
    tracks |= tensor.defined() && tensor.requires_grad();
  });
  if (!tracks) return;
  hooks_disabled_ |= TapeSurroundings::HooksAreDisabled();
  if (parts_.level == TapeLevel::kAboveAutograd && surroundings_.had_hooks()) {
    effects_.NoteHooks(record_.calls.size());
  }
  if (hooks_inside_ != 0 || !surroundings_.MoreHooks()) return;
  hooks_inside_ = TapeFault::AskForPlace();
  // Else a backward pass inside may unpack what they pack, by calls that are
  // written down: the end tells.
  if (parts_.pass == TapePass::kForward ||
      parts_.level == TapeLevel::kAboveAutograd) {
    fault_.RefuseAt(hooks_inside_, Refusal::kHooksInside);
  }
}

size_t TapeWriter::Before(const c10::OperatorHandle& op,
                          std::span<const c10::IValue> arguments) {
  if (fault_.refused()) return 0;
  CheckSurroundings(op, arguments);
  if (parts_.level == TapeLevel::kBelowAutograd &&
      parts_.pass == TapePass::kWhole) {
    if (formal_.AreAllThatIsMade(op, arguments)) {
      deciding_.NoteNumbers(arguments);  // forms may depend on them
      return kNoCall;
    }
    ForTensors(arguments, [this](const at::Tensor& tensor) {
      if (!formal_.TakeZero(tensor)) return;
      const size_t call = Write(FormalTensors::ZeroOperator(),
                                FormalTensors::ArgumentsOf(tensor));
      const c10::IValue zero = tensor;
      After(call, {&zero, 1});
    });
  }
  return Write(op, arguments);
}

size_t TapeWriter::Write(const c10::OperatorHandle& op,
                         std::span<const c10::IValue> arguments) {
  if (DecidesByValues(op)) deciding_.NoteTensors(op, arguments);
  gradients_.LookForDropped(record_.calls.size());
  const bool writes_data = names_.NoteWrites(op, arguments);
  TapeCall& call = record_.calls.emplace_back(TapeCall{.op = op});
  call.writes_data = writes_data;
  names_.NoteViews(op, arguments, record_.calls.size() - 1);
  call.grad_mode = GradientModeNow();
  if (parts_.level == TapeLevel::kBelowAutograd) call.autocast = AutocastOf(op);
  // As autograd's kernels call those below; one that counts a write, or gives a
  // view, has a kernel of its own for that.
  call.below_views =
      writes_data ||
      (parts_.level == TapeLevel::kBelowAutograd &&
       c10::impl::tls_is_dispatch_key_excluded(DispatchKey::ADInplaceOrView) &&
       !op.hasKernelForDispatchKey(DispatchKey::ADInplaceOrView));
  call.arguments = ArgumentsOf(op, arguments, names_, fault_);
  numbers_.NoteCall();
  // Without an offset, from where the tensor begins.
  if (op.operator_name().name.starts_with("aten::as_strided") &&
      !arguments.back().isNone()) {
    record_.placement.fixed_offsets = true;
  }
  effects_.Note(record_.calls.size() - 1, arguments);
  auto& written = written_.emplace_back();
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!Writes(op, i)) continue;
    numbers_.NoteWrite(arguments, i);
    auto reg = call.arguments[i].registers.begin();
    ForTensors(arguments.subspan(i, 1), [&](const at::Tensor& tensor) {
      if (*reg >= 0) written.emplace_back(*reg, tensor.getIntrusivePtr());
      ++reg;
    });
  }
  return record_.calls.size() - 1;
}

void TapeWriter::After(size_t index, std::span<const c10::IValue> results) {
  if (fault_.refused()) return;
  if (index == kNoCall) {
    ForTensors(results, [this](const at::Tensor& tensor) {
      if (!formal_.NoteMade(tensor)) fault_.Refuse(Refusal::kNotOrdinaryMade);
    });
    return;
  }
  bool of_device = false;
  bool to_host = false;
  TapeCall& call = record_.calls[index];
  for (const auto& [reg, weak] : written_[index]) {
    if (auto tensor = weak.lock()) names_.NoteHistory(reg, at::Tensor(tensor));
  }
  for (const TapeArgument& argument : call.arguments) {
    for (const int32_t reg : argument.registers) {
      if (reg < 0) continue;
      of_device |= c10::DispatchKeySet(
                       c10::DispatchKeySet::RAW,
                       record_.registers[static_cast<size_t>(reg)].form.keys)
                       .has_backend(c10::BackendComponent::CUDABit);
    }
  }
  reads_.After(index, results);
  ForTensors(results, [&](const at::Tensor& tensor) {
    to_host |= tensor.defined() && tensor.device().is_cpu();
    call.results.push_back(names_.AddResult(tensor, index));
    if (LeavesUnwritten(call.op) && tensor.device().is_cpu() &&
        tensor.has_storage()) {
      names_.NoteUnwritten(tensor);
    }
  });
  if (of_device && to_host && !TellsHowItDrew(call.op) &&
      !DecidesByValues(call.op)) {
    fault_.Refuse(Refusal::kCopiesToHost, call.op);
  }
  if (GivesViews(call.op)) {
    names_.NoteCopies(call.arguments[0].registers, results);
  }
  for (const c10::IValue& value : results) {
    if (value.isObject() || value.isCustomClass() || value.isFuture()) {
      fault_.Refuse(Refusal::kReturnsObject, call.op);
    }
  }
  if (fault_.differs()) return;
  if (const auto difference = matcher_.Differs(index)) {
    fault_.Differ(*difference);
  } else {
    other_numbers_.Ask(matcher_.TakeNewNumbers());
  }
}

void TapeWriter::NotePython(std::span<const c10::IValue> arguments,
                            std::span<const c10::IValue> results) {
  static const c10::OperatorHandle op =
      c10::Dispatcher::singleton().findSchemaOrThrow("reprise::call_python",
                                                     "");
  if (at::GradMode::is_enabled() || !surroundings_.ModesAreKept()) {
    fault_.Refuse(Refusal::kFunctionChangesModes);
  }
  ForTensors(results, [this](const at::Tensor& tensor) {
    if (!names_.IsNew(tensor)) {
      fault_.Refuse(Refusal::kFunctionReturnsOld);
    }
  });
  const size_t call = Before(op, arguments);
  if (fault_.refused()) return;
  record_.calls[call].calls_python = true;
  effects_.NotePython(call);
  After(call, results);
}

void TapeWriter::NoteState(const c10::OperatorHandle& op,
                           std::span<const c10::IValue> arguments,
                           std::span<const c10::IValue> results) {
  if (fault_.refused()) return;
  sets_states_ |= op == GeneratorStates::Set();
  const auto why = GeneratorStates::WhyNot(op, arguments, record_, names_);
  if (why.has_value()) return fault_.Refuse(*why);
  After(Before(op, arguments), results);
}

bool TapeWriter::IsOfThisCall(const c10::TensorImpl& tensor, Asked what) const {
  if (what == Asked::kHistory) {
    // A part of each tensor's form is whether it has one.
    const auto* const meta = static_cast<const torch::autograd::AutogradMeta*>(
        tensor.autograd_meta());
    if (meta == nullptr || meta->grad_fn_ == nullptr) return true;
    // One leads to those that it was made from.
    const bool leads_outside =
        std::ranges::any_of(record_.registers, [](const TapeRegister& reg) {
          return reg.origin != Origin::kResult && !reg.form.leaf;
        });
    if (leads_outside) return false;
  }
  return tensor.has_storage() &&
         names_.WasMade(tensor.unsafe_storage().unsafeGetStorageImpl());
}

std::string TapeWriter::WhyNoFunction() const {
  if (at::GradMode::is_enabled()) {
    return SentenceOf(Refusal::kFunctionTracksGradients);
  }
  if (parts_.pass != TapePass::kWhole || BackwardInside::IsHere()) {
    return SentenceOf(Refusal::kFunctionInPass);
  }
  if (!surroundings_.ModesAreKept()) {
    return SentenceOf(Refusal::kFunctionUnderOtherModes);
  }
  return {};
}

void TapeWriter::NoteAsked(const c10::TensorImpl& tensor, Asked what) {
  if (IsOfThisCall(tensor, what)) return;
  switch (what) {
    case Asked::kOffset:
      record_.placement.fixed_offsets = true;
      break;
    case Asked::kMemory:
      fault_.Refuse(Refusal::kAsksForMemory);
      break;
    case Asked::kHistory:
      fault_.Refuse(Refusal::kAsksForHistory);
      break;
  }
}

void TapeWriter::NoteHooksDisabled() {
  hooks_disabled_ = true;
  if (parts_.pass != TapePass::kForward) return;
  fault_.Refuse(Refusal::kHooksDisabled);
  if (surroundings_.OwnHooks()) at::SavedTensorDefaultHooks::pop_hooks();
}

void TapeWriter::NoteResults(std::span<const at::Tensor> outputs,
                             size_t saved_from, Outcome& outcome) {
  TapeResults results(record_, fault_, names_, gradients_, parts_.inputs);
  outcome.tracks_gradients |= results.NoteGradients(reads_.end(), backward_);
  const auto own = outputs.first(std::min(saved_from, outputs.size()));
  record_.saved_from = own.size();
  outcome.tracks_gradients |= results.NoteOutputs(own, backward_);
  for (const at::Tensor& saved : outputs.subspan(own.size())) {
    if (const auto index = results.NoteSaved(saved)) {
      outcome.saved.push_back(*index);
    }
  }
  outcome.draws = effects_.draws();
  outcome.writes_outside =
      effects_.writes_outside() || !record_.gradients.empty();
  if (parts_.pass == TapePass::kForward) {
    outcome.written = results.FindWritten(effects_);
  }
}

void TapeWriter::CheckEnd(std::span<const at::Tensor> outputs,
                          Outcome& outcome) {
  if (parts_.pass != TapePass::kBackward && backward_.went_outside()) {
    fault_.Refuse(Refusal::kBackwardGoesOutside);
  }
  OutsideCheck outside(record_, fault_, names_, gradients_, parts_.inputs);
  outcome.tracks_gradients |= outside.CheckRegisters(backward_);
  names_.CheckDataWrites();
  outside.CheckWatched(parts_.watched, std::move(watched_));
  if (parts_.pass == TapePass::kBackward) {
    outside.CheckBackwardReads();
  } else {
    // What a backward pass is given is saved as several tensors in one place.
    names_.CheckAliases(outputs);
  }
  names_.CheckConstants(outputs.subspan(record_.saved_from));
  if (names_.HasHooks()) fault_.Refuse(Refusal::kHooksOnTensors);
  if (effects_.calls_python() &&
      (backward_.any() || !record_.gradients.empty() ||
       record_.ReadsGradients())) {
    // They are given to their tensors at the end of a call.
    fault_.Refuse(Refusal::kFunctionWithGradients);
  }
  if (!surroundings_.AllModesAreKept()) fault_.Refuse(Refusal::kModesChanged);
  if (outcome.tracks_gradients && hooks_inside_ != 0) {
    fault_.RefuseAt(hooks_inside_, Refusal::kHooksInside);
    outcome.tracks_gradients = false;
  }
  const bool tracks = outcome.tracks_gradients ||
                      parts_.level == TapeLevel::kAboveAutograd ||
                      parts_.pass == TapePass::kForward;
  outcome.no_forward_pass =
      hooks_disabled_ && tracks ? SentenceOf(Refusal::kHooksDisabled)
      : sets_states_ && tracks  ? SentenceOf(Refusal::kSetsInPass)
                                : reads_.WhyNoForwardPass();
  if (backward_.any() && surroundings_.had_hooks()) {
    fault_.Refuse(Refusal::kHooksRoundBackward);
  }
  if (!surroundings_.SeedIsKept()) fault_.Refuse(Refusal::kSeeded);
}

TapeWriter::Outcome TapeWriter::End(std::span<const at::Tensor> outputs,
                                    const std::vector<bool>& computed,
                                    size_t saved_from) {
  Outcome outcome;
  const auto fill = [&] {
    outcome.reason = fault_.reason();
    outcome.place = fault_.TakePlace();
  };
  if (!fault_.refused()) {
    NoteResults(outputs, saved_from, outcome);
    CheckEnd(outputs, outcome);
    numbers_.Check(!computed.empty());
  }
  if (fault_.refused() || outcome.tracks_gradients) {
    fill();
    return outcome;
  }
  if (!parts_.expected.empty() && !fault_.differs()) {
    if (const auto difference = matcher_.EndDiffers(computed)) {
      fault_.Differ(*difference, other_numbers_.Of(matcher_.other_number()));
    }
    outcome.as_expected = !fault_.differs() && matcher_.NumbersFit();
  }
  if (outcome.as_expected) {
    TapeRecord matched = matcher_.TakeMatched();
    matched.Join(std::move(record_));
    matched.numbers.NoteComputed(computed);
    record_ = std::move(matched);
  } else {
    matcher_.ForgetNumbers();
    record_.numbers.NoteComputed(computed);
    record_.NoteUses();
    if (parts_.level == TapeLevel::kBelowAutograd) {
      NoteViews(record_, names_.storages());
    }
  }
  fill();
  outcome.expected = matcher_.which();
  outcome.read_another = matcher_.read_another();
  outcome.tape = std::make_shared<const Tape>(std::move(record_));
  return outcome;
}

}  // namespace reprise::bindings
