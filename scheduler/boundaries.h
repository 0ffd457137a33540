// Where a session's traces begin and end, as far as its stream has shown.

#ifndef REPRISE_SCHEDULER_BOUNDARIES_H_
#define REPRISE_SCHEDULER_BOUNDARIES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cache/lru_map.h"
#include "cache/signature.h"
#include "engine/trace/op.h"
#include "scheduler/cuts.h"
#include "scheduler/heads.h"
#include "scheduler/loop_code.h"
#include "scheduler/novelty.h"
#include "scheduler/predictor.h"
#include "scheduler/runs.h"
#include "scheduler/trace_entry.h"

namespace reprise::scheduler {

// A trace ends before an op that belongs to none (a cut, or one that is another
// one each time), where one was found to end whatever was expected, and where a
// head comes. Ops go by the hash of their words. Knows entries of the session's
// table, which says when one goes (Forget). Single-thread. Cost: a hash look-up
// an op, and one a trace.
class Boundaries {
 public:
  // --- Ops that belong to no trace ---

  Cuts& cuts() { return cuts_; }
  void CutPassed(uint64_t hash) {
    novelty_.CutPassed(hash);
    LeftOut(hash);
  }
  // An op that belongs to no trace has come.
  void LeftOut(uint64_t hash) {
    Part();
    behind_ = hash;
  }
  // The op comes, in a trace of that signature if one is open (Novelty::Meet).
  bool IsNew(uint64_t hash, std::optional<uint64_t> open, bool in_told_pass) {
    return novelty_.Meet(hash, open, in_told_pass);
  }

  // --- Ends ---

  // From now on traces that begin like this end here: the program goes several
  // ways from there.
  void EndAt(const cache::Signature& beginning) {
    ends_.Put(beginning) = kTimesThatTell;
  }
  // A trace that began like this ended here, which counts once it has again:
  // it may have been another thread's doing.
  void EndedAt(const cache::Signature& beginning) {
    uint32_t& times = ends_.Put(beginning);
    times = std::min(times + 1, kTimesThatTell);
  }
  bool EndsAt(const cache::Signature& beginning) {
    if (ends_.empty()) return false;
    const uint32_t* times = ends_.Find(beginning);
    return times != nullptr && *times == kTimesThatTell;
  }

  // --- Heads ---

  // The op that came last; 0 if none is known.
  uint64_t behind() const { return behind_; }
  // A trace that began with an op on those storages, behind that one, has ended
  // with `last`.
  void Closed(uint64_t hash, TraceEntry* entry,
              std::vector<engine::StorageToken> storages, uint64_t behind,
              uint64_t last) {
    heads_.Put(hash, entry, std::move(storages), behind);
    behind_ = last;
  }
  // The trace goes on: that one begins where it did.
  void Succeed(const TraceEntry& old, TraceEntry* entry) {
    heads_.Succeed(old.head_hash, &old, entry);
  }
  std::span<const Heads::Head> Find(uint64_t hash) const {
    return heads_.Find(hash);
  }
  LoopCode& loop_code() { return loop_code_; }
  // The trace that begins with such an op now; null if none is known.
  TraceEntry* Choose(uint64_t hash,
                     std::span<const engine::Operand> operands) const {
    return heads_.Choose(hash, operands, predictor_.Foresee(hash));
  }
  // No trace is expected to be that one any more.
  void Forget(const TraceEntry& entry) {
    heads_.Remove(entry.head_hash, &entry);
    runs_.Forget(entry);
    if (last_ == &entry) last_ = nullptr;
  }

  // --- The stream's way ---

