// Calls of a tape that a replay answers together.

#ifndef REPRISE_BINDINGS_TORCH_TAPE_STRETCHES_H_
#define REPRISE_BINDINGS_TORCH_TAPE_STRETCHES_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "bindings/torch/tape.h"
#include "bindings/torch/thread_state.h"
#include "engine/program/program.h"
#include "engine/trace/trace.h"
#include "scheduler/session.h"

namespace reprise::bindings {

// Calls in a row whose ops are ops in a row of one plan, none of which has to
// be shown when it comes (Session::FollowUnseen). A tape makes the same calls
// on the same registers each time. So where the plan is replayed and is at the
// first of these ops, and what comes from outside of them lies where it is
// bound, each would match: they are followed together, and of their results
// only those that somebody uses behind them are made.
struct TapeStretch {
  // An operand that none of these calls makes: in the register, or a view that
  // begins there in its storage.
  struct Given {
    int32_t reg = 0;
    std::optional<uint64_t> offset_bytes;
    engine::ValueRef ref;
  };
  // Which result of which op a register is.
  struct Result {
    int32_t reg = 0;
    uint32_t op = 0;
    uint32_t result = 0;
  };

  size_t first_call = 0;
  size_t end_call = 0;
  std::weak_ptr<const engine::Program> program = {};
  uint32_t first_op = 0;
  std::vector<size_t> calls = {};    // by op, which one
  std::vector<Given> given = {};     // each once
  std::vector<Result> results = {};  // ascending by op
  // Of these, what is used behind; and what makes the views that are.
  std::vector<Result> wanted = {};
  std::vector<size_t> views = {};  // calls
  // What there is, and nobody uses behind.
  std::vector<int32_t> drops = {};
};

// Of one tape. Learns from runs in which ops were followed one by one: which
// those are say its sessions. Thread-safe.
class TapeStretches {
 public:
  // A run of the tape, on its thread:
  //
  //   for each call:
  //     GoOver(call)   how many calls the replay has answered, and what nobody
  //                    uses behind them is dropped ...
  //     Before(call)   ... and else
  //     the call is made
  //     After(call)
  //   End()
  class Run {
   public:
    // `made`: by register, what there is; borrowed. Without `stretches` nothing
    // is gone over.
    Run(const Tape& tape, TapeStretches* stretches,
        std::vector<at::Tensor>& made);
    size_t GoOver(size_t call);
    void Before(size_t call) {
      if (learns_) LearnBefore(call);
    }
    void After(size_t call) {
      if (learns_ && due_.program != nullptr) LearnAfter(call);
    }
    void End();

   private:
    friend class TapeStretches;

    // An op that comes next, if the call is it.
    struct Due {
      std::shared_ptr<const engine::Program> program = nullptr;
      const engine::TracedOp* op = nullptr;
      uint32_t index = 0;
      uint64_t followed = 0;
      std::vector<std::pair<int32_t, engine::ValueRef>> operands = {};
    };
    // The call was that op; or no op, and gave views.
    struct Known {
      bool views = false;
      std::shared_ptr<const engine::Program> program;  // null: of none
      uint32_t op = 0;
      std::vector<std::pair<int32_t, engine::ValueRef>> operands = {};
      std::vector<TapeStretch::Result> results = {};
    };

    scheduler::Session* FindSession();
    size_t GoOver(const TapeStretch& stretch);
    bool FindGiven(const TapeStretch& stretch);
    void MakeViews(const std::vector<size_t>& calls);
    void LearnBefore(size_t call);
    void LearnAfter(size_t call);
    // All that one op has to be for it to be followed unseen, but that it
    // comes.
    bool MayBeUnseen(const TapeCall& call) const;
    bool FindOperands(const TapeCall& call, scheduler::Session& session);
    bool FindResults(const TapeCall& call, Known& known) const;

    const Tape& tape_;
    TapeStretches* stretches_;
    std::vector<at::Tensor>& made_;
    std::shared_ptr<const std::vector<TapeStretch>> known_;
    size_t next_ = 0;  // of these
    bool missed_ = false;
    bool learns_ = false;
    int device_ = 0;
    Due due_;
    std::vector<Known> learned_;  // by call
    std::vector<scheduler::Session::Operand> given_;
    torch::jit::Stack stack_;
  };

 private:
  using All = std::vector<TapeStretch>;

  static All Of(const Tape& tape, const std::vector<Run::Known>& calls);

  std::mutex mutex_;
  // Of the thread; guarded by mutex_, as the rest.
  std::shared_ptr<const All> all_;
  std::thread::id thread_;
  uint64_t runs_ = 0;
  uint64_t learns_at_ = 1;  // the run
  uint64_t period_ = 1;     // until it learns again
};

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_TAPE_STRETCHES_H_
