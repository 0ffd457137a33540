// A timeline of batches as a file that trace viewers open.

#ifndef REPRISE_SCHEDULER_CHROME_TRACE_H_
#define REPRISE_SCHEDULER_CHROME_TRACE_H_

#include <string>

#include "scheduler/timeline.h"

namespace reprise::scheduler {

// JSON text in Chrome's trace event format, for ui.perfetto.dev and
// chrome://tracing, with the clock of torch.profiler's traces: a track for each
// stream, and one for each thread that builds.
std::string ChromeTraceJson(const Timeline::Excerpt& excerpt);

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_CHROME_TRACE_H_
