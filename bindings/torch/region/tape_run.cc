#include "bindings/torch/region/tape_run.h"

#include <ATen/core/grad_mode.h>
#include <ATen/core/stack.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "bindings/torch/base/ivalues.h"
#include "bindings/torch/base/plain_tensor.h"
#include "bindings/torch/region/generator_states.h"
#include "bindings/torch/region/stretch_run.h"

namespace reprise::bindings {
namespace {

using Origin = TapeRegister::Origin;

// Makes calls that read ahead behind operators of other libraries.
class ReadsAgain {
 public:
  // Before the first call.
  ReadsAgain(const Tape& tape, const TapeInputs& inputs) : inputs_(inputs) {
    if (!tape.reads_again()) return;
    const std::vector<double> reads = tape.ReadAhead(inputs).value();
    const std::vector<TapeCall>& calls = tape.record().calls;
    size_t read = 0;
    for (size_t c = 0; c < calls.size(); ++c) {
      if (calls[c].read_again) expected_[c] = reads[read];
      read += calls[c].read_ahead ? 1 : 0;
    }
  }

  // Raises if call `index` reads another number than the region has computed
  // with.
  void Make(const TapeCall& call, size_t index, TapeValues& made,
            torch::jit::Stack& stack) const {
    const double expected = expected_.at(index);
    TapeCall again = call;
    again.read = expected;
    TORCH_CHECK(made.Make(again, inputs_, stack),
                "reprise: a region has computed with ", expected, ", and ",
                call.op.operator_name(), " gives ", made.read().toDouble(),
                " now: an operator of another library has changed a tensor "
                "that it was not given (call it outside of the region)");
  }

