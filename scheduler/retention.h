// Which plans go because their traces come no more.

#ifndef REPRISE_SCHEDULER_RETENTION_H_
#define REPRISE_SCHEDULER_RETENTION_H_

#include <cstdint>
#include <vector>

#include "scheduler/plan_cache.h"
#include "scheduler/trace_entry.h"
#include "scheduler/trace_table.h"

namespace reprise::scheduler {

// The cache evicts plans when its budget is used up. Until then a plan whose
// trace has stopped coming would keep its memory from the program. This finds
// such plans; Lifecycle drops them.
//
// Under the session's lock. Cost: a walk over the traces, once in so many
// passes, and once in so many replays of one trace.
class Retention {
 public:
  // Both are borrowed.
  Retention(TraceTable* traces, const PlanCache* plans)
      : traces_(*traces), plans_(*plans) {}

  // The plan takes much of the budget.
  bool IsLarge(const TraceEntry& entry) const;

  // So many passes of the session have ended. Returns the traces whose plans
  // are not proved, and that have not come for long.
  std::vector<TraceEntry*> Unproved(uint64_t passes);
  // The trace has been replayed often enough (Joined::AreDue). Returns its
  // parts, if it was joined, that have not come by themselves since they were
  // last looked at.
  std::vector<TraceEntry*> IdleParts(TraceEntry* entry);
  // Adds large traces of the same loop, which begin at another op, to the
  // parts. They are looked for once.
  void LookForRotated(TraceEntry* entry);

 private:
  TraceTable& traces_;
  const PlanCache& plans_;
  uint64_t next_look_ = 0;  // in passes
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_RETENTION_H_
