// The report of a session, for programs.

#ifndef REPRISE_SCHEDULER_REPORT_H_
#define REPRISE_SCHEDULER_REPORT_H_

#include <string>
#include <vector>

#include "scheduler/stream_session.h"

namespace reprise::scheduler {

// JSON text over all `sessions`; docs/report.md describes its fields. Takes
// each session's lock in turn. `mode` is "cuda" or "host"; `stats` are all
// sessions' together.
std::string ReportJson(const std::string& mode, const Stats& stats,
                       const std::vector<StreamSession*>& sessions);

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_REPORT_H_
