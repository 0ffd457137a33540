// A pass of a trace that is known, and not wanted now.

#ifndef REPRISE_SCHEDULER_PASSING_H_
#define REPRISE_SCHEDULER_PASSING_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "scheduler/heads.h"
#include "scheduler/lifecycle.h"
#include "scheduler/trace_entry.h"

namespace reprise::scheduler {

// Eager runs; only the ops' words are compared, nothing is numbered. So it does
// not tell whose memory the ops use, and one pass in some is not let pass, to
// be watched whole. Under the session's lock.
class Passing {
 public:
  explicit Passing(Lifecycle* life) : life_(*life) {}  // borrowed

  // At the entry's head, which passes, too. False if the pass is to be watched.
  bool Begin(TraceEntry* entry) {
    if (!entry->known_ops.MayPass()) return false;
    promised_ = entry_ = entry;
    cursor_ = 0;
    GoOn();
    return true;
  }
  // The op comes, by the hash of its words. False if it is another one than is
  // due: the trace has been left.
  bool Enter(uint64_t hash) {
    if (hash != entry_->known_ops.hashes()[cursor_]) return false;
    GoOn();
    return true;
  }
  // The op has left the trace, for another one that begins with what has come.
  // Those are traces that begin with an op of the same words; of several the
  // one that came last is taken.
  bool Switch(std::span<const Heads::Head> heads, uint64_t hash) {
    const std::span<const uint64_t> come(entry_->known_ops.hashes().data(),
                                         cursor_);
    for (size_t i = heads.size(); i > 0; --i) {
      TraceEntry* const other = heads[i - 1].entry;
      const std::vector<uint64_t>& due = other->known_ops.hashes();
      if (due.size() <= cursor_ || due[cursor_] != hash ||
          !std::ranges::equal(come, std::span(due).first(cursor_))) {
        continue;
      }
      entry_ = other;
      GoOn();
      return true;
    }
    return false;
  }
  uint64_t head_hash() const { return promised_->head_hash; }
  // It is left for what is not known: which trace that is will be seen when its
  // head promises the same one again. Returns how many ops may come until the
  // next head; none if the trace is not to be learned anyway.
  size_t Left() {
    if (promised_->state == TraceEntry::State::kGivenUp) return 0;
    promised_->known_ops.WatchNext();
    return size_t{2} * promised_->ops;
  }
  // What has come so far is the beginning of it.
  const TraceEntry& entry() const { return *entry_; }
  // All ops have come.
  bool over() const { return cursor_ == entry_->ops; }

 private:
  void GoOn() {
    if (++cursor_ == entry_->ops) life_.PassEnded(entry_);
  }

  Lifecycle& life_;
  TraceEntry* promised_ = nullptr;  // by the head
  TraceEntry* entry_ = nullptr;     // the same, or another one that came
  uint32_t cursor_ = 0;
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_PASSING_H_
