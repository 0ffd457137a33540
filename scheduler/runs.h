// How often in a row a trace comes, each time that it does.

#ifndef REPRISE_SCHEDULER_RUNS_H_
#define REPRISE_SCHEDULER_RUNS_H_

#include <cstdint>

#include "scheduler/trace_entry.h"

namespace reprise::scheduler {

// A loop within a pass, over layers that share their weights or over steps of a
// cell: a trace for each time round, and as many each pass. A run of a trace
// lies between others, or cuts; only a whole one tells something.
// Single-thread. Cost: a comparison for each trace.
class Runs {
 public:
  void Ended(TraceEntry& entry) {
    if (last_ == &entry) {
      ++length_;
      return;
    }
    if (last_ != nullptr) Parted();
    last_ = &entry;
    length_ = 1;
  }
  // There was a cut.
  void Parted() {
    if (last_ != nullptr && whole_) last_->run.Count(length_);
    last_ = nullptr;
    whole_ = true;
  }
  // The stream was interrupted: how long this run would be, nobody knows.
  void Broken() {
    if (last_ != nullptr) last_->run.Break();
    Lose();
  }
  void Forget(const TraceEntry& entry) {
    if (last_ == &entry) Lose();
  }

  // The entry's head has come, and with it a run of as many as ever.
  bool Begins(const TraceEntry& entry) const {
    return entry.run.alike() >= kAlike && MayBeOne(entry) &&
           (last_ == nullptr ? whole_ : last_ != &entry);
  }

  // Its runs have been alike for a while, and may be one soon.
  bool Nears(const TraceEntry& entry) const {
    return entry.run.alike() >= kAlikeForAWhile && entry.run.alike() < kAlike &&
           MayBeOne(entry);
  }

 private:
  // Before a run is taken for the program's way.
  static constexpr uint32_t kAlike = 32;
  static constexpr uint32_t kAlikeForAWhile = 8;
  // Fewer gain little, and are as many passes, perhaps; more are, probably.
  static constexpr uint32_t kShortest = 4;
  static constexpr uint32_t kLongest = 64;
  // Of long traces each is launched in several pieces as it is.
  static constexpr uint64_t kMostOps = 512;

  static bool MayBeOne(const TraceEntry& entry) {
    const uint32_t length = entry.run.length();
    return length >= kShortest && length <= kLongest &&
           uint64_t{length} * entry.ops <= kMostOps;
  }
  void Lose() {
    last_ = nullptr;
    whole_ = false;
  }

  TraceEntry* last_ = nullptr;  // that ended; nothing has come since
  uint32_t length_ = 0;         // of its run
  bool whole_ = true;           // it was seen, or will be, from its beginning
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_RUNS_H_
