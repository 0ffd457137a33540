// A run of a tape, as far as replays answer its calls.

#ifndef REPRISE_BINDINGS_TORCH_REGION_STRETCH_RUN_H_
#define REPRISE_BINDINGS_TORCH_REGION_STRETCH_RUN_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "bindings/torch/region/stretch_learner.h"
#include "bindings/torch/region/tape.h"
#include "bindings/torch/region/tape_stretch.h"
#include "bindings/torch/region/tape_stretches.h"
#include "bindings/torch/region/tape_values.h"
#include "bindings/torch/runtime/thread_state.h"
#include "engine/program/program.h"
#include "scheduler/session.h"

namespace reprise::bindings {

// Goes over the calls of one run that a replay answers, or learns which these
// are. Where a stretch that is known is of no use, it may begin to learn in the
// middle. On the thread of the run:
//
//   for each call:
//     GoOver(call)   how many calls the replay has answered, and what nobody
//                    uses behind them is dropped ...
//     Before(call)   ... and else
//     the call is made
//     After(call)
class StretchRun {
 public:
  // `made`: what there is. All are borrowed. Without `stretches` nothing is
  // gone over.
  StretchRun(const Tape& tape, TapeStretches* stretches, TapeValues& made);
  ~StretchRun();
  StretchRun(const StretchRun&) = delete;
  StretchRun& operator=(const StretchRun&) = delete;

  size_t GoOver(size_t call) {
    return known_ == nullptr ? 0 : GoOverKnown(call);
  }
  void Before(size_t call) {
    if (learns_) learner_.Before(call, FindSession());
  }
  void After(size_t call) {
    if (learns_ && learner_.is_due()) learner_.After(call, FindSession());
  }

 private:
  // Tells it that a pass begins, if the tape's runs do.
  void Begin();
  void EndPass();
  scheduler::Session* FindSession();
  // Ops that the session has followed so far, by any.
  uint64_t Followed();
  // No stretch that begins with that call is of use in that plan. Learns from
  // there on, where that was not tried.
  void NoteMiss(size_t call,
                const std::shared_ptr<const engine::Program>& program);
  // What becomes of a stretch's registers while its ops are followed.
  class Results;

  size_t GoOverKnown(size_t call);
  size_t GoOverOne(const TapeStretch& stretch, scheduler::Session& session,
                   const engine::Program& program);
  bool FindGiven(const TapeStretch& stretch);
  // Of what was found, other sessions. False: there was none, and were there
  // one meanwhile, it would have to know. Begins `writing`, which ends when the
  // stretch has been gone over.
  bool TellOfWrites(const TapeStretch& stretch, scheduler::Session& session,
                    SpanUnderWay& writing);
  void MakeCalls(const std::vector<size_t>& calls);

  const Tape& tape_;
  const TapeRecord& record_;
  TapeStretches* stretches_;
  TapeValues& made_;
  std::shared_ptr<const TapeStretchList> known_;
  scheduler::Session* in_pass_ = nullptr;  // knows that this is one
  bool missed_ = false;
  bool learns_ = false;
  uint64_t followed_ = 0;   // when it began
  uint64_t gone_over_ = 0;  // ops
  int device_ = 0;
  StretchLearner learner_;
  std::vector<scheduler::Session::Operand> given_;
  torch::jit::Stack stack_;
};

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_REGION_STRETCH_RUN_H_
