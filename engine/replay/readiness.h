// Whether an instance can be launched at an op, and if not, why.

#ifndef REPRISE_ENGINE_REPLAY_READINESS_H_
#define REPRISE_ENGINE_REPLAY_READINESS_H_

#include <cstdint>

namespace reprise::engine {

enum class Readiness : uint8_t {
  kReady,
  kOtherOp,    // this is not the head, or not the op that is due
  kUnproven,   // an operand lies elsewhere, and never moved while recorded
  kElsewhere,  // the generator is where no recording has seen it
  kUntold,     // it brings a number of which the recordings do not tell enough
  kReplaced,   // an external that the head does not name is gone or moved, or
               // memory that launches name and nobody of ours owns is freed
  kOccupied,   // another plan's values are alive in the arena that they share
  kNoMemory,   // for an output that escapes; or its own is still being read
};

}  // namespace reprise::engine

#endif  // REPRISE_ENGINE_REPLAY_READINESS_H_
