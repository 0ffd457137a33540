// What a session learns of a trace while eager runs it, and at what price.

#ifndef REPRISE_SCHEDULER_LEARNING_H_
#define REPRISE_SCHEDULER_LEARNING_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "engine/base/clock.h"
#include "engine/base/options.h"
#include "engine/trace/frontend.h"
#include "engine/trace/trace.h"
#include "engine/trace/trace_recorder.h"
#include "engine/trace/work_recorder.h"
#include "scheduler/allowance.h"
#include "scheduler/journal.h"
#include "scheduler/pass_timer.h"
#include "scheduler/span.h"
#include "scheduler/trace_entry.h"

namespace reprise::scheduler {

// The recording that is under way, and the time that recordings and validations
// may take:
//
//   idle ─StartRecording─► recording ─Stop─► idle
//   idle ─StartValidating──────────── Stop─► idle
//
// Under the session's lock.
class Learning {
 public:
  struct Parts {  // all borrowed, but `track`
    engine::Frontend* frontend = nullptr;
    engine::WorkRecorder* work = nullptr;
    Journal* journal = nullptr;
    const base::Clock* clock = nullptr;
    const PassTimer* timer = nullptr;
    base::Policy policy = base::Policy::kAlways;
    // While it is true nothing is recorded or validated; null: never.
    const std::atomic<bool>* forbidden = nullptr;
    Track track;
  };
  explicit Learning(Parts parts) : parts_(parts) {}

  // A pass of it has come to its end, by eager. One that comes again and again
  // gives time to learn it.
  void Passed(const TraceEntry& entry);
  // What it costs is bounded.
  bool bounded() const { return parts_.policy != base::Policy::kAlways; }
  // Something may be recorded or validated at all.
  bool allowed() const {
    return parts_.forbidden == nullptr ||
           !parts_.forbidden->load(std::memory_order_relaxed);
  }
  // And there is time for it now.
  bool MayRecord(const TraceEntry& entry) {
    return May(entry, Allowance::Purpose::kRecord);
  }
  bool MayValidate(const TraceEntry& entry) {
    return May(entry, Allowance::Purpose::kValidate);
  }
  // A replay has saved so much.
  void Earn(Allowance::Duration saved) { allowance_.Earn(saved); }
  // So much of the trace has been seen that a recording may pay.
  bool IsWorthIt(const TraceEntry& entry) const;

  // Records the entry's trace from the next op on, if it may and can.
  void StartRecording(TraceEntry* entry,
                      engine::WorkRecorder::Recording recording);
  void StartValidating(const TraceEntry& entry);
  // Another op of what is under way has come to its end.
  void OpEnded() {
    ended_ = parts_.clock->Now();
    ++ops_;
  }
  // Ends what is under way; a recording that was not taken is dropped.
  void Stop() { Drop("dropped"); }
  // The same of a recording that cannot go on, for no fault of the trace's.
  void GiveUpRecording(const std::string& why);
  // And nothing will help for a while.
  [[gnu::cold, gnu::noinline]] void PauseRecording(const std::string& why);
  // The same of one that was begun for `promised`: another trace comes.
  void Miss(TraceEntry* promised);
  // The same at the end of that trace, by which it was kept, or not.
  void StopRecording(const TraceEntry& entry, TraceEntry* promised, bool kept);
  // The same for a recording, by somebody who took no part in it.
  void DropRecording() { Stop(); }

  // A pass begins that is watched, and was one of that trace.
  void StartWatching() {
    if (bounded()) watching_since_ = parts_.clock->Now();
  }
  // So many ops of it have come. The time is taken now and then: it may be long
  // until it is known that the last op has come.
  void Watch(uint32_t ops) {
    if (bounded() && ops % kOpsATime == 0) {
      watching_until_ = parts_.clock->Now();
    }
  }
  void StopWatching(TraceEntry* entry) const;

  bool recording() const { return recorder_ != nullptr; }
  // Null while nothing is recorded.
  engine::TraceRecorder* recorder() { return recorder_.get(); }
  // What is recorded is what the entry waits for.
  bool IsFor(const TraceEntry& entry) const;

 private:
  using Duration = Allowance::Duration;
  using TimePoint = Allowance::Clock::time_point;

  static constexpr uint32_t kOpsATime = 4;

  // Of that entry's trace, as far as is known.
  void Begin(uint64_t Stats::*took, const TraceEntry& entry);
  void Drop(std::string_view why, bool in_vain = false);
  // What was under way has ended, and it was seen so late: the program may have
  // been away since its last op, which is no cost of it. Nor is the time that
  // these ops take anyway.
  void Charge(TimePoint seen, bool in_vain);
  bool May(const TraceEntry& entry, Allowance::Purpose purpose);
  bool SavesLittle(const TraceEntry& entry) const;

  const Parts parts_;
  std::unique_ptr<engine::TraceRecorder> recorder_;
  engine::WorkRecorder::Recording which_ =
      engine::WorkRecorder::Recording::kFirst;
  Allowance allowance_;
  // Of what is under way: of which trace it is, and what has come of it.
  uint64_t Stats::*took_ = nullptr;
  Duration usual_{};
  uint32_t usual_ops_ = 0;
  TimePoint begun_;
  TimePoint ended_;  // its last op
  uint32_t ops_ = 0;
  Span span_;             // of the recording
  TimePoint not_before_;  // nothing is recorded
  TimePoint watching_since_;
  TimePoint watching_until_;
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_LEARNING_H_
