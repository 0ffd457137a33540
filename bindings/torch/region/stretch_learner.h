// Which calls of a tape are which ops of the plan that is replayed.

#ifndef REPRISE_BINDINGS_TORCH_REGION_STRETCH_LEARNER_H_
#define REPRISE_BINDINGS_TORCH_REGION_STRETCH_LEARNER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "bindings/torch/region/tape_record.h"
#include "bindings/torch/region/tape_stretch.h"
#include "bindings/torch/region/tape_values.h"
#include "engine/program/program.h"
#include "engine/trace/trace.h"
#include "scheduler/session.h"

namespace reprise::bindings {

// Watches a run whose calls are made one by one, and asks the session before
// and behind each which op of which plan is due. Of a call that was one op, and
// could have been followed unseen, it notes where its operands were and which
// results are whose. Round each call, on the thread of the run:
//
//   learner.Before(call, session)    null: nobody watches
//   the call is made
//   if (learner.is_due()) learner.After(call, session)
//
// Borrows the record and what there is, all of which is to be taken
// (TapeValues::TakeAll). Takes the session's lock.
class StretchLearner {
 public:
  StretchLearner(const TapeRecord& record, TapeValues& made)
      : record_(record), made_(made) {}

  void Before(size_t call, scheduler::Session* session);
  // A replay was at an op before the call.
  bool is_due() const { return due_.program != nullptr; }
  void After(size_t call, scheduler::Session* session);

  // Some call was made while a plan was replayed: else there is nothing to be
  // learned.
  bool saw_replay() const { return saw_replay_; }
  // All stretches that the run has shown.
  TapeStretchList Found() const { return FindStretches(record_, learned_); }

 private:
  // An op that comes next, if the call is it; no op: if it gives views.
  struct Due {
    std::shared_ptr<const engine::Program> program = nullptr;
    const engine::TracedOp* op = nullptr;
    uint32_t index = 0;
    uint64_t followed = 0;
    bool own = false;  // it is the op of the call's operator, not of a part
    std::vector<AnsweredCall::Operand> operands = {};
    // Of what is seen outside: how often each was written before.
    std::vector<std::pair<int32_t, uint32_t>> versions = {};
  };

  // All that one op has to be for it to be followed unseen, but that it comes.
  bool MayBeUnseen(const TapeCall& call) const;
  void NoteVersions(const TapeCall& call);
  bool FindOperands(const TapeCall& call, scheduler::Session& session);
  // Of the op that is due, which result is which of the call's: those of the
  // call's own op, or one value that the call gives another form. False: that
  // is not known.
  bool FindOwnResults(const TapeCall& call, AnsweredCall& answered) const;
  bool FindReformed(const TapeCall& call, scheduler::Session& session,
                    AnsweredCall& answered) const;
  // The call is the first that gives this register.
  bool IsNew(const TapeCall& call, int32_t reg) const {
    return reg >= 0 && record_.MakerOf(reg) == &call;
  }
  // The op makes the value, and gives it out as this result alone.
  bool MakesAlone(const engine::ResultSpec& spec) const;

  const TapeRecord& record_;
  TapeValues& made_;
  bool saw_replay_ = false;
  Due due_;
  std::vector<AnsweredCall> learned_;  // by call
};

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_REGION_STRETCH_LEARNER_H_
