#include "scheduler/trace_table.h"

#include <algorithm>
#include <utility>

namespace reprise::scheduler {
namespace {

// Traces of one signature that are told apart by the storages that they use:
// the layers of a deep network, if something cuts between them.
constexpr size_t kMostOfOneForm = 32;

// What an entry takes in this table, among the heads and in allocations.
constexpr size_t kPlaces = 384;

// A storage that only weak references keep, and the reference.
constexpr size_t kStorage = 144;

}  // namespace

size_t HostBytes(const TraceEntry& entry) {
  size_t bytes = sizeof(TraceEntry) + kPlaces + entry.known_ops.host_bytes() +
                 entry.identity.storages() * kStorage +
                 entry.variations.HostBytes() + entry.reason.capacity() +
                 entry.instances.host_bytes();
  for (const std::string& note : entry.summary.notes) {
    bytes += Variations::kNode + note.capacity();
  }
  if (entry.first != nullptr) bytes += entry.first->host_bytes;
  if (entry.second != nullptr) bytes += entry.second->host_bytes;
  if (entry.job != nullptr) bytes += entry.job->recording_bytes();
  return bytes;
}

TraceTable::Found TraceTable::EntryFor(Closed closed) {
  const auto [begin, end] = by_signature_.equal_range(closed.signature);
  TraceEntry* best = nullptr;
  TraceEntry* shared = nullptr;
  TraceEntry* furthest = nullptr;
  Identity::Likeness likeness;
  size_t count = 0;
  for (auto it = begin; it != end; ++it) {
    TraceEntry* entry = it->second;
    // Whoever forgets it looks for it there.
    if (entry->head_hash != closed.head_hash) continue;
    ++count;
    const Identity::Likeness found = entry->identity.Compare(closed.externals);
    if (found.one() && (best == nullptr || likeness < found)) {
      best = entry;
      likeness = found;
    }
    if (entry->shared) shared = entry;
    if (furthest == nullptr || entry->seen > furthest->seen) furthest = entry;
  }
  if (best == nullptr) best = shared;
  if (best == nullptr && count == kMostOfOneForm) {
    best = furthest;
    best->shared = true;
  }
  if (best != nullptr) {
    best->identity.Follow(std::move(closed.externals));
    return {best};
  }
  TraceEntry& entry =
      counted_.emplace_back(Identity(std::move(closed.externals)));
  entry.place = std::prev(counted_.end());
  entry.id = TraceId{++last_id_};
  entry.signature = closed.signature;
  entry.ops = closed.ops;
  entry.head_hash = closed.head_hash;
  by_signature_.emplace(entry.signature, &entry);
  Count(&entry);
  return {&entry, count == 0};
}

void TraceTable::Use(TraceEntry* entry) {
  if (entry->kept_with_plan) return;
  counted_.splice(counted_.end(), counted_, entry->place);
}

void TraceTable::Count(TraceEntry* entry) {
  counted_bytes_ -= entry->counted_bytes;
  entry->counted_bytes = entry->kept_with_plan ? 0 : HostBytes(*entry);
  counted_bytes_ += entry->counted_bytes;
}

void TraceTable::HasPlan(TraceEntry* entry) {
  if (!entry->kept_with_plan) {
    planned_.splice(planned_.end(), counted_, entry->place);
    entry->kept_with_plan = true;
  }
  Count(entry);
}

void TraceTable::HasNoPlan(TraceEntry* entry) {
  if (entry->kept_with_plan) LosePlan(*entry, counted_.end());
  Count(entry);
}

void TraceTable::LosePlan(TraceEntry& entry, Entries::iterator before) {
  counted_.splice(before, planned_, entry.place);
  entry.kept_with_plan = false;
  Count(&entry);
}

void TraceTable::ForgetOldest() {
  TraceEntry& entry = counted_.front();
  const auto [begin, end] = by_signature_.equal_range(entry.signature);
  by_signature_.erase(std::find_if(
      begin, end, [&](const auto& of) { return of.second == &entry; }));
  counted_bytes_ -= entry.counted_bytes;
  on_forget_(entry);
  counted_.pop_front();
  ++forgotten_;
}

void TraceTable::Clear() {
  ForEach(on_forget_);
  by_signature_.clear();
  counted_.clear();
  planned_.clear();
  counted_bytes_ = 0;
  next_look_ = kFewestLooked;
  forgotten_ = 0;
}

}  // namespace reprise::scheduler
