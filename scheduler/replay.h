// A pass in which a plan stands for eager.

#ifndef REPRISE_SCHEDULER_REPLAY_H_
#define REPRISE_SCHEDULER_REPLAY_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "engine/program/program.h"
#include "engine/trace/frontend.h"
#include "engine/trace/op.h"
#include "engine/trace/trace.h"
#include "scheduler/allocator_wait.h"
#include "scheduler/ops_under_way.h"
#include "scheduler/plan_pass.h"

namespace reprise::scheduler {

// Segments of the plan are launched ahead, and each op is compared with the one
// that is due and answered:
//
//   Begin ─► Enter* ─► over()
//              └─────► Leaving: what the program has seen is made right
//
// Under the session's lock. Cost of an op: a comparison of its words and
// operands.
class Replay : public PlanPass {
 public:
  // `frontend` is borrowed, too, and `wait`, which is told once a replay that
  // was left needs no memory any more.
  // `under_way` may be null: nobody notes ops. `asker` is whose replay this is,
  // as notes name it.
  Replay(const Parts& parts, const engine::Frontend* frontend,
         AllocatorWait* wait, const OpsUnderWay* under_way,
         const OpsUnderWay::Asker& asker)
      : PlanPass(parts),
        frontend_(*frontend),
        wait_(*wait),
        under_way_(under_way),
        asker_(asker) {}

  // Another thread is inside an op that may write memory which the pass reads.
  bool MayBeWritten() const;

  // At the head, which is followed, too: the instance is resolved. False if it
  // cannot be launched: eager goes on, and nothing was begun.
  bool Begin();
  // The op comes. True if it is the one that is due: its results are those of
  // followed(). Else the replay has been left.
  bool Enter(const engine::OpView& op) {
    if (op.cut == nullptr && !op.by_eager &&
        cursor_ != instance().next_stop_op() &&
        instance().binding().Matches(cursor_, op)) [[likely]] {
      GoOn();
      return true;
    }
    return EnterElse(op);
  }
  // Goes over the ops that are due, `count` at most, as if each had come and
  // been the one: up to the first that has to be shown. `passed` is told of
  // each, and gives out no values that they make but `taken` (ascending).
  // Returns how many.
  template <typename Passed>
  uint32_t FollowUnseen(uint32_t count, std::span<const engine::ValueId> taken,
                        Passed passed) {
    const uint32_t begin = cursor_;
    const uint32_t end = std::min(begin + count, entry()->ops);
    while (cursor_ < end) {
      if (cursor_ == instance().next_stop_op() &&
          !StopUnseen({.end_op = end, .taken = taken})) {
        break;
      }
      if (WritesOutside()) ++journal_.stats.effects;
      passed(cursor_);
      GoOn();
    }
    return cursor_ - begin;
  }
  // The next `count` ops come, on these operands (Instance::Tell).
  bool Tell(uint32_t count,
            std::span<const engine::Instance::KnownOperand> operands);
  // What an op uses lies where the pass has it.
  bool IsAt(const engine::ValueRef& ref, engine::StorageToken storage,
            uint64_t address) const {
    return instance().binding().IsAt(ref, storage, address);
  }
  // The op that is due.
  uint32_t cursor() const { return cursor_; }
  const std::shared_ptr<const engine::Program>& program() const {
    return instance().plan().program();
  }
  // The stream leaves here, for another reason than an op.
  void Leaving() { Squash({}); }
  // Memory was freed that it may have to read, and goes back to the device:
  // the replay is left if so.
  bool LeaveIfMemoryGoes();

  // Of the op that came last.
  const engine::TracedOp& followed() const {
    return instance().trace().ops[cursor_ - 1];
  }

 private:
  // The op is due.
  void GoOn() {
    if (++cursor_ == entry()->ops) Finish();
  }
  void Finish();
  // Of the ops that were followed.
  void CountPrivateWriters();
  bool EnterElse(const engine::OpView& op);
  // A segment is due, or a draw. False: the op has to be shown.
  bool StopUnseen(const engine::Instance::Foretold& foretold);
  // The op at which a segment is due. False if it could not be launched, or if
  // this is another op: the replay has been left.
  bool LaunchAt(const engine::OpView& op);
  // The op that is due draws, and the generator moves on. False if the
  // generator is not where it was expected.
  bool DrawsIfDue();
  // The op is the one that is due, but the generator is elsewhere.
  void LeaveByGenerator(const engine::OpView& op);
  void Diverge(const engine::OpView& op);
  void LeaveAt(const engine::OpView& op);
  // What was found in place of the op that is due; empty if it was no op.
  void Squash(std::string_view found);

  const engine::Frontend& frontend_;
  AllocatorWait& wait_;
  const OpsUnderWay* const under_way_;  // null: nobody notes ops
  const OpsUnderWay::Asker asker_;
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_REPLAY_H_
