// The calls of a tape, made again.

#ifndef REPRISE_BINDINGS_TORCH_REGION_TAPE_RUN_H_
#define REPRISE_BINDINGS_TORCH_REGION_TAPE_RUN_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "bindings/torch/region/tape.h"
#include "bindings/torch/region/tape_stretches.h"

namespace reprise::bindings {

enum class TapeRan : uint8_t {
  kDone,
  kGone,    // something has gone meanwhile: nothing was called
  kOther,   // Python would have read another value, and gone another way: all
            // is as it was
  kRaised,  // an operator has raised an error; all is as it was, so that the
            // callable may run instead
};

// After Tape::Fits, by the same thread; adds to `outputs`. Raises what an
// operator raises that may have changed something that stays, or stands behind
// one that has. Where it ends before, random generators are put back, and what
// operators warn of is left to whoever runs instead. Calls that a replay
// answers are gone over at once where `known` (of this tape) knows them; it
// learns. `held`: the caller keeps Tape::foreign() from going meanwhile.
TapeRan RunTape(const Tape& tape, const TapeInputs& inputs,
                std::vector<at::Tensor>& outputs,
                TapeStretches* known = nullptr, bool held = false);

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_REGION_TAPE_RUN_H_
