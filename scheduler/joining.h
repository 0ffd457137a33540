// Which traces should be one.

#ifndef REPRISE_SCHEDULER_JOINING_H_
#define REPRISE_SCHEDULER_JOINING_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "scheduler/boundaries.h"
#include "scheduler/retention.h"
#include "scheduler/trace_entry.h"
#include "scheduler/trace_table.h"

namespace reprise::scheduler {

// Traces that always come one behind the other (Boundaries) are joined where
// each of them may be replayed, where the result is not too long, and where it
// is worth another plan. Lifecycle joins them. Under the session's lock.
class Joining {
 public:
  // Borrows all. `most_ops`: of one trace.
  Joining(TraceTable* traces, Boundaries* boundaries,
          const Retention* retention, size_t most_ops)
      : traces_(*traces),
        boundaries_(*boundaries),
        retention_(*retention),
        most_ops_(most_ops) {}

  // `behind` always comes right behind the trace. Returns what the trace is to
  // go on with: `behind`, and what else always comes behind that. Empty where
  // the two may not be joined.
  std::vector<TraceEntry*> PartsOf(const TraceEntry& entry,
                                   TraceEntry* behind) const;
  // The trace may become one that is so many ops longer.
  bool MayGoOn(const TraceEntry& entry, uint32_t ops) const;

 private:
  bool MayJoin(const TraceEntry& first, const TraceEntry& entry) const;

  TraceTable& traces_;
  Boundaries& boundaries_;
  const Retention& retention_;
  const size_t most_ops_;
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_JOINING_H_
