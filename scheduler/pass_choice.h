// Which pass a head begins.

#ifndef REPRISE_SCHEDULER_PASS_CHOICE_H_
#define REPRISE_SCHEDULER_PASS_CHOICE_H_

#include <cstdint>

#include "engine/base/clock.h"
#include "engine/base/options.h"
#include "engine/replay/backend.h"
#include "engine/trace/op.h"
#include "engine/trace/storage_holds.h"
#include "scheduler/journal.h"
#include "scheduler/learning.h"
#include "scheduler/lifecycle.h"
#include "scheduler/pass_timer.h"
#include "scheduler/passing.h"
#include "scheduler/plan_pass.h"
#include "scheduler/profit.h"
#include "scheduler/replay.h"
#include "scheduler/trace_entry.h"
#include "scheduler/validation.h"

namespace reprise::scheduler {

// Of the trace that a head promises, what its state, the policy and its plan
// allow: the plan is validated or replayed, the pass is let pass, or it is
// watched, and recorded if the trace waits for that. What is chosen has begun.
// Goes on with the trace first, if a build or a verdict is there. Under the
// session's lock. Cost: that of one pass's beginning, once a pass.
class PassChoice {
 public:
  struct Parts {  // all borrowed
    engine::Backend* backend = nullptr;
    const base::Options* options = nullptr;
    base::Policy policy = base::Policy::kAlways;  // kAuto resolved
    const base::StoppableClock* clock = nullptr;
    Journal* journal = nullptr;
    PassTimer* timer = nullptr;
    Learning* learning = nullptr;
    Lifecycle* life = nullptr;
    // Pinned until the next plan is tried.
    PlanInUse* in_use = nullptr;
    engine::StorageHolds* holds = nullptr;
    Passing* passing = nullptr;
    Validation* validation = nullptr;
    Replay* replay = nullptr;
  };
  explicit PassChoice(const Parts& parts)
      : parts_(parts),
        journal_(*parts.journal),
        timer_(*parts.timer),
        learning_(*parts.learning),
        life_(*parts.life),
        in_use_(*parts.in_use) {}

  // kWatching alone has not begun yet.
  enum class Next : uint8_t { kWatching, kPassing, kValidating, kReplaying };
  // The op comes, and promises that trace; null: none is known.
  Next Choose(TraceEntry* entry, const engine::OpView& op);

 private:
  // kPassing, but for one pass in some.
  Next TryPass(TraceEntry* entry);
  Next TryPlan(TraceEntry* entry, const engine::OpView& op);
  // What this pass is to be, by policy, profit and rest after squashes.
  Profit::Mode ChooseMode(TraceEntry* entry);
  bool WantsValidation(TraceEntry* entry);
  // Binds the instance in use. Where it cannot, its entry may be recorded now.
  bool Resolve(const engine::OpView& op);

  const Parts parts_;
  Journal& journal_;
  PassTimer& timer_;
  Learning& learning_;
  Lifecycle& life_;
  PlanInUse& in_use_;
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_PASS_CHOICE_H_
