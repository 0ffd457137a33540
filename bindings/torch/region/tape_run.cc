#include "bindings/torch/region/tape_run.h"

#include <ATen/core/grad_mode.h>
#include <ATen/core/stack.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <cstddef>
#include <optional>
#include <vector>

#include "bindings/torch/region/stretch_run.h"
#include "bindings/torch/region/tape_values.h"

namespace reprise::bindings {

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
  {
    const c10::impl::ExcludeDispatchKeyGuard below(
        record.level == TapeLevel::kBelowAutograd
            ? c10::autograd_dispatch_keyset | c10::autocast_dispatch_keyset
            : c10::DispatchKeySet());
    const at::AutoGradMode restored(at::GradMode::is_enabled());
    torch::jit::Stack stack;
    StretchRun stretches(tape, known, made);
    size_t c = 0;
    try {
      while (c < record.calls.size()) {
        if (c == record.drops_gradients_at) made.DropGradients();
        if (const size_t answered = stretches.GoOver(c)) {
          c += answered;
          continue;
        }
        if (record.calls[c].only_views) {
          made.MakeViews(record.calls[c]);
        } else if (!record.calls[c].read_ahead) {
          stretches.Before(c);
          if (!made.Make(record.calls[c], inputs, stack))
            return TapeRan::kOther;
          stretches.After(c);
        }
        made.DropBehind(record.calls[c]);
        ++c;
      }
    } catch (...) {
      if (c >= record.first_effect || c >= record.drops_gradients_at) throw;
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
  return TapeRan::kDone;
}

}  // namespace reprise::bindings
