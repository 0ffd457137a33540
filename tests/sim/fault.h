// Faults that tests plant between the engine and the framework, to see that
// random streams catch them.

#ifndef REPRISE_TESTS_SIM_FAULT_H_
#define REPRISE_TESTS_SIM_FAULT_H_

#include <cstdint>
#include <memory>

#include "engine/replay/backend.h"

namespace reprise::sim {

enum class Fault : uint8_t {
  kNone,
  kSkippedPatch,       // an address that changed is not patched, now and then
  kStaleLateExternal,  // the same for those that come after the head only
  kStaleNumber,        // a number that changed is not patched
  kElementForAnother,  // the first number of a list is taken for all of them
  kIgnoredLease,       // memory counts as free while a tensor is over it
  kAttributeNotInKey,  // ops that differ in an attribute look the same
  kOperandNotInKey,    // operands at other places look the same
  kNoRestoration,      // nothing is launched again at a squash
  kEvictedInUse,       // an arena goes with its plan, not with its last lease
  kOutputTwice,        // two outputs are given the same memory
  kVerdictIgnored,     // a wrong plan is found equal
  kOverlappingTemporary,  // over a live value, and verdicts ignored
  kFreedIsHeld,           // what is freed can be held all the same
  kForgottenInterrupt,    // work that is no op's is not told of
  kTokenUsedAgain,        // of a storage that is held weakly
  kOverlapUntold,         // a view of a value is told as another storage
  kEffectTwice,           // what was launched is said not to have been
  kOthersUntold,          // of what one stream does to memory of another
  kOpenWhilePaused,       // hooks go off, and the session is not paused
  kPlanKept,              // a plan's memory does not go with it
  kGoesUntold,            // free memory goes back to the device in silence
  kClearsUntold,          // a library's workspace is freed in silence
  kStaleGenerator,        // where it is is not patched into what draws
  kGeneratorStays,        // ops that are followed do not move it; nor is it put
                          // back behind validations (host executor)
  kGeneratorUnlooked,     // nobody looks where it is when an op is followed
  kEdgeForgotten,         // a launch does not wait for another one
  kPrivateStale,          // what a pass takes of the program's state is old
  kPrivateKept,           // and what it gives back is forgotten now and then
  kUnderWayUnnoted,  // nobody notes the ops that other threads are inside of
};

// What a backend did.
struct BackendCounts {
  uint64_t builds = 0;
  uint64_t live_bytes = 0;      // of plans that were built and are not gone
  uint64_t late_externals = 0;  // of the plans built
  uint64_t sharing = 0;         // instances without an arena of their own
  uint64_t restored_ops = 0;    // launched by themselves outside validations
  uint64_t numbers = 0;         // ops whose numbers were set
  uint64_t draws = 0;           // ops that were told where the generator is
  uint64_t privates = 0;        // copies of private values, outside validations
};

// Passes all on to `inner`, counts, and plants the fault if it is one of
// patching, launching, comparing or building. `counts` outlives it.
std::unique_ptr<engine::Backend> WatchBackend(
    std::unique_ptr<engine::Backend> inner, Fault fault, BackendCounts* counts);

}  // namespace reprise::sim

#endif  // REPRISE_TESTS_SIM_FAULT_H_
