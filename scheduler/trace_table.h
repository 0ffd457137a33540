// All traces that a session knows, within a bound of the host's memory.

#ifndef REPRISE_SCHEDULER_TRACE_TABLE_H_
#define REPRISE_SCHEDULER_TRACE_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <unordered_map>
#include <utility>

#include "cache/signature.h"
#include "scheduler/externals.h"
#include "scheduler/trace_entry.h"

namespace reprise::scheduler {

// Owns the entries; one stays where it is until it is forgotten.
//
// An entry that has no plan is counted, with its recordings. Together these
// stay within the budget (Trim): the one that was seen least recently is
// forgotten first. An entry that has one is kept for as long as its plan is in
// the cache, whose budget bounds how many there are, and which is charged for
// the recordings.
//
// Single-thread. Cost: a hash a trace that is closed; Trim's is that of what it
// forgets.
class TraceTable {
 public:
  // The entry goes: what else knows of it is to forget it. It must not use the
  // table.
  using OnForget = std::function<void(TraceEntry& entry)>;

  TraceTable(size_t budget_bytes, OnForget on_forget)
      : budget_bytes_(budget_bytes), on_forget_(std::move(on_forget)) {}
  TraceTable(const TraceTable&) = delete;
  TraceTable& operator=(const TraceTable&) = delete;

  // A trace that has come to its end, and what it took from outside.
  struct Closed {
    cache::Signature signature;
    uint32_t ops = 0;
    uint64_t head_hash = 0;
    Externals externals;
  };
  struct Found {
    TraceEntry* entry = nullptr;
    bool new_signature = false;  // no trace of that signature was known
  };
  // Its entry among those of its signature (see Identity), made if it is none
  // of them.
  Found EntryFor(Closed closed);

  // It has come again.
  void Use(TraceEntry* entry);
  // What it keeps has changed.
  void Count(TraceEntry* entry);
  // Its plan is in the cache, or is not there any more. Both count it.
  void HasPlan(TraceEntry* entry);
  void HasNoPlan(TraceEntry* entry);

  // Forgets entries until what is counted is within the budget, the entry that
  // was used last excepted. `in_cache` says whether an entry's plan is still
  // there. Called where nobody uses an entry.
  template <typename InCache>
  void Trim(const InCache& in_cache) {
    if (planned_.size() > next_look_) {
      for (auto next = planned_.begin(); next != planned_.end();) {
        TraceEntry& entry = *next++;
        if (!in_cache(entry)) LosePlan(entry, counted_.begin());
      }
      next_look_ = 2 * planned_.size() + kFewestLooked;
    }
    while (counted_bytes_ > budget_bytes_ && counted_.size() > 1) {
      ForgetOldest();
    }
  }

  // Forgets all, and that anything was forgotten. To be called before the end.
  void Clear();

  template <typename Look>
  void ForEach(const Look& look) {
    for (TraceEntry& entry : counted_) look(entry);
    ForEachPlanned(look);
  }
  // Of those whose plans were in the cache when these were last looked at.
  template <typename Look>
  void ForEachPlanned(const Look& look) {
    for (TraceEntry& entry : planned_) look(entry);
  }

  size_t size() const { return by_signature_.size(); }
  // Of all entries without a plan.
  size_t counted_bytes() const { return counted_bytes_; }
  // Entries that went for the budget.
  uint64_t forgotten() const { return forgotten_; }

 private:
  using Entries = std::list<TraceEntry>;

  // Entries with plans are looked at when there are twice as many as were left
  // last time, and at least so many more.
  static constexpr size_t kFewestLooked = 64;

  void LosePlan(TraceEntry& entry, Entries::iterator before);
  void ForgetOldest();

  const size_t budget_bytes_;
  const OnForget on_forget_;
  // Several of a signature: see Identity.
  std::unordered_multimap<cache::Signature, TraceEntry*> by_signature_;
  Entries counted_;  // the least recently used first
  Entries planned_;
  size_t counted_bytes_ = 0;
  size_t next_look_ = kFewestLooked;
  uint64_t last_id_ = 0;
  uint64_t forgotten_ = 0;
};

// About how much of the host's memory an entry takes, with its recordings as
// long as they are its own, and what other tables keep of it.
size_t HostBytes(const TraceEntry& entry);

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_TRACE_TABLE_H_
