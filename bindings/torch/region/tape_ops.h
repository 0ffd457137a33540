// What tapes have to know of an operator.

#ifndef REPRISE_BINDINGS_TORCH_REGION_TAPE_OPS_H_
#define REPRISE_BINDINGS_TORCH_REGION_TAPE_OPS_H_

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <cstddef>
#include <optional>
#include <span>

#include "bindings/torch/base/autocast_state.h"

namespace reprise::bindings {

// Computes nothing: what the package itself calls, and marks for profilers.
bool IsOfTools(const c10::OperatorHandle& op);

// It is an operator of another library, which may do what it likes.
bool IsOfOthers(const c10::OperatorHandle& op);

// A number of a tensor's, and nothing else, is what Python gets.
bool Reads(const c10::OperatorHandle& op);

// What Python gets, or the size of what it gets, is other data's another time.
bool HandsDataOut(const c10::OperatorHandle& op);
// It takes of its first argument what the others say.
bool PicksByIndices(const c10::OperatorHandle& op);
bool SizesByData(const c10::OperatorHandle& op,
                 std::span<const c10::IValue> arguments);

// It looks at the values of that argument, a tensor of the host, to decide
// which calls it makes or the form of its results: as if Python had read them.
// A scan finds what is missing (tests/python/registry/host_values.py).
bool DecidesByValues(const c10::OperatorHandle& op, size_t argument);
// Of some argument. No other one has a say in its results that are on the host.
bool DecidesByValues(const c10::OperatorHandle& op);

// It draws random numbers.
bool Draws(const c10::OperatorHandle& op);
// What it draws cannot be drawn once more, for its generator cannot be put
// back: a library keeps it (cuDNN's dropout states), or it is none of torch's.
bool DrawsForGood(const c10::OperatorHandle& op,
                  std::span<const c10::IValue> arguments);
// By that argument it may also decide to draw none, and call other operators.
bool IsProbability(const c10::OperatorHandle& op, size_t argument);

// It writes what its schema does not say (running statistics).
bool WritesSecretly(const c10::OperatorHandle& op);

// What it is given says that this call neither draws nor writes secretly: a
// probability of dropout that is zero, or that nothing is trained.
bool IsOff(const c10::OperatorHandle& op,
           std::span<const c10::IValue> arguments);

// The call may raise an error that depends on what tensors hold, without a wait
// of the host's that torch tells of. Others know nothing of that before such a
// wait: calls of torch's kernels that have tensors of a GPU, and of the host at
// most numbers; and those that have no tensors.
bool MayRaise(const c10::OperatorHandle& op,
              std::span<const c10::IValue> arguments);
// Though the host waits within it: it copies, or hands out what there is.
bool OnlyCopies(const c10::OperatorHandle& op);

// Below autograd: aten::detach_ gives back what it is given, and writes
// nothing. In inference mode torch.tensor calls it.
bool DoesNothing(const c10::OperatorHandle& op);

// Of its results, some are tensors of the host that say where in the random
// generator's sequence it drew: for its backward pass.
bool TellsHowItDrew(const c10::OperatorHandle& op);

// Autocast as the operator's own kernel finds it, if that may ask for it.
std::optional<AutocastState> AutocastOf(const c10::OperatorHandle& op);

// What it makes has no content yet.
bool LeavesUnwritten(const c10::OperatorHandle& op);

// It may write that argument.
bool Writes(const c10::OperatorHandle& op, size_t argument);

// Gives views of its first argument, and does nothing else.
bool GivesViews(const c10::OperatorHandle& op);

// What that argument holds has no say in the results, nor in anything else.
bool ReadsOnlyForm(const c10::OperatorHandle& op,
                   std::span<const c10::IValue> arguments, size_t argument);

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_REGION_TAPE_OPS_H_
