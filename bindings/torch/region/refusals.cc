#include "bindings/torch/region/refusals.h"

namespace reprise::bindings {

const char* SentenceOf(Refusal refusal) {
  switch (refusal) {
    case Refusal::kHandsDataOut:
      return ": hands data to the host";
    case Refusal::kSizeDependsOnData:
      return ": the size of its result depends on data";
    case Refusal::kOtherProcesses:
      return ": works with other processes";
    case Refusal::kCopiesToHost:
      return ": copies to the host";
    case Refusal::kReturnsObject:
      return ": returns an object";
    case Refusal::kRaised:
      return " raised an error";
    case Refusal::kReadNotFollowed:
      return "it reads a number from a tensor of the host by something else "
             "than item(), or does mathematics besides (math, NumPy)";
    case Refusal::kNumberNotFollowed:
      return "Python computes with a number in a way that is not followed";
    case Refusal::kDecidedByDrawn:
      return " decides what is computed, and is drawn, or made by a function "
             "that runs in each call";
    case Refusal::kDecidedByDistant:
      return " decides what is computed, and is made inside of data that is "
             "large, on another device, or written: make it outside";
    case Refusal::kReadsTensorsOfTensors:
      return "data is read by torch.tensor of tensors";
    case Refusal::kNotOrdinaryMade:
      return "a tensor is made that is no ordinary one (sparse, quantized, "
             "nested, of another device)";
    case Refusal::kNotOrdinaryUsed:
      return "a tensor is used that is no ordinary one (sparse, quantized, "
             "nested, of another device)";
    case Refusal::kOtherHistory:
      return "a tensor was given another history than torch's operators give "
             "(a torch.autograd.Function, requires_grad_(), a hook)";
    case Refusal::kOtherMemory:
      return "a tensor is given other memory or another form (`.data =`)";
    case Refusal::kSharedGradient:
      return "two tensors have one gradient, or gradients in one place";
    case Refusal::kWrittenByData:
      return "a tensor from outside is written by its .data";
    case Refusal::kAsksForMemory:
      return "Python asks a tensor that the call is given whose view it is, or "
             "how often it was written (_base, _is_view(), _version)";
    case Refusal::kAsksForHistory:
      return "Python asks a tensor that the call is given by which function it "
             "was computed (grad_fn, output_nr)";
    case Refusal::kHooksOnTensors:
      return "hooks are set on tensors inside";
    case Refusal::kNewAtEachCall:
      return "a tensor is new at each call, and no operator has made it "
             "(torch.tensor on a device: make it outside)";
    case Refusal::kOutsideOtherHistory:
      return "a tensor from outside is given another history";
    case Refusal::kOutsideHooks:
      return "hooks are set on a tensor from outside";
    case Refusal::kOutsideOtherForm:
      return "a tensor from outside is given other memory or another form";
    case Refusal::kOutsideHooksRun:
      return "hooks of a tensor from outside run in a backward pass inside";
    case Refusal::kOutsideSharesMemory:
      return "an argument shares memory with what is read from outside";
    case Refusal::kOutsideInOnePlace:
      return "two tensors from outside lie in one place";
    case Refusal::kWatchedChanged:
      return "a tensor from outside is given another form, or a gradient";
    case Refusal::kGradientFromOutside:
      return "a gradient comes from outside";
    case Refusal::kOutputNotOrdinary:
      return "an output is no ordinary tensor";
    case Refusal::kOutputIsDataOfArgument:
      return "an output is an argument's .data";
    case Refusal::kOutputIsDataOfOutside:
      return "an output is the .data of a tensor from outside";
    case Refusal::kOutputIsViewOfOutside:
      return "an output is a view of what is outside";
    case Refusal::kOutputHasHistory:
      return "an output has a history still, beside a backward pass inside: "
             "detach it";
    case Refusal::kWritesArgument:
      return "it writes an argument";
    case Refusal::kSavesNotOrdinary:
      return "autograd saves what is no ordinary tensor";
    case Refusal::kReadsUnsaved:
      return "its backward pass reads a tensor that autograd has not saved";
    case Refusal::kBackwardTwice:
      return "a backward pass is differentiated again (create_graph)";
    case Refusal::kGraphIsKept:
      return "the graph of a backward pass is kept (retain_graph)";
    case Refusal::kBackwardAndGradients:
      return "gradients are asked for, and its results have some, too";
    case Refusal::kBackwardGoesOutside:
      return "a backward pass inside goes on outside";
    case Refusal::kHooksRoundBackward:
      return "hooks of saved tensors are set round a backward pass inside";
    case Refusal::kHooksInside:
      return "hooks of saved tensors (saved_tensors_hooks, save_on_cpu, "
             "checkpoint) begin or end inside, which no replay would call: put "
             "them around the region, or make a region of what lies between";
    case Refusal::kHooksDisabled:
      return "hooks of saved tensors are disabled inside (torch.func)";
    case Refusal::kSeveralStreams:
      return "several streams or devices are used";
    case Refusal::kModesChanged:
      return "modes of torch's are changed";
    case Refusal::kSeeded:
      return "the random generator is seeded";
    case Refusal::kFunctionTracksGradients:
      return "gradients are tracked";
    case Refusal::kFunctionInPass:
      return "it is called in a pass that is differentiated";
    case Refusal::kFunctionUnderOtherModes:
      return "modes of torch's are other ones than at the region's beginning";
    case Refusal::kFunctionChangesModes:
      return "a function that runs in each call changes modes of torch's";
    case Refusal::kFunctionReturnsOld:
      return "a function that runs in each call returns what there was before";
    case Refusal::kFunctionWithGradients:
      return "a function runs in each call (reprise.eager) where gradients are "
             "made: leave it out of the region";
  }
  return "";
}

}  // namespace reprise::bindings
