// What a session knows of one trace.
//
// Larger than its limit: a trace is named by what many parts of a session know
// of it. Each member has one owner, who alone writes it.

#ifndef REPRISE_SCHEDULER_TRACE_ENTRY_H_
#define REPRISE_SCHEDULER_TRACE_ENTRY_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cache/signature.h"
#include "engine/base/log.h"
#include "engine/base/tries.h"
#include "engine/replay/plan.h"
#include "engine/trace/trace.h"
#include "scheduler/arena_groups.h"
#include "scheduler/build_job.h"
#include "scheduler/externals.h"
#include "scheduler/instance_uses.h"
#include "scheduler/joined.h"
#include "scheduler/known_ops.h"
#include "scheduler/leavings.h"
#include "scheduler/pass_times.h"
#include "scheduler/profit.h"
#include "scheduler/renewal.h"
#include "scheduler/run_length.h"
#include "scheduler/succession.h"
#include "scheduler/suspects.h"
#include "scheduler/trace_id.h"
#include "scheduler/turns.h"
#include "scheduler/variations.h"

namespace reprise::scheduler {

// One trace on its way to a plan. States and legal transitions:
//
//   kSeen ─► kRecord ─► kConfirm ─► kBuilding ─► kCheckOps ─► kCheckWhole ─►
//     kReady
//   kCheckOps and on ─► kConfirm   an external, a number or a value does what
//                                  no recording tells of
//   kCheckWhole and on ─► kCheckOps   an op may be nondeterministic
//   kBuilding and on ─► kRecord    replaced, evicted, or tried again
//   any ─► kGivenUp, with a reason
//   kReady ─► kSeen   joined with what always comes behind it; so is what was
//                     given up for its size. Else only Reset leaves kGivenUp
//   kBuilding and on ─► kRecord    it comes as part of a longer trace alone
//
// The states from kCheckOps to kReady are those of the plan's first instance;
// another one is built and validated while the plan is ready. Each is replayed
// once it was validated itself (InstanceUse::usable).
//
// Under the session's lock.
// From kCheckOps on its plan is in the cache, unless it was evicted. TraceTable
// owns it, and forgets it in any state.
struct TraceEntry {
  explicit TraceEntry(Identity identity) : identity(std::move(identity)) {}

  enum class State : uint8_t {
    kSeen,        // closed once
    kRecord,      // its next pass is recorded, or a later one (Renewal)
    kConfirm,     // its next pass is recorded again, relocated
    kBuilding,    // both recordings are with the build queue
    kCheckOps,    // its next pass validates the plan op by op
    kCheckWhole,  // its next pass validates whole segments
    kReady,       // may replace eager
    kGivenUp,
  };

  static constexpr uint32_t kShareOfEnd = 16;  // one op in so many

  TraceId id = TraceId::kNone;
  cache::Signature signature;
  uint32_t ops = 0;
  uint64_t head_hash = 0;
  State state = State::kSeen;
  uint64_t seen = 0;  // times it was closed
  uint64_t came = 0;  // then it was the session's pass of that number
  KnownOps known_ops;

  // The recordings. While kBuilding they are the job's, from kCheckOps on the
  // first one is the plan's, and goes with it: `planned`.
  std::shared_ptr<const engine::Trace> first;
  std::shared_ptr<const engine::Trace> second;
  std::weak_ptr<const engine::Trace> planned;
  // Values that the program had behind the first recording and no more when the
  // trace came next; none: it has not come since.
  std::optional<std::vector<engine::ValueId>> released;
  // While kBuilding, and while another instance of a plan that is ready is
  // built.
  std::shared_ptr<BuildJob> job;
  uint64_t build = 0;      // of its plan: see PlanKey
  PlanSummary summary;     // from kCheckOps on
  InstanceUses instances;  // of its plan
  // While it has a plan, or waits for one: those that it may share an arena
  // with; null where it was in use at once with them.
  std::unique_ptr<ArenaMember> member;
  bool apart = false;
  base::Tries stays_crowded{2};  // more is alive there than may be
  bool drops_last = false;       // of its instances, before its next pass
  bool verdict_pending = false;
  size_t validating = 0;  // the instance that the verdict is for
  // To be recorded again behind a build or a validation that failed, perhaps
  // for what happens once in a process (a library that makes its workspace).
  base::Tries tries{2};
  Suspects suspects;
  // Its recordings and its plan do not know what was learned since: it starts
  // over when its head comes.
  bool outdated = false;
  Renewal renewal;

  Variations variations;

  // Which of the traces of this signature it is. Shared: there were too many
  // to be told apart, and this one stands for those that are not known.
  Identity identity;
  bool shared = false;
  // Its head has come, and a run of its plan (a replay, a validation) may
  // begin: fails where the program leaves it, succeeds where it is followed to
  // its end.
  Turns running;
  // The same of a recording: fails where another trace comes.
  Turns being_recorded;
  // Its head has promised it, and a trace of other ops came.
  void BrokePromise() { ++broken_promises_; }
  void KeptPromise() { broken_promises_ = 0; }
  bool keeps_promises() const { return broken_promises_ < kMostBroken; }
  // An instance of its plan replays a pass.
  void Replayed(size_t instance) {
    ++replays;
    instances.Replayed(instance, replays);
    leavings.RunBegan();
  }
  void CountSquash() { ++squashes; }
  void Followed() {
    running.Succeed();
    refusals.Renew();
  }
  // Passes in a row that may be left because an op refused to run.
  base::Tries refusals{2};
  // Nearly all of its ops are before that one: who leaves it there has lost
  // little.
  bool EndsSoonBehind(uint32_t op) const {
    return kShareOfEnd * (ops - op) <= ops;
  }
  Leavings leavings;

  Succession succession;
  RunLength run;
  Joined joined;
  bool stayed_away = false;  // its plan went for that, before it was proved

  PassTimes times;
  Profit profit;
  uint64_t replays = 0;  // of all instances there ever were; so the others
  uint64_t squashes = 0;
  uint64_t validations = 0;
  std::string reason;  // why it was given up, or tried again

  // TraceTable's own.
  std::list<TraceEntry>::iterator place;
  bool kept_with_plan = false;
  size_t counted_bytes = 0;

  // Not only once. What was joined has, as its parts.
  bool comes_again() const { return seen > 1 || joined.is_joined(); }
  bool has_plan() const {
    return state >= State::kCheckOps && state <= State::kReady;
  }
  // Its plan is on its way, or it is not known yet whether it pays.
  bool promises() const {
    switch (state) {
      case State::kRecord:
        return !renewal.waiting();
      case State::kConfirm:
      case State::kBuilding:
      case State::kCheckOps:
      case State::kCheckWhole:
        return true;
      case State::kReady:
        return profit.finding() == Profit::Finding::kUnknown;
      case State::kSeen:
      case State::kGivenUp:
        break;
    }
    return false;
  }
  // The first recording, wherever it is; null if there is none.
  std::shared_ptr<const engine::Trace> recording() const {
    return first != nullptr ? first : planned.lock();
  }

 private:
  static constexpr uint32_t kMostBroken = 2;

  uint32_t broken_promises_ = 0;  // since it came last
};

const char* ToString(TraceEntry::State state);

// Logs what becomes of a trace (REPRISE_LOG=info, debug).
void Say(base::LogLevel level, const TraceEntry& entry, std::string_view what);

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_TRACE_ENTRY_H_
