#include "scheduler/instances.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "engine/base/log.h"
#include "scheduler/instance_policy.h"

namespace reprise::scheduler {

using engine::Plan;

namespace {

// More values than this are not kept out of an arena that several plans share:
// that costs each of their passes a microsecond a value.
constexpr uint64_t kMostKept = 8;
// So many heads may find such an arena occupied before another one is launched
// in it.
constexpr uint32_t kBlocked = 4;
// After so many heads of a group those are looked at that have not come for so
// many times the group's members.
constexpr uint64_t kHeadsASweep = 64;
constexpr uint64_t kRoundsAbsent = 8;

}  // namespace

Instances::Instances(Parts parts)
    : parts_(std::move(parts)),
      plans_(*parts_.plans),
      groups_(parts_.plans, parts_.options->shared_arena_bytes) {}

// --- Where an instance's arena is --------------------------------------------

void Instances::JoinGroup(TraceEntry* entry) {
  if (entry->member != nullptr || entry->apart) return;
  entry->member = groups_.Join(*entry->first, entry->signature);
}

std::shared_ptr<SharedArena> Instances::ArenaOf(const TraceEntry& entry) {
  if (entry.member == nullptr) return nullptr;
  const ArenaGroup& group = entry.member->group();
  const bool shares = entry.has_plan() && entry.instances.front().shares;
  return group.shares() || (shares && group.works()) ? group.arena : nullptr;
}

bool Instances::IsElsewhere(const TraceEntry& entry, const Plan& plan,
                            size_t index) const {
  const bool shares = entry.instances[index].shares;
  const std::shared_ptr<SharedArena> arena = ArenaOf(entry);
  if (arena == nullptr) return shares;
  if (shares) return !arena->IsCurrent(plan.instance(index).arena());
  return entry.summary.layout_bytes >= parts_.options->shared_arena_bytes;
}

void Instances::Move(TraceEntry* entry, const PlanCache::Pin& pin) {
  const Plan& plan = **pin;
  const size_t last = plan.instances() - 1;
  if (last == 0) {
    if (entry->job == nullptr && !entry->instances.complete()) {
      Build(entry, plan);
    }
    return;
  }
  // Two of its own are there because they are needed. Where the last one has
  // been left behind meanwhile, it moves next.
  const InstanceUse& use = entry->instances.back();
  if (use.usable() && (use.shares || !IsElsewhere(*entry, plan, last))) {
    EndMove(entry, pin);
  }
}

void Instances::EndMove(TraceEntry* entry, const PlanCache::Pin& pin) {
  Say(base::LogLevel::kDebug, *entry, "has moved to another arena");
  (*pin)->DropFirst();
  entry->instances.DropFirst();
  (void)Recharge(*entry, pin);  // charging less never fails
}

void Instances::KeepOut(TraceEntry* entry, Plan& plan) {
  if (entry->member == nullptr || !entry->member->has_new_escapes()) return;
  for (const engine::ValueId v : entry->member->NewEscapes()) {
    const engine::Value& value = plan.trace().values[v];
    if (!value.external && value.size_bytes > 0) plan.Escape(v);
  }
}

std::vector<TraceEntry*> Instances::HasRoom(TraceEntry* entry,
                                            const engine::Instance& instance) {
  if (entry->member == nullptr || !entry->member->group().shares()) return {};
  ArenaGroup& group = entry->member->group();
  if (instance.moved_in()) group.blocked = 0;
  entry->member->Came(instance.arena());
  return group.heads % kHeadsASweep == 0 ? LeftBehind(group)
                                         : std::vector<TraceEntry*>();
}

std::vector<TraceEntry*> Instances::LeftBehind(const ArenaGroup& group) {
  std::vector<TraceEntry*> left;
  parts_.traces->ForEach([&](TraceEntry& entry) {
    if (entry.member == nullptr || &entry.member->group() != &group ||
        !entry.has_plan() ||
        entry.summary.layout_bytes < parts_.options->shared_arena_bytes ||
        entry.member->absent() < kRoundsAbsent * group.members.size()) {
      return;
    }
    if (!entry.member->is_current()) left.push_back(&entry);
  });
  return left;
}

bool Instances::HasNoRoom(TraceEntry* entry,
                          const std::shared_ptr<engine::Ledger>& arena,
                          size_t index) {
  // With no other one that goes on until it has moved.
  const bool waits = !entry->instances.any_usable();
  // One that was made to move there waits no longer than that.
  entry->drops_last = !waits && !entry->instances[index].usable();
  if (entry->instances.complete()) {  // it could not be made elsewhere
    if (entry->stays_crowded.Take()) return false;
    entry->apart = true;
    return true;
  }
  if (entry->member == nullptr || !entry->member->group().works() ||
      !entry->member->group().arena->IsCurrent(arena)) {
    return waits;
  }
  ArenaGroup& group = entry->member->group();
  std::vector<engine::ValueId> kept;
  for (engine::ValueId v = 0; v < arena->places(); ++v) {
    if (arena->leased(v) &&
        std::ranges::find(group.escaping, v) == group.escaping.end()) {
      kept.push_back(v);
    }
  }
  if (group.escaping.size() + kept.size() > kMostKept) {
    if (entry->stays_crowded.Take()) return false;
    Say(base::LogLevel::kInfo, *entry,
        "is in use at once with another of its form: it gets an arena");
    entry->member.reset();
    entry->apart = true;
    return waits;
  }
  std::ranges::copy(kept, std::back_inserter(group.escaping));
  // The program keeps one for long.
  if (++group.blocked < kBlocked) return false;
  group.blocked = 0;
  ++group.left;
  group.arena->Leave();
  return false;
}

// --- How many there are ------------------------------------------------------

std::optional<size_t> Instances::Choose(TraceEntry* entry,
                                        const PlanCache::Pin& pin,
                                        bool may_validate) {
  if (entry->job != nullptr) Collect(entry, pin);
  if (std::exchange(entry->drops_last, false) && entry->instances.size() > 1) {
    DropLast(entry, pin);
  }
  const Plan& plan = **pin;
  // While it may not be validated the others go on.
  if (!entry->instances.back().usable() &&
      (may_validate || plan.instances() == 1)) {
    return plan.instances() - 1;
  }
  if (IsElsewhere(*entry, plan, 0)) Move(entry, pin);
  const Plan::Choice choice = plan.Choose();
  if (choice.held > 0) {
    if (entry->job == nullptr && WantsAnother(*entry, choice)) {
      Build(entry, plan);
    }
    if (entry->job != nullptr) return std::nullopt;
  }
  DropIdle(entry, pin, choice.index);
  return choice.index;
}

bool Instances::WantsAnother(const TraceEntry& entry,
                             const Plan::Choice& choice) const {
  const uint64_t bytes = entry.instances.front().bytes;
  const size_t count = entry.instances.size();
  return !entry.instances.complete() && !entry.instances.front().shares &&
         count < parts_.options->max_instances &&
         bytes <= parts_.options->max_arena_bytes / (count + 1) &&
         AnotherInstancePays(choice.held, choice.held_bytes, bytes);
}

void Instances::Build(TraceEntry* entry, const Plan& plan) {
  BuildJob::Parts from;
  from.program = plan.program();
  parts_.build(entry, std::move(from));
}

void Instances::Collect(TraceEntry* entry, const PlanCache::Pin& pin) {
  if (!entry->job->done()) return;
  BuildJob::Outcome outcome = entry->job->TakeOutcome();
  const PlanKey key = entry->job->key();
  entry->job.reset();
  if (!outcome) {
    Refuse(entry, outcome.error().error.message());
    return;
  }
  ++parts_.journal->stats.builds;
  if (!outcome->refusal.empty()) {
    Refuse(entry, outcome->refusal);
    return;
  }
  const PlanCache::Pin built = plans_.Lookup(key);
  if (!built) {
    Refuse(entry, "memory ran short before it was used");
    return;
  }
  // Its charge moves to the plan. Charging less never fails.
  plans_.Erase(key);
  (void)plans_.Recharge(built, 0);
  entry->instances.Add({.bytes = outcome->bytes,
                        .shares = outcome->shares,
                        .last_replay = entry->replays});
  if (auto charged = Recharge(*entry, pin); !charged) {
    entry->instances.DropLast();
    Refuse(entry, charged.error().message());
    return;
  }
  (*pin)->Adopt(**built);
}

void Instances::Refuse(TraceEntry* entry, std::string_view reason) {
  entry->instances.SetComplete();
  entry->summary.notes.push_back("no other instance: " + std::string(reason));
}

void Instances::DropIdle(TraceEntry* entry, const PlanCache::Pin& pin,
                         size_t chosen) {
  const InstanceUse& last = entry->instances.back();
  if (chosen + 1 == entry->instances.size() ||
      entry->replays - last.last_replay < kReplaysWithoutInstance) {
    return;
  }
  DropLast(entry, pin);
}

void Instances::DropLast(TraceEntry* entry, const PlanCache::Pin& pin) {
  (*pin)->DropLast();
  entry->instances.DropLast();
  (void)Recharge(*entry, pin);  // charging less never fails
}

base::Status Instances::Recharge(const TraceEntry& entry,
                                 const PlanCache::Pin& pin) {
  return plans_.Recharge(
      pin, entry.instances.bytes() + (*pin)->program()->host_bytes);
}

void Instances::NoteGrowth(TraceEntry* entry, const PlanCache::Pin& pin,
                           size_t index, uint64_t bytes) {
  entry->instances.Charge(index, bytes);
  // Where the budget has no room, what there is goes uncharged.
  if (!Recharge(*entry, pin)) entry->instances.Discharge(index, bytes);
}

}  // namespace reprise::scheduler
