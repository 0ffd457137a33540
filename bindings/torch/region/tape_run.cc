#include "bindings/torch/region/tape_run.h"

#include <ATen/core/grad_mode.h>
#include <ATen/core/stack.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/Exception.h>

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "bindings/torch/region/stretch_run.h"
#include "bindings/torch/region/tape_values.h"
#include "bindings/torch/runtime/kept_generator.h"

namespace reprise::bindings {
namespace {

// What operators of a run warn of, which whoever listens is told if the run
// stands.
class RunsWarnings final : public c10::WarningHandler {
 public:
  void process(const c10::Warning& warning) override {
    kept_.push_back(warning);
  }
  void Tell() {
    for (const c10::Warning& warning : kept_) listener_.process(warning);
    kept_.clear();
  }

 private:
  c10::WarningHandler& listener_ = *c10::WarningUtils::get_warning_handler();
  std::vector<c10::Warning> kept_;
  const c10::WarningUtils::WarningHandlerGuard guard_{this};
};

// Where the random generators were that a run may move.
class RunsGenerators {
 public:
  explicit RunsGenerators(std::span<const at::Generator> generators) {
    kept_.reserve(generators.size());
    for (const at::Generator& each : generators) kept_.emplace_back(each);
  }
  void PutBack() const {
    for (const KeptGenerator& each : kept_) each.PutBack();
  }

 private:
  std::vector<KeptGenerator> kept_;
};

// Makes all calls. False: one has read another value. `call`: which one is
// made.
bool MakeCalls(const Tape& tape, const TapeInputs& inputs, TapeValues& made,
               TapeStretches* known, size_t& call) {
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

}  // namespace

TapeRan RunTape(const Tape& tape, const TapeInputs& given,
                std::vector<at::Tensor>& outputs, TapeStretches* known,
                bool held) {
  const TapeRecord& record = tape.record();
  TapeInputs inputs = given;
  std::optional<std::vector<double>> numbers;
  if (tape.computes()) {
    numbers = tape.Compute(given);
    if (!numbers.has_value()) return TapeRan::kOther;
    inputs.numbers = *numbers;
  }
  TapeValues made(tape, held);
  if (!made.Begin(inputs)) return TapeRan::kGone;
  RunsWarnings warnings;
  const RunsGenerators generators(tape.moves());
  {
    const c10::impl::ExcludeDispatchKeyGuard below(
        record.level == TapeLevel::kBelowAutograd
            ? c10::autograd_dispatch_keyset | c10::autocast_dispatch_keyset
            : c10::DispatchKeySet());
    const at::AutoGradMode restored(at::GradMode::is_enabled());
    size_t call = 0;
    try {
      if (!MakeCalls(tape, inputs, made, known, call)) {
        generators.PutBack();
        return TapeRan::kOther;
      }
    } catch (...) {
      if (call >= record.first_effect || call >= record.drops_gradients_at) {
        warnings.Tell();
        throw;
      }
      generators.PutBack();
      return TapeRan::kRaised;
    }
  }
  for (const TapeGradient& gradient : record.gradients) {
    if (gradient.after == TapeArgument::kNone) continue;
    made.Look(static_cast<int32_t>(gradient.of))->mutable_grad() =
        made.Take(gradient.after);
  }
  outputs.reserve(record.outputs.size());
  for (const int32_t reg : record.outputs) outputs.push_back(made.Take(reg));
  warnings.Tell();
  return TapeRan::kDone;
}

}  // namespace reprise::bindings
