#include "bindings/torch/region/refusals.h"

#include <cstddef>
#include <iterator>

namespace reprise::bindings {
namespace {

struct Row {
  Refusal refusal;
  const char* sentence;
};

// In the order of the causes.
constexpr Row kRows[] = {
    {Refusal::kHandsDataOut, ": hands data to the host"},
    {Refusal::kReadsBehindWrite,
     ", behind a write to memory from outside (or that no operator has filled) "
     "by "},
    {Refusal::kReadsBehindEffect, ", behind what cannot be taken back, "},
    {Refusal::kReadsBehindDraws,
     ", behind random numbers, and others are drawn where the callable runs "
     "again for gradients"},
    {Refusal::kReadsInBackward, ", in a backward pass"},
    {Refusal::kReadsCounter, ", of a tensor that counts on the host"},
    {Refusal::kSizeDependsOnData, ": the size of its result depends on data"},
    {Refusal::kFormMayDependOnData,
     ": what it gives may depend on data, because it has no kernel that says "
     "what it gives without data (torch.library.register_fake)"},
    {Refusal::kOtherProcesses, ": works with other processes"},
    {Refusal::kCopiesToHost, ": copies to the host"},
    {Refusal::kReturnsObject, ": returns an object"},
    {Refusal::kRaised, " raised an error"},
    {Refusal::kNumberNotFollowed,
     "Python computes with a number in a way that is not followed"},
    {Refusal::kDecidedByDrawn,
     " decides what is computed, and is drawn, or made by a function "
     "that runs in each call"},
    {Refusal::kDecidedByDistant,
     " decides what is computed, and is made inside of data that is "
     "large, on another device, or written: make it outside"},
    {Refusal::kReadsTensorsOfTensors,
     "data is read by torch.tensor of tensors"},
    {Refusal::kNotOrdinaryMade,
     "a tensor is made that is no ordinary one (sparse, quantized, "
     "nested, of another device)"},
    {Refusal::kNotOrdinaryUsed,
     "a tensor is used that is no ordinary one (sparse, quantized, "
     "nested, of another device)"},
    {Refusal::kTransformedUsed,
     "a transform of torch.func (vmap, grad) runs inside, and results keep "
     "their histories: detach them, or what they are computed from"},
    {Refusal::kOtherHistory,
     "a tensor was given another history than torch's operators give "
     "(a torch.autograd.Function, requires_grad_(), a hook; detach_(), where "
     "detach() would do)"},
    {Refusal::kOtherMemory,
     "a tensor is given other memory or another form (`.data =`)"},
    {Refusal::kSharedGradient,
     "two tensors have one gradient, or gradients in one place"},
    {Refusal::kWrittenByData,
     "a tensor from outside is written by its .data together with others, or "
     "with views of that: write the tensor itself, under torch.no_grad()"},
    {Refusal::kAsksForMemory,
     "Python asks a tensor that the call is given whose view it is, or "
     "how often it was written (_base, _is_view(), _version)"},
    {Refusal::kAsksForHistory,
     "Python asks a tensor that the call is given by which function it "
     "was computed (grad_fn, output_nr)"},
    {Refusal::kHooksOnTensors, "hooks are set on tensors inside"},
    {Refusal::kNewAtEachCall,
     "a tensor is new at each call, and no operator has made it "
     "(in place of torch.tensor on a device, make it outside; in place of "
     ".data, use detach())"},
    {Refusal::kOutsideOtherHistory,
     "a tensor from outside is given another history"},
    {Refusal::kOutsideHooks, "hooks are set on a tensor from outside"},
    {Refusal::kOutsideOtherForm,
     "a tensor from outside is given other memory or another form"},
    {Refusal::kOutsideHooksRun,
     "hooks of a tensor from outside run in a backward pass inside"},
    {Refusal::kOutsideSharesMemory,
     "an argument shares memory with what is read from outside"},
    {Refusal::kOutsideInOnePlace, "two tensors from outside lie in one place"},
    {Refusal::kWatchedChanged,
     "a tensor from outside is given another form, or a gradient"},
    {Refusal::kGradientFromOutside, "a gradient comes from outside"},
    {Refusal::kGradientHasHistory,
     "a tensor keeps a gradient that has a history (create_graph): detach it, "
     "or drop it before the call ends"},
    {Refusal::kHasTangent,
     "a tensor keeps a tangent of forward-mode differentiation: unpack it "
     "inside"},
    {Refusal::kOutputNotOrdinary, "an output is no ordinary tensor"},
    {Refusal::kOutputIsDataOfArgument, "an output is an argument's .data"},
    {Refusal::kOutputIsDataOfOutside,
     "an output is the .data of a tensor from outside"},
    {Refusal::kOutputIsViewOfOutside, "an output is a view of what is outside"},
    {Refusal::kOutputHasHistory,
     "an output has a history still, or what the call keeps, beside a backward "
     "pass inside (torch.func.grad makes one, too): detach it"},
    {Refusal::kOutputIsLeaf,
     "an output is made inside, and keeps a gradient or requires one: return "
     "it detached, and its gradient"},
    {Refusal::kWritesArgument, "it writes an argument"},
    {Refusal::kSavesNotOrdinary, "autograd saves what is no ordinary tensor"},
    {Refusal::kReadsUnsaved,
     "its backward pass reads a tensor that autograd has not saved"},
    {Refusal::kBackwardTwice,
     "a backward pass is differentiated again (create_graph)"},
    {Refusal::kBackwardAndGradients,
     "gradients are asked for, and its results have some, too"},
    {Refusal::kBackwardGoesOutside,
     "a backward pass inside goes on outside, along the history of an argument "
     "or of a tensor that is read: detach it, or leave that pass outside"},
    {Refusal::kHooksRoundBackward,
     "hooks of saved tensors are set round a backward pass inside"},
    {Refusal::kHooksInside,
     "hooks of saved tensors (saved_tensors_hooks, save_on_cpu, "
     "checkpoint) begin or end inside, which no replay would call: let the "
     "region be the step with its backward pass, or what lies between them, "
     "or put them around it"},
    {Refusal::kHooksDisabled,
     "hooks of saved tensors are disabled inside (torch.func)"},
    {Refusal::kSeveralStreams, "several streams or devices are used"},
    {Refusal::kModesChanged, "modes of torch's are changed"},
    {Refusal::kSeeded, "the random generator is seeded"},
    {Refusal::kSetsToOther,
     "a random generator is set to a state that was not taken from it in the "
     "same call (get_state), or that was written since: set it outside"},
    {Refusal::kSetsOtherGenerator,
     "a random generator is set that is none of torch's own"},
    {Refusal::kSetsInPass,
     "a random generator is set, which would be set once more where the "
     "callable runs again for gradients"},
    {Refusal::kFunctionTracksGradients, "gradients are tracked"},
    {Refusal::kFunctionInPass, "it is called in a pass that is differentiated"},
    {Refusal::kFunctionUnderOtherModes,
     "modes of torch's are other ones than at the region's beginning"},
    {Refusal::kFunctionChangesModes,
     "a function that runs in each call changes modes of torch's"},
    {Refusal::kFunctionReturnsOld,
     "a function that runs in each call returns what there was before"},
    {Refusal::kFunctionWithGradients,
     "a function runs in each call (reprise.eager) where gradients are "
     "made: leave it out of the region"},
};

constexpr bool IsInOrder() {
  for (size_t i = 0; i < std::size(kRows); ++i) {
    if (static_cast<size_t>(kRows[i].refusal) != i) return false;
  }
  return true;
}
static_assert(IsInOrder(), "each cause has one row, at its place");

}  // namespace

const char* SentenceOf(Refusal refusal) {
  const auto row = static_cast<size_t>(refusal);
  return row < std::size(kRows) ? kRows[row].sentence : "";
}

}  // namespace reprise::bindings
