// A pass in which a plan runs beside eager.

#ifndef REPRISE_SCHEDULER_VALIDATION_H_
#define REPRISE_SCHEDULER_VALIDATION_H_

#include <cstdint>
#include <span>
#include <vector>

#include "engine/base/status.h"
#include "engine/replay/outside_writes.h"
#include "engine/replay/run_twice.h"
#include "engine/trace/frontend.h"
#include "engine/trace/op.h"
#include "scheduler/learning.h"
#include "scheduler/plan_pass.h"

namespace reprise::scheduler {

// Eager runs each op; an instance runs the same, and every bit of what both
// write is compared on the device. Its first pass launches op by op, later ones
// whole segments, as a replay does:
//
//   Begin ─► (Enter ─► Leave)* ─► over(): the entry's verdict is pending
//              └─────────┴──────► left: nothing is learned
//
// Where both write the program's memory, or use its random generator, they do
// so one after the other, each upon the same bits (OutsideWrites), and what
// eager wrote is what stays.
//
// Ops that gave other bits than eager, and may be nondeterministic
// (TraceEntry::suspects), are run twice, to see whether they are and how far
// apart two runs are; so are those that are known to be. In whole segments they
// are compared to within rounding. Eager's bits are put in place of the plan's
// behind each op that may be nondeterministic, so that what comes behind is
// compared bit by bit.
//
// Under the session's lock.
class Validation : public PlanPass {
 public:
  // Both are borrowed, too.
  Validation(const Parts& parts, Learning* learning, engine::Frontend* frontend)
      : PlanPass(parts),
        learning_(*learning),
        frontend_(*frontend),
        outside_(frontend) {}

  // At the head, which eager is about to run: the instance is resolved. False
  // if it cannot be launched: nothing was begun.
  bool Begin(const engine::OpView& head);
  // The op comes. True if it is the one that is due: eager is to run it, and
  // then Leave is called. Else the validation has been left.
  bool Enter(const engine::OpView& op);
  // Eager has run the op that came last. False: the validation was left.
  bool Leave(const engine::OpView& op,
             std::span<const engine::ResultView> results);
  // The stream leaves here, for another reason than an op.
  void Leaving();

 private:
  // Launches a segment that is due. False if this is another op, or if it could
  // not be launched.
  bool GoOn(const engine::OpView& op);
  // The op is due and eager has not run it. False if it draws, and the
  // generator is not where the plan draws from.
  bool DrawsBesideEager();
  // The op is due and eager has not run it. What it writes over outside is
  // kept; false if it cannot be.
  bool KeepOutside(const engine::OpView& op);
  // Op by op, the op that is due writes private values: the program's memory is
  // to have what eager writes, the copy what the plan does.
  bool WritesBesideEager() const { return !whole_ && WritesPrivate(); }
  // What was launched has written outside; eager is to do so from the same
  // bits.
  base::Status TakeBackOutside();
  // What the op has written that came last, or is to write.
  using Pair = engine::WrittenPair;
  std::vector<Pair> PairsOf(const engine::OpView& op,
                            std::span<const engine::ResultView> results);
  // The op is launched by itself after eager has run it.
  base::Status LaunchAfterEager(std::span<const Pair> pairs);
  base::Status Compare(const engine::OpView& op,
                       std::span<const engine::ResultView> results);
  // The op is nondeterministic, or that is to be found out: op by op, it is run
  // twice.
  bool IsSuspect() const {
    return !whole_ &&
           (traced().nondeterministic || entry()->suspects.contains(cursor_));
  }
  // Eager's bits go in place of the plan's.
  bool Substitutes() const {
    return whole_ ? traced().nondeterministic
                  : frontend_.MayBeNondeterministic(traced().op);
  }
  void Finish();

  Learning& learning_;
  engine::Frontend& frontend_;
  bool whole_ = false;            // launches whole segments
  bool short_of_memory_ = false;  // that is why it was left
  engine::OutsideWrites outside_;
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_VALIDATION_H_
