#include "scheduler/retention.h"

#include <algorithm>
#include <memory>
#include <numeric>

#include "engine/trace/trace.h"

namespace reprise::scheduler {

using State = TraceEntry::State;

namespace {

// A plan is large that takes this much of the budget: one in so many.
constexpr uint64_t kLargeOneIn = 16;
// After so many passes, or one a plan, those plans are looked at that are not
// proved. One of them goes that takes the whole budget and has not come for so
// many passes; one that takes less may stay away for as much longer. Each trace
// loses one plan so: it may come as seldom as that.
constexpr uint64_t kPassesALook = 64;
constexpr uint64_t kPassesUnproved = 64;

// About what its plan is charged for.
uint64_t ChargeOf(const TraceEntry& entry) {
  const std::shared_ptr<const engine::Trace> recording = entry.recording();
  return entry.instances.bytes() +
         (recording == nullptr ? 0 : recording->host_bytes);
}

}  // namespace

bool Retention::IsLarge(const TraceEntry& entry) const {
  return ChargeOf(entry) * kLargeOneIn >= plans_.budget_bytes();
}

std::vector<TraceEntry*> Retention::Unproved(uint64_t passes) {
  std::vector<TraceEntry*> idle;
  if (passes < next_look_) return idle;
  uint64_t plans = 0;
  traces_.ForEachPlanned([&](TraceEntry& entry) {
    ++plans;
    if (entry.has_plan() && entry.state != State::kReady &&
        !entry.stayed_away &&
        ChargeOf(entry) * (passes - entry.came) >
            plans_.budget_bytes() * kPassesUnproved) {
      idle.push_back(&entry);
    }
  });
  next_look_ = passes + std::max(kPassesALook, plans);
  return idle;
}

std::vector<TraceEntry*> Retention::IdleParts(TraceEntry* entry) {
  std::vector<TraceEntry*> idle;
  if (!entry->joined.has_parts()) return idle;
  const Joined::Parts parts = entry->joined.TakeParts(entry->replays);
  // Each once: one that comes after all is recorded again, and stays.
  traces_.ForEach([&](TraceEntry& other) {
    const auto part = std::ranges::find(parts, other.id, &Joined::Part::id);
    if (part == parts.end()) return;
    if (part->seen != other.seen) {
      entry->joined.AddPart({other.id, other.seen});
    } else if (other.has_plan() || other.state == State::kBuilding) {
      idle.push_back(&other);
    }
  });
  return idle;
}

void Retention::LookForRotated(TraceEntry* entry) {
  if (!entry->joined.MayLookForRotated(entry->replays)) return;
  const auto sum = [](const TraceEntry& of) {
    const std::vector<uint64_t>& hashes = of.known_ops.hashes();
    return std::accumulate(hashes.begin(), hashes.end(), uint64_t{0});
  };
  const uint64_t own = sum(*entry);
  traces_.ForEachPlanned([&](TraceEntry& other) {
    if (&other != entry && IsLarge(other) && other.ops == entry->ops &&
        sum(other) == own && other.signature != entry->signature) {
      entry->joined.AddPart({other.id, other.seen});
    }
  });
}

}  // namespace reprise::scheduler
