// The calls of a tape, made again.

#ifndef REPRISE_BINDINGS_TORCH_REGION_TAPE_RUN_H_
#define REPRISE_BINDINGS_TORCH_REGION_TAPE_RUN_H_

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/util/Exception.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "bindings/torch/region/tape.h"
#include "bindings/torch/region/tape_stretches.h"
#include "bindings/torch/region/tape_values.h"
#include "bindings/torch/runtime/kept_generator.h"

namespace reprise::bindings {

enum class TapeRan : uint8_t {
  kDone,
  kGone,    // something has gone meanwhile: nothing was called
  kOther,   // Python would have read another value, and gone another way: all
            // is as it was when `TapeRuns` has ended
  kRaised,  // an operator has raised an error; all is as it was, so that the
            // callable may run instead
};

// Runs of tapes for one call of a callable, until one of them stands. A tape
// that makes the same calls as the one before, and goes on by the value that
// this one has read, goes on there. Where none stands, random generators are
// put back, and what operators warn of is left to whoever runs instead.
//
// Borrows all that it is given; tapes outlive it. Single thread.
class TapeRuns {
 public:
  explicit TapeRuns(const TapeInputs& given) : given_(given) {}
  ~TapeRuns();
  TapeRuns(const TapeRuns&) = delete;
  TapeRuns& operator=(const TapeRuns&) = delete;

  // After Tape::Fits, by the same thread; adds to `outputs`. Raises what an
  // operator raises that may have changed something that stays, or stands
  // behind one that has. Calls that a replay answers are gone over at once
  // where `known` (of this tape) knows them; it learns. `held`: the caller
  // keeps Tape::foreign() from going meanwhile. Not called again behind a run
  // that stands, or has raised.
  TapeRan Run(const Tape& tape, std::vector<at::Tensor>& outputs,
              TapeStretches* known = nullptr, bool held = false);

  // The tape goes by other values than were read, up to there.
  bool RulesOut(const Tape& tape) const;
  // Calls of operators that were made, and are of no use to the run that
  // stands, if one does.
  size_t in_vain() const {
    return in_vain_ + (left_.tape != nullptr ? left_.call + 1 : 0);
  }

 private:
  // Where a run has read another value than its tape says.
  struct Left {
    const Tape* tape = nullptr;
    size_t call = 0;
    c10::IValue read;
    std::unique_ptr<TapeValues> made;
  };

  // What operators warn of.
  class Warnings final : public c10::WarningHandler {
   public:
    void process(const c10::Warning& warning) override {
      kept.push_back(warning);
    }
    std::vector<c10::Warning> kept;
  };

  // It makes the same calls as `left_` before that one.
  bool IsLike(const Tape& tape) const;
  // And goes on by the value that was read, with what there is.
  bool GoesOn(const Tape& tape) const;
  // Nothing was run.
  void GoBack();
  void KeepGenerators(const Tape& tape);
  void TellWarnings();

  const TapeInputs given_;
  Left left_;
  std::vector<std::pair<at::Generator, KeptGenerator>> generators_;
  Warnings warnings_;
  size_t in_vain_ = 0;
};

// One run.
TapeRan RunTape(const Tape& tape, const TapeInputs& inputs,
                std::vector<at::Tensor>& outputs,
                TapeStretches* known = nullptr, bool held = false);

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_REGION_TAPE_RUN_H_
