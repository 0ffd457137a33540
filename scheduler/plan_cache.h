// All plans of a runtime, under one budget of bytes.

#ifndef REPRISE_SCHEDULER_PLAN_CACHE_H_
#define REPRISE_SCHEDULER_PLAN_CACHE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "cache/lru_cache.h"
#include "engine/replay/plan.h"

namespace reprise::scheduler {

// A plan belongs to one session: its graphs and its arena are used in the order
// of one stream. The session numbers its builds, so that no key comes again.
struct PlanKey {
  uint64_t build = 0;
  const void* session = nullptr;  // whose plan it is; null: an arena's
  bool operator==(const PlanKey&) const = default;

  bool is_plan() const { return session != nullptr; }
  // Of an arena: another one each time.
  static PlanKey OfArena() {
    static std::atomic<uint64_t> last{0};
    return {last.fetch_add(1, std::memory_order_relaxed), nullptr};
  }
};

struct PlanKeyHash {
  size_t operator()(const PlanKey& key) const noexcept {
    return std::hash<uint64_t>()(key.build) ^
           std::hash<const void*>()(key.session);
  }
};

// A plan is put here by the thread that built it (BuildJob). It is charged for
// all its instances and for its recordings, which it owns, and evicted with all
// of them. A session pins the plan that it validates or follows.
// An arena that several plans share (SharedArena) is charged by an entry of its
// own, without a plan, which is pinned while one of them is there.
using PlanCache =
    cache::PinnedLruCache<PlanKey, std::unique_ptr<engine::Plan>, PlanKeyHash>;

// Evicts idle plans, least recently used first, until so many bytes more fit or
// none is left. One at a time: an arena that several share is given back with
// the last of them, which no single look tells.
inline void MakeRoom(PlanCache& plans, size_t bytes) {
  for (size_t charge = plans.stats().charge_bytes;
       charge > 0 && charge + bytes > plans.budget_bytes();) {
    plans.Trim(charge - 1);
    const size_t left = plans.stats().charge_bytes;
    if (left == charge) return;
    charge = left;
  }
}

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_PLAN_CACHE_H_
