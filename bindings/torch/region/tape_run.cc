#include "bindings/torch/region/tape_run.h"

#include <ATen/core/grad_mode.h>
#include <ATen/core/stack.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <cstddef>

#include "bindings/torch/region/tape_values.h"

namespace reprise::bindings {

TapeRan RunTape(const Tape& tape, const TapeInputs& inputs,
                std::vector<at::Tensor>& outputs, TapeStretches* known,
                bool held) {
  TapeValues made(tape, held);
  if (!made.Begin(inputs)) return TapeRan::kGone;
  {
    const c10::impl::ExcludeDispatchKeyGuard below(
        tape.level_ == TapeLevel::kBelowAutograd
            ? c10::autograd_dispatch_keyset | c10::autocast_dispatch_keyset
            : c10::DispatchKeySet());
    const at::AutoGradMode restored(at::GradMode::is_enabled());
    torch::jit::Stack stack;
    TapeStretches::Run stretches(tape, known, made);
    size_t c = 0;
    try {
      while (c < tape.calls_.size()) {
        if (c == tape.drops_gradients_at_) made.DropGradients();
        if (const size_t answered = stretches.GoOver(c)) {
          c += answered;
          continue;
        }
        if (tape.calls_[c].only_views) {
          made.MakeViews(tape.calls_[c]);
        } else {
          stretches.Before(c);
          if (!made.Make(tape.calls_[c], inputs, stack)) return TapeRan::kOther;
          stretches.After(c);
        }
        made.DropBehind(tape.calls_[c]);
        ++c;
      }
    } catch (...) {
      if (c >= tape.first_effect_ || c >= tape.drops_gradients_at_) throw;
      return TapeRan::kRaised;
    }
  }
  for (const TapeGradient& gradient : tape.gradients_) {
    if (gradient.after == TapeArgument::kNone) continue;
    made.Look(static_cast<int32_t>(gradient.of))->mutable_grad() =
        made.Take(gradient.after);
  }
  outputs.reserve(tape.outputs_.size());
  for (const int32_t reg : tape.outputs_) outputs.push_back(made.Take(reg));
  return TapeRan::kDone;
}

}  // namespace reprise::bindings
