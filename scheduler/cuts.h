// Ops that belong to no trace.

#ifndef REPRISE_SCHEDULER_CUTS_H_
#define REPRISE_SCHEDULER_CUTS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "cache/lru_map.h"
#include "engine/base/backoff.h"

namespace reprise::scheduler {

// The cuts that a session has learned, each with its reason. Ops go by the hash
// of their words. Some are cuts for ever. Others are cuts for what they did
// once (an op raised an error, say), and are tried again ever more rarely.
// Single-thread. Cost: a hash look-up an op, once there is a cut.
class Cuts {
 public:
  // The op has come. Why it is a cut; null where nothing was learned of it, or
  // where it is tried again now: Tried or LearnForNow tells what became of it.
  const std::string* Why(uint64_t hash) {
    if (cuts_.empty()) return nullptr;
    Cut* cut = cuts_.Find(hash);
    if (cut == nullptr) return nullptr;
    ++cut->came;
    if (cut->for_ever || !cut->tries.Ready(cut->came)) return &cut->reason;
    if (cut->tries.failed()) tried_ = hash;
    return nullptr;
  }
  // The same, and nothing follows from it.
  bool Contain(uint64_t hash) const {
    if (cuts_.empty()) return false;
    const Cut* cut = cuts_.Peek(hash);
    return cut != nullptr &&
           (cut->for_ever || !cut->tries.Ready(cut->came + 1));
  }
  // The op is a cut, each time it comes.
  void Learn(uint64_t hash, std::string_view reason) {
    Cut& cut = cuts_.Put(hash);
    cut.reason = reason;
    cut.for_ever = true;
  }
  // The op is a cut for what it did this time.
  void LearnForNow(uint64_t hash, std::string_view reason) {
    tried_ = 0;
    Cut& cut = cuts_.Put(hash);
    if (cut.for_ever) return;
    cut.reason = reason;
    cut.tries.Fail(cut.came);
  }
  // Eager has run the op, and nothing was wrong with it.
  void Tried(uint64_t hash) {
    if (tried_ != hash) [[likely]]
      return;
    tried_ = 0;
    if (Cut* cut = cuts_.Find(hash)) cut->tries.Succeed();
  }

  void Clear() {
    cuts_.Clear();
    tried_ = 0;
  }
  uint64_t forgotten() const { return cuts_.forgotten(); }

 private:
  static constexpr size_t kMostLearned = 4096;
  // In times that the op came.
  static constexpr base::Backoff::Schedule kTries = {
      .first = 1, .factor = 2, .longest = 1 << 16, .forgives_after = 16};
  struct Cut {
    std::string reason;
    bool for_ever = false;
    base::Backoff tries = base::Backoff(kTries);
    uint64_t came = 0;
  };

  cache::LruMap<uint64_t, Cut> cuts_{kMostLearned};
  uint64_t tried_ = 0;  // the cut that has come and is tried again; 0: none
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_CUTS_H_