  // It has come to a trace's end. Returns the one before if the two should be
  // one: always this one comes right behind that one, and behind others only if
  // it always does. (Not so is the step that comes behind an evaluation.)
  TraceEntry* Ended(TraceEntry* entry) {
    novelty_.TraceEnded(entry->signature.lo, entry->ops);
    behind_ = entry->known_ops.known() ? entry->known_ops.hashes().back() : 0;
    predictor_.Saw(*entry);
    runs_.Ended(*entry);
    TraceEntry* before = std::exchange(last_, entry);
    nears_ = false;
    if (before == nullptr) return nullptr;
    if (const auto other = before->succession.FollowedBy(entry->id)) {
      NotAlwaysLed(*other);
    }
    if (not_always_led_.erase(entry->id) > 0) entry->succession.NotLed();
    entry->succession.CameBehind(before->succession);
    if (before == entry || !before->succession.often_followed() ||
        EndsAt(before->signature)) {
      return nullptr;
    }
    nears_ = !before->succession.always_followed() ||
             !entry->succession.always_led();
    return nears_ ? nullptr : before;
  }
  // The trace that has ended is about to be one with the one before it, or with
  // those that come like it in a row: it was so for long, and not long enough.
  bool NearsJoining(const TraceEntry& ended) const {
    return nears_ || runs_.Nears(ended);
  }
  // The second always comes right behind the first, too, as far as it is known
  // when what comes before them has ended: their own turn is about to come.
  bool GoTogether(const TraceEntry& first, const TraceEntry& second) {
    return first.succession.GoesTogetherWith(second.id, second.succession) &&
           !not_always_led_.contains(second.id) && !EndsAt(first.signature);
  }
  // Its head has come, and it always comes as often in a row as it will now:
  // that should be one.
  bool BeginsRun(const TraceEntry& entry) {
    return runs_.Begins(entry) && !EndsAt(entry.signature);
  }
  // What comes next does not come right behind what came last.
  void Part() {
    lost_for_ = 0;
    runs_.Parted();
    Unlink();
  }
  // It has left a trace behind that beginning.
  void Left(const cache::Signature& beginning) {
    novelty_.TraceEnded(beginning.lo);
    Break();
  }
  // It was interrupted: what comes next follows on nothing.
  void Break() {
    lost_for_ = 0;
    predictor_.Break();
    runs_.Broken();
    Unlink();
    behind_ = 0;
  }

  // And it is lost: no trace begins at the next so many ops, unless one is
  // known to, or the stream parts before.
  void Lose(size_t ops) {
    Break();
    lost_for_ = ops;
  }
  bool lost() const { return lost_for_ > 0; }
  // An op comes while it is lost.
  void PassLost() { --lost_for_; }
  // A trace that is known begins.
  void KnowAgain() { lost_for_ = 0; }

  void Clear() {
    cuts_.Clear();
    novelty_.Clear();
    ends_.Clear();
    heads_.Clear();
    loop_code_.Clear();
    predictor_.Clear();
    runs_ = Runs();  // its entries are gone, perhaps
    last_ = nullptr;
    nears_ = false;
    not_always_led_.clear();
    behind_ = 0;
    lost_for_ = 0;
  }
  // What was learned and went for a bound.
  uint64_t forgotten() const { return cuts_.forgotten() + ends_.forgotten(); }

 private:
  static constexpr size_t kMostLearned = 4096;
  static constexpr uint32_t kTimesThatTell = 2;
  static constexpr size_t kMostNotLed = 1024;

  void Unlink() {
    if (last_ == nullptr) return;
    last_->succession.Part();
    last_ = nullptr;
  }
  // One that it always came behind is followed by another.
  void NotAlwaysLed(TraceId trace) {
    if (not_always_led_.size() == kMostNotLed) not_always_led_.clear();
    not_always_led_.insert(trace);
  }

  Cuts cuts_;
  Novelty novelty_;
  cache::LruMap<cache::Signature, uint32_t> ends_{kMostLearned};
  Heads heads_;
  LoopCode loop_code_;
  Predictor predictor_;
  Runs runs_;
  TraceEntry* last_ = nullptr;  // that ended; nothing has come since
  bool nears_ = false;  // it and what came before it are about to be one
  uint64_t behind_ = 0;
  size_t lost_for_ = 0;               // ops
  std::set<TraceId> not_always_led_;  // and their entries do not know it yet
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_BOUNDARIES_H_
