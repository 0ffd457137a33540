// Which instances the plans of a session have.

#ifndef REPRISE_SCHEDULER_INSTANCES_H_
#define REPRISE_SCHEDULER_INSTANCES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "engine/base/options.h"
#include "engine/base/status.h"
#include "engine/replay/instance.h"
#include "engine/replay/plan.h"
#include "scheduler/arena_groups.h"
#include "scheduler/build_job.h"
#include "scheduler/journal.h"
#include "scheduler/plan_cache.h"
#include "scheduler/shared_arena.h"
#include "scheduler/trace_entry.h"
#include "scheduler/trace_table.h"

namespace reprise::scheduler {

// Chooses the instance that a pass of a plan runs on, has another one built
// where that pays, and drops one that is idle. Chooses the arena that an
// instance gets: its own, or one in which the plans of several sizes take turns
// (ArenaGroups). Such a plan moves when the others leave its arena.
//
// Takes no trace to another state: what a plan's end follows from is returned.
// Under the session's lock.
class Instances {
 public:
  struct Parts {  // all borrowed, but `build`
    PlanCache* plans = nullptr;
    const base::Options* options = nullptr;
    Journal* journal = nullptr;
    TraceTable* traces = nullptr;
    // Begins to build another instance of the entry's plan (TraceEntry::job).
    std::function<void(TraceEntry*, BuildJob::Parts)> build;
  };
  explicit Instances(Parts parts);

  // The entry's recordings are about to be built: finds it a group.
  void JoinGroup(TraceEntry* entry);
  // Where an instance that is made now belongs; null: it has its own arena.
  static std::shared_ptr<SharedArena> ArenaOf(const TraceEntry& entry);

  // Which instance of its plan a pass runs on; nothing if another one is on its
  // way. One that is not validated yet goes first where it may be.
  std::optional<size_t> Choose(TraceEntry* entry, const PlanCache::Pin& pin,
                               bool may_validate);
  // Before its instance is resolved: what the program keeps of others' values
  // has no place in the arena that they share.
  static void KeepOut(TraceEntry* entry, engine::Plan& plan);
  // The instance was resolved. Returns the traces whose plans are to go: they
  // come no more, and keep arenas that the others of the group have left.
  std::vector<TraceEntry*> HasRoom(TraceEntry* entry,
                                   const engine::Instance& instance);
  // The instance could not be resolved: values of another plan are alive in its
  // arena. True: the trace is to be recorded again.
  [[nodiscard]] bool HasNoRoom(TraceEntry* entry,
                               const std::shared_ptr<engine::Ledger>& arena,
                               size_t index);
  // An instance has taken more memory.
  void NoteGrowth(TraceEntry* entry, const PlanCache::Pin& pin, size_t index,
                  uint64_t bytes);

  // Forgets all groups.
  void Clear() { groups_.Clear(); }

 private:
  // That instance is to be made again, in another arena.
  bool IsElsewhere(const TraceEntry& entry, const engine::Plan& plan,
                   size_t index) const;
  void Move(TraceEntry* entry, const PlanCache::Pin& pin);
  // The first of two has been made again: it goes.
  void EndMove(TraceEntry* entry, const PlanCache::Pin& pin);
  bool WantsAnother(const TraceEntry& entry,
                    const engine::Plan::Choice& choice) const;
  // The job is done, or goes on.
  void Collect(TraceEntry* entry, const PlanCache::Pin& pin);
  static void Refuse(TraceEntry* entry, std::string_view reason);
  // The last one, which the chosen one has replaced for long.
  void DropIdle(TraceEntry* entry, const PlanCache::Pin& pin, size_t chosen);
  void DropLast(TraceEntry* entry, const PlanCache::Pin& pin);
  void Build(TraceEntry* entry, const engine::Plan& plan);
  // The plan is charged for what it is now.
  base::Status Recharge(const TraceEntry& entry, const PlanCache::Pin& pin);
  std::vector<TraceEntry*> LeftBehind(const ArenaGroup& group);

  const Parts parts_;
  PlanCache& plans_;
  ArenaGroups groups_;
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_INSTANCES_H_
