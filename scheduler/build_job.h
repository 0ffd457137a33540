// A program that is explained, or one more instance of it, on its way from a
// session, over the build queue, into the cache of plans.

#ifndef REPRISE_SCHEDULER_BUILD_JOB_H_
#define REPRISE_SCHEDULER_BUILD_JOB_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/program/program.h"
#include "engine/replay/backend.h"
#include "engine/trace/trace.h"
#include "scheduler/plan_cache.h"
#include "scheduler/shared_arena.h"
#include "scheduler/span.h"

namespace reprise::scheduler {

// What the report says of a plan, also when it has been evicted since.
struct PlanSummary {
  uint32_t launches = 0;
  size_t segments = 0;
  size_t gates = 0;            // segments that wait for an op of the program's
  uint32_t lanes = 1;          // in which its ops run side by side
  uint64_t layout_bytes = 0;   // of each instance's arena
  uint64_t bytes_at_once = 0;  // what is alive of it at once, at most
  const char* mechanism = "";
  std::vector<std::string> notes;
};

// The session makes it, and the build thread calls Run, once:
//
//   kQueued ─Run─► kRunning ───► kDone
//      └────────────Abandon─┴──────┴──► kAbandoned
//
// What was built is put into the cache by Run itself, under a key of its own:
// it is charged and may be evicted from then on, whether or not its trace comes
// again. The session that sees done() takes the outcome, and looks the plan up.
//
// Abandoned, it leaves nothing in the cache: what has been put there is erased
// by Abandon if the job was done, else by Run. While it was queued, nothing is
// built, and what it was to be built from goes at once.
//
// Thread-safe as said; `backend` and `plans` must outlive Run.
class BuildJob {
 public:
  struct Parts {
    engine::Backend* backend = nullptr;
    PlanCache* plans = nullptr;
    PlanKey key;
    // Of a plan to be: its recordings. The first one is the job's until it is
    // the plan's that was put; that of a build that failed or was refused goes
    // with the job.
    std::shared_ptr<const engine::Trace> first;
    std::shared_ptr<const engine::Trace> second;
    // Of one more instance: what it is made of, for the plan that there is
    // (Plan::Adopt).
    std::shared_ptr<const engine::Program> program;
    // Where the instance is made, if it is large enough to share an arena with
    // others; null: it has its own.
    std::shared_ptr<SharedArena> arena;
    Track track;  // of the stream that it is for
  };
  struct Built {
    PlanSummary summary;
    uint64_t bytes = 0;   // graphs, and its own arena
    bool shares = false;  // it has no arena of its own
    std::string refusal;  // why it is not in the cache; empty if it was put
  };
  using Outcome = tl::expected<Built, engine::BuildFailure>;

  explicit BuildJob(Parts parts)
      : parts_(std::move(parts)),
        recording_bytes_(parts_.first == nullptr
                             ? 0
                             : parts_.first->host_bytes +
                                   parts_.second->host_bytes) {}

  void Run();
  // By the session, which wants nothing of it any more.
  void Abandon();

  // Acquire: publishes the outcome.
  bool done() const {
    return state_.load(std::memory_order_acquire) == State::kDone;
  }
  const PlanKey& key() const { return parts_.key; }
  // What it keeps of the host's memory until it is done.
  size_t recording_bytes() const { return done() ? 0 : recording_bytes_; }
  // Once, when it is done.
  Outcome TakeOutcome() { return std::move(*outcome_); }

 private:
  enum class State : uint8_t { kQueued, kRunning, kDone, kAbandoned };

  bool is_plan() const { return parts_.first != nullptr; }
  Outcome Build();
  Outcome BuildWatched();
  base::Result<engine::InstanceParts> Instantiate(
      const std::shared_ptr<const engine::Program>& program);
  // Says why not, or nothing.
  std::string Put(std::shared_ptr<const engine::Program> program,
                  engine::InstanceParts instance);

  Parts parts_;
  const size_t recording_bytes_;
  std::optional<Outcome> outcome_;
  std::atomic<State> state_{State::kQueued};
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_BUILD_JOB_H_
