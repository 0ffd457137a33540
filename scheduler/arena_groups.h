// Which plans of a session share an arena.

#ifndef REPRISE_SCHEDULER_ARENA_GROUPS_H_
#define REPRISE_SCHEDULER_ARENA_GROUPS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "cache/lru_map.h"
#include "cache/signature.h"
#include "engine/replay/ledger.h"
#include "engine/trace/trace.h"
#include "scheduler/plan_cache.h"
#include "scheduler/shared_arena.h"

namespace reprise::scheduler {

// Traces of the same operators and other sizes: batches of another length, as a
// rule, of which a program is done with one when it comes to the next.
struct ArenaGroup {
  explicit ArenaGroup(std::shared_ptr<SharedArena> arena)
      : arena(std::move(arena)) {}

  const std::shared_ptr<SharedArena> arena;
  std::set<cache::Signature> members;
  // Values that the program was seen to have still when another member came:
  // they escape, in all plans of the group.
  std::vector<engine::ValueId> escaping;
  // Heads in a row that found the arena occupied; arenas that were left for it.
  uint32_t blocked = 0;
  uint32_t left = 0;
  uint64_t heads = 0;  // of its members, that found room

  // Else the program has them in use at once after all.
  bool works() const { return left <= kMostLeft; }
  // One by itself shares with nobody.
  bool shares() const { return members.size() > 1 && works(); }

  static constexpr uint32_t kMostLeft = 4;
};

// A plan's place in its group, which it leaves by dropping it.
class ArenaMember {
 public:
  ArenaMember(std::shared_ptr<ArenaGroup> group, cache::Signature signature)
      : group_(std::move(group)), signature_(signature), came_(group_->heads) {
    group_->members.insert(signature_);
  }
  ~ArenaMember() { group_->members.erase(signature_); }
  ArenaMember(const ArenaMember&) = delete;
  ArenaMember& operator=(const ArenaMember&) = delete;

  ArenaGroup& group() { return *group_; }
  // Of the group's, those that have come since the last call.
  std::vector<engine::ValueId> NewEscapes() {
    const std::vector<engine::ValueId>& all = group_->escaping;
    return {
        all.begin() + static_cast<ptrdiff_t>(std::exchange(known_, all.size())),
        all.end()};
  }
  // A head of its trace has come, and has found room in that arena.
  void Came(const std::shared_ptr<engine::Ledger>& arena) {
    came_ = ++group_->heads;
    arena_ = arena;
  }
  // It was in the current one then.
  bool is_current() const { return group_->arena->IsCurrent(arena_.lock()); }
  // So many heads of others have, and none of its own.
  uint64_t absent() const { return group_->heads - came_; }
  bool has_new_escapes() const { return known_ < group_->escaping.size(); }

 private:
  std::shared_ptr<ArenaGroup> group_;
  const cache::Signature signature_;
  size_t known_ = 0;
  uint64_t came_;
  std::weak_ptr<engine::Ledger> arena_;
};

// The groups of a session. Traces of one signature, which differ in their
// weights alone, are layers of one pass and in use at once: each of them is in
// a group of its own. Under the session's lock.
class ArenaGroups {
 public:
  // Arenas of fewer bytes are not shared.
  ArenaGroups(PlanCache* plans, uint64_t least_bytes)
      : plans_(plans), least_bytes_(least_bytes) {}

  std::unique_ptr<ArenaMember> Join(const engine::Trace& trace,
                                    const cache::Signature& signature) {
    const uint64_t form = FormOf(trace);
    Groups* groups = forms_.Find(form);
    if (groups == nullptr) groups = &forms_.Put(form);
    for (const std::shared_ptr<ArenaGroup>& group : *groups) {
      if (!group->members.contains(signature)) {
        return std::make_unique<ArenaMember>(group, signature);
      }
    }
    return std::make_unique<ArenaMember>(
        groups->emplace_back(std::make_shared<ArenaGroup>(
            std::make_shared<SharedArena>(plans_, least_bytes_))),
        signature);
  }

  void Clear() { forms_.Clear(); }

 private:
  using Groups = std::vector<std::shared_ptr<ArenaGroup>>;
  static constexpr size_t kMostForms = 256;

  // Of its operators in their order, and of how many values they use.
  static uint64_t FormOf(const engine::Trace& trace) {
    std::vector<uint64_t> words = {trace.values.size()};
    for (const engine::TracedOp& op : trace.ops) words.push_back(op.op);
    return cache::HashWords(words).lo;
  }

  PlanCache* const plans_;
  const uint64_t least_bytes_;
  cache::LruMap<uint64_t, Groups> forms_{kMostForms};
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_ARENA_GROUPS_H_
