// States of random generators that a callable takes, and sets again.

#ifndef REPRISE_BINDINGS_TORCH_REGION_GENERATOR_STATES_H_
#define REPRISE_BINDINGS_TORCH_REGION_GENERATOR_STATES_H_

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "bindings/torch/region/refusals.h"
#include "bindings/torch/region/tape_names.h"
#include "bindings/torch/region/tape_record.h"

namespace reprise::bindings {

// Checkpointing takes a generator's state, and sets it again before it computes
// once more. No operator of torch's does that, so that a tape has two of its
// own:
//
//   reprise::generator_state(Generator? generator) -> Tensor
//   reprise::set_generator_state(Generator? generator, Tensor state,
//                                bool leaves) -> ()
//
// `leaves`: torch.random.fork_rng sets it, as it does behind an error, too.
struct GeneratorStates {
  static const c10::OperatorHandle& Take();
  static const c10::OperatorHandle& Set();
  // One of these two.
  static bool AreOf(const c10::OperatorHandle& op);

  // Why no replay could make that call of one of the two; nothing: it can.
  // Where it sets, the state was taken from this generator in the same call,
  // and nobody has written it. So the generator keeps its seed, and a run that
  // begins again puts it back (KeptGenerator).
  static std::optional<Refusal> WhyNot(const c10::OperatorHandle& op,
                                       std::span<const c10::IValue> arguments,
                                       const TapeRecord& record,
                                       const TapeNames& names);

  // What fork_rngs do behind an error of that call that the program was in
  // then, inner ones first: calls of Set.
  static std::vector<const TapeCall*> LeftBehind(const TapeRecord& record,
                                                 size_t call);
};

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_REGION_GENERATOR_STATES_H_