 private:
  const TapeInputs& inputs_;
  std::unordered_map<size_t, double> expected_;  // by call
};

// Makes the calls from there on. False: one has read another value. `call`:
// which one is made.
bool MakeCalls(const Tape& tape, const TapeInputs& inputs, TapeValues& made,
               TapeStretches* known, const ReadsAgain& again, size_t& call) {
  const TapeRecord& record = tape.record();
  torch::jit::Stack stack;
  StretchRun stretches(tape, known, made);
  while (call < record.calls.size()) {
    if (call == record.drops_gradients_at) made.DropGradients();
    if (const size_t answered = stretches.GoOver(call)) {
      call += answered;
      continue;
    }
    if (record.calls[call].only_views) {
      made.MakeViews(record.calls[call]);
    } else if (record.calls[call].read_again) {
      again.Make(record.calls[call], call, made, stack);
    } else if (!record.calls[call].read_ahead) {
      stretches.Before(call);
      if (!made.Make(record.calls[call], inputs, stack)) return false;
      stretches.After(call);
    }
    made.DropBehind(record.calls[call]);
    ++call;
  }
  return true;
}

// From that call, to run another tape, or the callable.
bool MayGoBack(const TapeRecord& record, size_t call) {
  return call < record.first_effect && call < record.drops_gradients_at;
}

// That call has read another value. An operator of another library may do so
// behind what cannot be taken back, if it gives what it says that it does not.
void CheckMayGoBack(const TapeRecord& record, size_t call) {
  TORCH_CHECK(MayGoBack(record, call),
              "reprise: ", record.calls[call].op.operator_name(),
              " gives results of another form than its own kernel for tensors "
              "without data says (call it outside of the region, or mend that "
              "kernel)");
}

// As the program leaves its fork_rngs behind an error of that call.
void LeaveForks(const TapeRecord& record, size_t call, const TapeInputs& inputs,
                TapeValues& made) {
  torch::jit::Stack stack;
  for (const TapeCall* each : GeneratorStates::LeftBehind(record, call)) {
    made.Make(*each, inputs, stack);
  }
}

// Those that its first calls use come first: they are numbered as they come.
size_t RegistersOf(const TapeRecord& record, size_t calls) {
  int32_t last = -1;
  const auto note = [&last](int32_t reg) { last = std::max(last, reg); };
  std::ranges::for_each(record.inputs, note);
  for (const TapeCall& call : std::span(record.calls).first(calls)) {
    for (const TapeArgument& argument : call.arguments) {
      std::ranges::for_each(argument.registers, note);
    }
    std::ranges::for_each(call.results, note);
  }
  return static_cast<size_t>(last + 1);
}

bool AreSame(const TapeRegister& a, const TapeRegister& b) {
  if (a.origin != b.origin || a.index != b.index || a.form != b.form ||
      a.outside != b.outside) {  // its writes are counted, or not
    return false;
  }
  switch (a.origin) {
    case Origin::kForeign:
      return a.foreign->_unsafe_get_target() == b.foreign->_unsafe_get_target();
    case Origin::kConstant:
      return SameContent(a.content, b.content);
    default:
      return true;
  }
}

bool AreSame(const TapeArgument& a, const TapeArgument& b) {
  return a.kind == b.kind && a.wrapped == b.wrapped && a.negated == b.negated &&
         a.index == b.index && a.registers == b.registers &&
         a.numbers == b.numbers &&
         (a.kind == TapeArgument::Kind::kNumber || SameValue(a.value, b.value));
}

// All of its calls are made in inference mode, in which the thread is not.
bool IsOfInference(const TapeRecord& record) {
  return !record.calls.empty() &&
         record.calls.front().grad_mode == GradientMode::kInference &&
         !c10::InferenceMode::is_enabled();
}

// Behind all calls: gives gradients to their tensors, and adds to `outputs`.
void Leave(const TapeRecord& record, const TapeInputs& inputs, TapeValues& made,
           std::vector<at::Tensor>& outputs) {
  for (const TapeGradient& gradient : record.gradients) {
    if (gradient.after == TapeArgument::kNone) continue;
    made.Look(static_cast<int32_t>(gradient.of))->mutable_grad() =
        made.Take(gradient.after);
  }
  outputs.reserve(record.outputs.size());
  for (const int32_t reg : record.outputs) outputs.push_back(made.Take(reg));
  GiveUsedUpHistories(
      record.used_up, std::span(outputs).last(record.outputs.size()),
      [&](int32_t reg) {
        const TapeRegister& of = record.registers[static_cast<size_t>(reg)];
        return of.origin == TapeRegister::Origin::kInput
                   ? inputs.tensors[of.index]
                   : made.Take(reg);
      });
}

// But for what is read.
bool AreSame(const TapeCall& a, const TapeCall& b) {
  return a.op == b.op && a.results == b.results && a.grad_mode == b.grad_mode &&
         a.autocast == b.autocast && a.below_views == b.below_views &&
         a.writes_data == b.writes_data && a.read_ahead == b.read_ahead &&
         a.only_views == b.only_views && a.calls_python == b.calls_python &&
         std::ranges::equal(a.arguments, b.arguments,
                            [](const TapeArgument& x, const TapeArgument& y) {
                              return AreSame(x, y);
                            });
}

}  // namespace

TapeRuns::~TapeRuns() { GoBack(); }

bool TapeRuns::IsLike(const Tape& tape) const {
  const TapeRecord& record = tape.record();
  const TapeRecord& made = left_.tape->record();
  if (left_.call >= record.calls.size() ||
      tape.level() != left_.tape->level() || tape.computes() ||
      left_.tape->computes()) {
    return false;
  }
  for (size_t c = 0; c <= left_.call; ++c) {
    if (!AreSame(record.calls[c], made.calls[c]) ||
        (c < left_.call &&
         !SameValue(record.calls[c].read, made.calls[c].read))) {
      return false;
    }
  }
  const size_t registers = RegistersOf(record, left_.call + 1);
  return registers <= record.registers.size() &&
         registers <= made.registers.size() &&
         std::ranges::equal(std::span(record.registers).first(registers),
                            std::span(made.registers).first(registers),
                            [](const TapeRegister& a, const TapeRegister& b) {
                              return AreSame(a, b);
                            });
}

bool TapeRuns::RulesOut(const Tape& tape) const {
  if (left_.tape == nullptr) return false;
  for (const size_t call : left_.tape->reads()) {
    const std::vector<TapeCall>& calls = tape.record().calls;
    if (call >= calls.size() || calls[call].read.isNone()) return false;
    const bool last = call == left_.call;
    const c10::IValue& read =
        last ? left_.read : left_.tape->record().calls[call].read;
    if (!SameValue(calls[call].read, read)) return true;
    if (last) return false;
  }
  return false;
}

bool TapeRuns::GoesOn(const Tape& tape) const {
  if (left_.tape == nullptr || !IsLike(tape) ||
      !SameValue(tape.record().calls[left_.call].read, left_.read)) {
    return false;
  }
  const TapeRecord& record = tape.record();
  const size_t registers = RegistersOf(record, left_.call + 1);
  const auto is_there = [&](int32_t reg) {
    return reg < 0 || static_cast<size_t>(reg) >= registers ||
           left_.made->Look(reg) != nullptr;
  };
  // The run before may have dropped what this one needs.
  for (size_t c = left_.call + 1; c < record.calls.size(); ++c) {
    for (const TapeArgument& argument : record.calls[c].arguments) {
      if (!std::ranges::all_of(argument.registers, is_there)) return false;
    }
    if (!std::ranges::all_of(record.calls[c].results, is_there)) return false;
  }
  return std::ranges::all_of(record.outputs, is_there) &&
         std::ranges::all_of(record.gradients, [&](const TapeGradient& each) {
           return is_there(each.after);
         });
}

void TapeRuns::GoBack() {
  for (const auto& [generator, kept] : generators_) kept.PutBack();
  generators_.clear();
  warnings_.kept.clear();
  left_ = {};
}

void TapeRuns::KeepGenerators(const Tape& tape) {
  for (const at::Generator& each : tape.moves()) {
    if (std::ranges::none_of(generators_, [&each](const auto& kept) {
          return kept.first == each;
        })) {
      generators_.emplace_back(each, KeptGenerator(each));
    }
  }
}

void TapeRuns::TellWarnings() {
  for (const c10::Warning& warning : warnings_.kept) {
    c10::WarningUtils::get_warning_handler()->process(warning);
  }
  warnings_.kept.clear();
}

TapeRan TapeRuns::Run(const Tape& tape, std::vector<at::Tensor>& outputs,
                      TapeStretches* known, bool held) {
  const TapeRecord& record = tape.record();
  TapeInputs inputs = given_;
  std::optional<std::vector<double>> numbers;
  if (tape.computes()) {
    numbers = tape.Compute(given_);
    if (!numbers.has_value()) return TapeRan::kOther;
    inputs.numbers = *numbers;
  }
  auto made = std::make_unique<TapeValues>(tape, held);
  size_t call = 0;
  if (GoesOn(tape)) {
    call = left_.call + 1;
  } else {
    if (left_.tape != nullptr) in_vain_ += left_.call + 1;
    GoBack();
  }
  if (!made->Begin(inputs)) return TapeRan::kGone;
  const ReadsAgain again(tape, inputs);
  if (call > 0) {
    made->GoOnFrom(*std::exchange(left_, {}).made, RegistersOf(record, call));
  }
  KeepGenerators(tape);
  {
    // It asks for autograd's keys, which the next one leaves out.
    std::optional<c10::InferenceMode> inference;
    if (IsOfInference(record)) inference.emplace();
    const c10::impl::ExcludeDispatchKeyGuard below(
        record.level == TapeLevel::kBelowAutograd
            ? c10::autograd_dispatch_keyset | c10::autocast_dispatch_keyset
            : c10::DispatchKeySet());
    const at::AutoGradMode restored(at::GradMode::is_enabled());
    std::optional<c10::WarningUtils::WarningHandlerGuard> listens(&warnings_);
    try {
      if (!MakeCalls(tape, inputs, *made, known, again, call)) {
        CheckMayGoBack(record, call);
        left_ = {&tape, call, made->read(), std::move(made)};
        return TapeRan::kOther;
      }
    } catch (...) {
      if (MayGoBack(record, call)) {
        GoBack();
        return TapeRan::kRaised;
      }
      generators_.clear();
      LeaveForks(record, call, inputs, *made);
      listens.reset();
      TellWarnings();
      throw;
    }
  }
  Leave(record, inputs, *made, outputs);
  generators_.clear();
  TellWarnings();
  return TapeRan::kDone;
}

TapeRan RunTape(const Tape& tape, const TapeInputs& inputs,
                std::vector<at::Tensor>& outputs, TapeStretches* known,
                bool held) {
  TapeRuns runs(inputs);
  return runs.Run(tape, outputs, known, held);
}

}  // namespace reprise::bindings
