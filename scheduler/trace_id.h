// Which trace of a session it is.

#ifndef REPRISE_SCHEDULER_TRACE_ID_H_
#define REPRISE_SCHEDULER_TRACE_ID_H_

#include <cstdint>

namespace reprise::scheduler {

// Never another trace's, so that who keeps one need not hear that its trace was
// forgotten.
enum class TraceId : uint64_t { kNone = 0 };

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_TRACE_ID_H_
