// An arena in which plans of a session take turns.

#ifndef REPRISE_SCHEDULER_SHARED_ARENA_H_
#define REPRISE_SCHEDULER_SHARED_ARENA_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "engine/base/mutex.h"
#include "engine/base/status.h"
#include "engine/program/program.h"
#include "engine/replay/backend.h"
#include "engine/replay/ledger.h"
#include "scheduler/plan_cache.h"

namespace reprise::scheduler {

// The same memory for instances of plans that are never in use at once. It is
// as large as the largest of them: one that is larger is made in a larger
// arena, which is the current one from then on, and those in older ones are to
// be made again in it. An older one goes with the last of its instances.
//
// The cache is charged for each arena by itself, under a key of its own that is
// pinned while it has instances. Thread-safe; outlived by `plans`.
class SharedArena {
 public:
  // Smaller ones share nothing.
  SharedArena(PlanCache* plans, uint64_t least_bytes)
      : plans_(plans), least_bytes_(least_bytes) {}
  SharedArena(const SharedArena&) = delete;
  SharedArena& operator=(const SharedArena&) = delete;

  // For an instance of that program, on the thread that builds it; null if that
  // is to have its own. kResourceExhausted when memory is short, or the cache's
  // budget.
  base::Result<std::shared_ptr<engine::Ledger>> Take(
      const engine::Program& program, engine::Backend& backend)
      REPRISE_EXCLUDES(mutex_);

  // Instances that are made now are made there.
  bool IsCurrent(const std::shared_ptr<engine::Ledger>& arena) const
      REPRISE_EXCLUDES(mutex_);

  // No instance is made in the current one any more.
  void Leave() REPRISE_EXCLUDES(mutex_);

 private:
  PlanCache* const plans_;
  const uint64_t least_bytes_;
  mutable base::Mutex mutex_;
  std::weak_ptr<engine::Ledger> current_ REPRISE_GUARDED_BY(mutex_);
  uint64_t bytes_ REPRISE_GUARDED_BY(mutex_) = 0;  // of it
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_SHARED_ARENA_H_
