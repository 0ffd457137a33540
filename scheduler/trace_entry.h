// What a session knows of one signature.

#ifndef REPRISE_SCHEDULER_TRACE_ENTRY_H_
#define REPRISE_SCHEDULER_TRACE_ENTRY_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cache/signature.h"
#include "engine/plan.h"
#include "engine/trace.h"
#include "scheduler/build_job.h"
#include "scheduler/profit.h"

namespace reprise::scheduler {

// What the report says of a plan, also when it has been evicted since.
struct PlanSummary {
  uint32_t launches = 0;
  size_t segments = 0;
  uint64_t bytes = 0;
  const char* mechanism = "";
  std::vector<std::string> notes;
};

// One trace on its way to a plan. States and legal transitions:
//
//   kSeen ─► kRecord ─► kConfirm ─► kBuilding ─► kCheckOps ─► kCheckWhole ─►
//   kReady
//              ▲           ▲            │            │             │ │ │ └──
//              unproven ┼────────────┴─────────────┴────────────┤
//              └────────────── replaced, evicted, or tried again
//              ◄──────────────┘
//   any ─► kGivenUp, with a reason; left only by Reset
//
// Under the session's lock.
// From kCheckOps on its plan is in the cache, unless it was evicted.
struct TraceEntry {
  enum class State : uint8_t {
    kSeen,        // closed once
    kRecord,      // its next pass is recorded
    kConfirm,     // its next pass is recorded again, relocated
    kBuilding,    // both recordings are with the build queue
    kCheckOps,    // its next pass validates the plan op by op
    kCheckWhole,  // its next pass validates whole segments
    kReady,       // may replace eager
    kGivenUp,
  };

  cache::Signature signature;
  uint32_t ops = 0;
  uint64_t head_hash = 0;
  State state = State::kSeen;
  uint64_t seen = 0;  // times it was closed

  std::shared_ptr<const engine::Trace> first;
  std::shared_ptr<BuildJob> job;  // while kBuilding
  PlanSummary summary;            // from kCheckOps on
  bool verdict_pending = false;
  uint32_t attempts = 0;  // failed builds and validations

  TraceEntry* successor = nullptr;  // the trace that came after it last
  // After a squash the plan rests for some passes, twice as many each time,
  // until one of its replays is followed to its end.
  uint32_t rest = 0;
  uint32_t next_rest = 1;

  Profit profit;
  uint64_t replays = 0;
  uint64_t squashes = 0;
  uint64_t validations = 0;
  std::string reason;  // why it was given up, or tried again
};

const char* ToString(TraceEntry::State state);

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_TRACE_ENTRY_H_
