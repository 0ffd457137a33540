// What a plan of batches is like.

#ifndef REPRISE_ENGINE_BATCH_PLAN_REPORT_H_
#define REPRISE_ENGINE_BATCH_PLAN_REPORT_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "engine/base/patching.h"

namespace reprise::engine {

// A graph that a stream holds, or a batch that it could not build one for
// (nothing but `launches` and `why_not`), for people.
struct PlanReport {
  size_t launches = 0;
  base::Patching patching = base::Patching::kSetParams;
  std::string why;      // that one
  size_t in_table = 0;  // launches that read their arguments there
  uint64_t replays = 0;
  double changed = 0;  // launches a replay, of late
  // Of the replays that changed something, of late, the part that came while
  // the stream had work in flight; known where the mechanism is chosen by
  // costs.
  double busy = 0;
  uint64_t taken_over = 0;  // from other batches
  // The last mechanism, takeover, measurement or patching that failed, with the
  // driver's reason.
  std::string why_not;
};

}  // namespace reprise::engine

#endif  // REPRISE_ENGINE_BATCH_PLAN_REPORT_H_
