// What validations and replays have in common.

#ifndef REPRISE_SCHEDULER_PLAN_PASS_H_
#define REPRISE_SCHEDULER_PLAN_PASS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "engine/base/status.h"
#include "engine/replay/instance.h"
#include "engine/replay/plan.h"
#include "engine/trace/op.h"
#include "engine/trace/trace.h"
#include "scheduler/boundaries.h"
#include "scheduler/journal.h"
#include "scheduler/lifecycle.h"
#include "scheduler/plan_cache.h"
#include "scheduler/span.h"
#include "scheduler/stream_writes.h"
#include "scheduler/trace_entry.h"

namespace reprise::scheduler {

// The plan of an entry, pinned, and the instance of it that a pass runs on.
struct PlanInUse {
  TraceEntry* entry = nullptr;
  PlanCache::Pin plan;
  size_t index = 0;
  engine::Instance* instance = nullptr;
};

// A pass that runs on an instance of a plan: how far it is, and what follows
// where it goes another way. Under the session's lock.
class PlanPass {
 public:
  struct Parts {  // all borrowed, but `track`
    PlanInUse* in_use = nullptr;
    Lifecycle* life = nullptr;
    Journal* journal = nullptr;
    Boundaries* boundaries = nullptr;
    // Of all streams; null: there is one.
    const StreamWrites* writes = nullptr;
    Track track;
  };
  explicit PlanPass(const Parts& parts)
      : in_use_(*parts.in_use),
        life_(*parts.life),
        journal_(*parts.journal),
        boundaries_(*parts.boundaries),
        writes_(parts.writes),
        track_(parts.track) {}

  // While the pass is under way, and right behind it: all ops have come.
  bool over() const { return cursor_ == in_use_.entry->ops; }
  // While it is under way: what the op that has come writes is what this pass
  // has made.
  bool WritesOwn(const engine::OpView& op) const {
    for (size_t i = 0; i < op.operands.size(); ++i) {
      if (op.operands[i].written &&
          !instance().binding().Made(cursor_, i, op.operands[i])) {
        return false;
      }
    }
    return true;
  }

 protected:
  TraceEntry* entry() const { return in_use_.entry; }
  engine::Instance& instance() const { return *in_use_.instance; }
  // The op that is due, or comes next.
  const engine::TracedOp& traced() const {
    return instance().trace().ops[cursor_];
  }

  // The op that is due writes memory of the program's ...
  bool WritesOutside() const {
    return instance().plan().effects().writes_outside(cursor_);
  }
  // ... or some that the plan has copies of.
  bool WritesPrivate() const {
    return std::ranges::any_of(
        traced().operands, [this](const engine::ValueRef& operand) {
          return operand.written &&
                 instance().plan().effects().is_private(operand.value);
        });
  }
  bool HasPrivates() const {
    return !instance().plan().effects().privates().empty();
  }
  // Other streams would have to be told before what a pass has of the program's
  // state to itself is given back: there is to be another plan, which has none.
  bool KeepsFromOthers() const {
    if (!HasPrivates() || writes_ == nullptr || !writes_->several()) {
      return false;
    }
    Lifecycle::Outdate(entry());
    return true;
  }

  void BeginSpan(Doing doing) {
    span_.Begin(track_, doing, entry()->signature, entry()->ops);
  }

  // A launch that was due did what the pass needs now; what else went wrong is
  // noted.
  bool Goes(const base::Status& launched) {
    if (launched) return true;
    if (instance().launched_ops() <= cursor_) return false;
    ++journal_.notes["launched no further than the program was: " +
                     launched.error().message()];
    return true;
  }
  // The pass was left before the op that was due; null: for what is no op's.
  void NoteLeaving(const engine::OpView* came) {
    const bool operands = came != nullptr && came->cut == nullptr &&
                          instance().binding().SameWords(cursor_, *came);
    life_.NoteLeaving(entry(), instance().plan().effects(), cursor_, traced(),
                      operands);
  }
  // The op that came brings numbers that the recordings do not tell enough of.
  bool LearnNumbers(const engine::OpView& op) {
    return life_.LearnNumbers(entry(), cursor_, traced(), op);
  }

  PlanInUse& in_use_;
  Lifecycle& life_;
  Journal& journal_;
  Boundaries& boundaries_;
  const StreamWrites* writes_;
  const Track track_;
  Span span_;  // of the pass that is under way
  uint32_t cursor_ = 0;
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_PLAN_PASS_H_
