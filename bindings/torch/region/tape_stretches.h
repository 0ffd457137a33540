// Calls of a tape that a replay answers together.

#ifndef REPRISE_BINDINGS_TORCH_REGION_TAPE_STRETCHES_H_
#define REPRISE_BINDINGS_TORCH_REGION_TAPE_STRETCHES_H_

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

#include "bindings/torch/region/tape.h"
#include "bindings/torch/region/tape_values.h"
#include "bindings/torch/runtime/thread_state.h"
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
//
// Calls that give views are no ops: those of what there is before are made
// first, others behind it.
struct TapeStretch {
  // An operand that none of these calls makes: in the register, or a view that
  // begins there in its storage.
  struct Given {
    int32_t reg = 0;
    std::optional<uint64_t> offset_bytes;
    engine::ValueRef ref;
    uint64_t alignment = 0;  // AlignmentClass
  };
  // Which result of which op a register is; or it lies in that one's memory as
  // its form says.
  struct Result {
    int32_t reg = 0;
    uint32_t op = 0;
    uint32_t result = 0;
    bool by_form = false;
  };
  // So often does that op count as a write of it, for whoever looks at its
  // version.
  struct Bump {
    int32_t reg = 0;
    uint32_t op = 0;
    uint32_t times = 0;
  };
  // Nobody uses it behind that op.
  struct Drop {
    int32_t reg = 0;
    uint32_t op = 0;
  };

  size_t first_call = 0;
  size_t end_call = 0;
  std::thread::id thread = {};  // is in the words of some ops
  std::weak_ptr<const engine::Program> program = {};
  uint32_t first_op = 0;
  std::vector<size_t> calls = {};    // by op, which one
  std::vector<size_t> before = {};   // calls that are made first
  std::vector<Given> given = {};     // each once
  bool writes = false;               // some of it
  std::vector<Result> results = {};  // ascending by op
  // Of these, what is used behind; and what makes the views that are.
  std::vector<Result> wanted = {};
  std::vector<size_t> views = {};           // calls
  std::vector<engine::ValueId> taken = {};  // of what is wanted, ascending
  std::vector<Bump> bumps = {};             // ascending by op
  std::vector<Drop> drops = {};             // ascending by op
};

// Of one tape. Learns from runs in which ops were followed one by one: which
// those are say its sessions. A tape has several in one place where it runs
// several times in one pass of a plan, or in several plans. Thread-safe.
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
  class Run {
   public:
    // `made`: what there is; borrowed. Without `stretches` nothing is gone
    // over.
    Run(const Tape& tape, TapeStretches* stretches, TapeValues& made);
    ~Run();
    Run(const Run&) = delete;
    Run& operator=(const Run&) = delete;

    size_t GoOver(size_t call) {
      return known_ == nullptr ? 0 : GoOverKnown(call);
    }
    void Before(size_t call) {
      if (learns_) LearnBefore(call);
    }
    void After(size_t call) {
      if (learns_ && due_.program != nullptr) LearnAfter(call);
    }

   private:
    friend class TapeStretches;

    struct Operand {
      int32_t reg = 0;
      engine::ValueRef ref;
      uint64_t alignment = 0;
    };
    using Operands = std::vector<Operand>;
    // An op that comes next, if the call is it; no op: if it gives views.
    struct Due {
      std::shared_ptr<const engine::Program> program = nullptr;
      const engine::TracedOp* op = nullptr;
      uint32_t index = 0;
      uint64_t followed = 0;
      bool own = false;  // it is the op of the call's operator, not of a part
      Operands operands = {};
      // Of what is seen outside: how often each was written before.
      std::vector<std::pair<int32_t, uint32_t>> versions = {};
    };
    // The call was that op; or no op, and gave views.
    struct Known {
      bool views = false;
      std::shared_ptr<const engine::Program> program = nullptr;  // null: no op
      uint32_t op = 0;
      Operands operands = {};
      std::vector<TapeStretch::Result> results = {};
      std::vector<TapeStretch::Bump> bumps = {};
    };

    // No stretch that begins with that call is of use in that plan. Learns from
    // there on, where that was not tried.
    void NoteMiss(size_t call,
                  const std::shared_ptr<const engine::Program>& program);
    // Tells it that a pass begins, if the tape's runs do.
    void Begin();
    void EndPass();
    scheduler::Session* FindSession();
    // Ops that the session has followed so far, by any.
    uint64_t Followed();
    size_t GoOverKnown(size_t call);
    size_t GoOverOne(const TapeStretch& stretch, scheduler::Session& session,
                     const engine::Program& program);
    bool FindGiven(const TapeStretch& stretch);
    // Of what was found, other sessions. False: there was none, and were there
    // one meanwhile, it would have to know. Begins `writing`, which ends when
    // the stretch has been gone over.
    bool TellOfWrites(const TapeStretch& stretch, scheduler::Session& session,
                      SpanUnderWay& writing);
    void MakeCalls(const std::vector<size_t>& calls);
    void LearnBefore(size_t call);
    void LearnAfter(size_t call);
    // All that one op has to be for it to be followed unseen, but that it
    // comes.
    bool MayBeUnseen(const TapeCall& call) const;
    void NoteVersions(const TapeCall& call);
    bool FindOperands(const TapeCall& call, scheduler::Session& session);
    bool FindResults(const TapeCall& call, scheduler::Session* session,
                     Known& known) const;

    const Tape& tape_;
    const TapeRecord& record_;
    TapeStretches* stretches_;
    TapeValues& made_;
    std::shared_ptr<const std::vector<std::shared_ptr<const TapeStretch>>>
        known_;
    scheduler::Session* in_pass_ = nullptr;  // knows that this is one
    bool missed_ = false;
    bool learns_ = false;
    bool saw_replay_ = false;
    uint64_t followed_ = 0;   // when it began
    uint64_t gone_over_ = 0;  // ops
    int device_ = 0;
    Due due_;
    std::vector<Known> learned_;  // by call
    std::vector<scheduler::Session::Operand> given_;
    torch::jit::Stack stack_;
  };

 private:
  using All = std::vector<std::shared_ptr<const TapeStretch>>;

  static All Of(const TapeRecord& tape, const std::vector<Run::Known>& calls);
  static void NoteDrops(const TapeRecord& tape, TapeStretch& stretch);
  // From `begin` on; the first call behind it.
  static size_t Add(const TapeRecord& tape,
                    const std::vector<Run::Known>& calls, size_t begin,
                    All& all);
  // Of a run: it saw a replay, and `learned` is all that it found; so many ops
  // were followed and not gone over; a stretch was of no use.
  struct Outcome {
    bool has_learned = false;
    uint64_t shown = 0;
    bool missed = false;
  };
  void Note(All learned, const Outcome& outcome);
  // Whether a run learns from that call on, in that plan: once, unless the last
  // time was just now.
  bool Tries(size_t call, const std::weak_ptr<const engine::Program>& program);

  std::mutex mutex_;
  // Ascending by first call, of those with one the last one first; guarded by
  // mutex_, as the rest.
  std::shared_ptr<const All> all_;
  uint64_t runs_ = 0;
  uint64_t learned_at_ = 0;  // the run
  uint64_t pause_ = 1;       // runs until it learns again, if something is new
  uint64_t shown_ = 0;       // in the run that learned last
  bool missed_ = true;       // since then
  struct Tried {
    size_t call = 0;
    std::weak_ptr<const engine::Program> program = {};
  };
  std::vector<Tried> tried_;  // the last ones
};

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_REGION_TAPE_STRETCHES_H_
