// A pass of a trace that is known, and not wanted now.

#ifndef REPRISE_SCHEDULER_PASSING_H_
#define REPRISE_SCHEDULER_PASSING_H_

#include <cstdint>

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
    if (entry->op_hashes.empty() || ++entry->passes % kPassesAWatch == 0) {
      return false;
    }
    entry_ = entry;
    cursor_ = 0;
    GoOn();
    return true;
  }
  // The op comes, by the hash of its words. False if it is another one than is
  // due: the trace has been left.
  bool Enter(uint64_t hash) {
    if (hash != entry_->op_hashes[cursor_]) return false;
    GoOn();
    return true;
  }
  // All ops have come.
  bool over() const { return cursor_ == entry_->ops; }

 private:
  static constexpr uint64_t kPassesAWatch = 16;

  void GoOn() {
    if (++cursor_ == entry_->ops) life_.PassEnded(entry_);
  }

  Lifecycle& life_;
  TraceEntry* entry_ = nullptr;
  uint32_t cursor_ = 0;
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_PASSING_H_
