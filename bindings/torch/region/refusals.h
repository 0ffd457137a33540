// Why the calls of a callable cannot be written down: one table.

#ifndef REPRISE_BINDINGS_TORCH_REGION_REFUSALS_H_
#define REPRISE_BINDINGS_TORCH_REGION_REFUSALS_H_

#include <cstdint>

namespace reprise::bindings {

// A cause each. Most stand for themselves. Those of an operator, or of what
// read a tensor, follow its name.
enum class Refusal : uint8_t {
  // Of an operator.
  kHandsDataOut,
  // Behind that: why no replay could begin again there. The first two are
  // followed by the name of the operator that has changed something.
  kReadsBehindWrite,
  kReadsBehindEffect,
  kReadsBehindDraws,
  kReadsInBackward,
  kReadsCounter,
  kSizeDependsOnData,
  kFormMayDependOnData,
  kOtherProcesses,
  kCopiesToHost,
  kReturnsObject,
  kRaised,
  // Of numbers that Python reads and computes.
  kNumberNotFollowed,
  // Of an operator's argument: its values decide which calls are made.
  kDecidedByDrawn,
  kDecidedByDistant,
  kReadsTensorsOfTensors,
  // Of tensors.
  kNotOrdinaryMade,
  kNotOrdinaryUsed,
  kTransformedUsed,
  kOtherHistory,
  kOtherMemory,
  kSharedGradient,
  kWrittenByData,
  kAsksForMemory,
  kAsksForHistory,
  kHooksOnTensors,
  kNewAtEachCall,
  // Of tensors from outside, when the callable has ended.
  kOutsideOtherHistory,
  kOutsideHooks,
  kOutsideOtherForm,
  kOutsideHooksRun,
  kOutsideSharesMemory,
  kOutsideInOnePlace,
  kWatchedChanged,
  kGradientFromOutside,
  kGradientHasHistory,
  kHasTangent,
  // Of outputs, and of what a forward pass leaves.
  kOutputNotOrdinary,
  kOutputIsDataOfArgument,
  kOutputIsDataOfOutside,
  kOutputIsViewOfOutside,
  kOutputHasHistory,
  kOutputIsLeaf,
  kWritesArgument,
  kSavesNotOrdinary,
  kReadsUnsaved,
  // Of backward passes inside.
  kBackwardTwice,
  kBackwardAndGradients,
  kBackwardGoesOutside,
  kHooksRoundBackward,
  // Of what is round the calls.
  kHooksInside,
  kHooksDisabled,
  kSeveralStreams,
  kModesChanged,
  kSeeded,
  kSetsToOther,
  kSetsOtherGenerator,
  kSetsInPass,
  // Of functions that run in each call.
  kFunctionTracksGradients,
  kFunctionInPass,
  kFunctionUnderOtherModes,
  kFunctionChangesModes,
  kFunctionReturnsOld,
  kFunctionWithGradients,
};

// For people: what is wrong and, where something can be done, what to do.
const char* SentenceOf(Refusal refusal);

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_REGION_REFUSALS_H_
