// What the sessions of a runtime tell, together.

#ifndef REPRISE_SCHEDULER_REPORT_H_
#define REPRISE_SCHEDULER_REPORT_H_

#include <string>
#include <vector>

#include "scheduler/stats.h"
#include "scheduler/stream_session.h"
#include "scheduler/timeline.h"

namespace reprise::scheduler {

// JSON text over all `sessions`; docs/report.md describes its fields. Takes
// each session's lock in turn. `mode` is "cuda" or "host"; `stats` are all
// sessions' together.
std::string ReportJson(const std::string& mode, const Stats& stats,
                       const std::vector<StreamSession*>& sessions);

// The counters of all sessions' journals. Takes each session's lock in turn.
Stats SumOfStats(const std::vector<StreamSession*>& sessions);

// Adds the program's lines to those squashes in the excerpt that are of these
// sessions. Takes the lock of each such session in turn.
void AddPlaces(Timeline::Excerpt& excerpt,
               const std::vector<StreamSession*>& sessions);

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_REPORT_H_
