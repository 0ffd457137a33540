// Counters since a runtime was made or reset.

#ifndef REPRISE_SCHEDULER_STATS_H_
#define REPRISE_SCHEDULER_STATS_H_

#include <cstdint>

namespace reprise::scheduler {

// X(name, meaning)
#define REPRISE_STATS(X)                                                   \
  X(ops, "seen by hooks")                                                  \
  X(followed, "ops answered from a replay")                                \
  X(unshown, "of these, ops of regions that were not shown one by one")    \
  X(traces, "traces closed")                                               \
  X(signatures, "distinct signatures")                                     \
  X(recorded, "recordings kept")                                           \
  X(builds, "instances of plans built")                                    \
  X(rejected, "builds or plans given up")                                  \
  X(validated, "validation passes that found equal bits")                  \
  X(replays, "plans launched in place of eager")                           \
  X(squashes, "replays that the program left")                             \
  X(saved_us, "microseconds that replays saved, where measured")           \
  X(recording_us, "microseconds of recorded passes beyond watched ones")   \
  X(validating_us, "microseconds of validated passes beyond watched ones") \
  X(escapes, "outputs written to fresh memory")                            \
  X(effects, "followed ops that wrote memory of the program's")            \
  X(evictions, "plans evicted")                                            \
  X(forgotten, "traces, cuts and notes forgotten to stay within bounds")   \
  X(plans, "plans now in the cache")                                       \
  X(plan_bytes, "bytes of arenas, graphs and recordings now held")         \
  X(trace_bytes, "bytes of the host now kept of traces without a plan")

struct Stats {
#define REPRISE_STATS_FIELD(name, meaning) uint64_t name = 0;
  REPRISE_STATS(REPRISE_STATS_FIELD)
#undef REPRISE_STATS_FIELD
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_STATS_H_
