// What a session learns of a trace while eager runs it, and at what price.

#ifndef REPRISE_SCHEDULER_LEARNING_H_
#define REPRISE_SCHEDULER_LEARNING_H_

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

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
  bool IsWorthIt(const TraceEntry& entry) const {
    return always() || entry.seen * entry.ops >= kFewestOpsSeen;
  }

  // Records the entry's trace from the next op on, if it may and can.
  void StartRecording(TraceEntry* entry,
                      engine::WorkRecorder::Recording recording) {
    if (!always()) NoteTimeSince(entry, parts_.clock->Now());
    if (!MayRecord(*entry) || parts_.clock->Now() < not_before_) return;
    Begin(&Stats::recording_us);
    auto recorder = engine::TraceRecorder::Start(
        parts_.frontend, parts_.work, recording,
        {.ops = entry->ops,
         .bytes_at_once =
             entry->first == nullptr ? 0 : entry->first->bytes_at_once});
    if (!recorder) {
      GiveUpRecording(recorder.error().message());
      return;
    }
    recorder_ = *std::move(recorder);
    which_ = recording;
    span_.Begin(parts_.track,
                recording == engine::WorkRecorder::Recording::kFirst
                    ? Doing::kRecording
                    : Doing::kRecordingAgain,
                entry->signature, entry->ops);
  }
  void StartValidating() { Begin(&Stats::validating_us); }
  // Another op of what is under way has come to its end.
  void OpEnded() { ended_ = parts_.clock->Now(); }
  // Ends what is under way; a recording that was not taken is dropped.
  void Stop() {
    recorder_.reset();
    span_.End("dropped");
    Charge({});
  }
  // The same of one that cannot go on, for no fault of the trace's.
  void GiveUpRecording(const std::string& why) {
    ++parts_.journal->notes["nothing is recorded: " + why];
    Stop();
  }
  // And nothing will help for a while.
  [[gnu::cold, gnu::noinline]] void PauseRecording(const std::string& why) {
    GiveUpRecording(why);
    not_before_ = parts_.clock->Now() + kPause;
  }
  // The same of a recording of that trace, which takes so much longer only than
  // a pass of it that is watched. (What a validation gives the device to do is
  // not seen here: it is counted whole.)
  void StopRecording(const TraceEntry& entry) {
    recorder_.reset();
    span_.End(span_.IsOf(entry.signature) ? "" : "another trace came");
    Charge(entry.usual);
  }
  // A pass begins that is watched, and was one of that trace.
  void StartWatching() {
    if (!always()) watching_since_ = parts_.clock->Now();
  }
  // So many ops of it have come. The time is taken now and then: it may be long
  // until it is known that the last op has come.
  void Watch(uint32_t ops) {
    if (!always() && ops % kOpsATime == 0) {
      watching_until_ = parts_.clock->Now();
    }
  }
  void StopWatching(TraceEntry* entry) const {
    if (always()) return;
    NoteTimeSince(entry, watching_since_);
    entry->came_at = watching_since_;
    if (watching_until_ <= watching_since_) return;
    const Allowance::Duration took = watching_until_ - watching_since_;
    if (entry->usual == Allowance::Duration{} || took < entry->usual) {
      entry->usual = took;
    }
  }
  // The same for a recording, by somebody who took no part in it.
  void DropRecording() { Stop(); }

  bool recording() const { return recorder_ != nullptr; }
  // Null while nothing is recorded.
  engine::TraceRecorder* recorder() { return recorder_.get(); }
  // What is recorded is what the entry waits for.
  bool IsFor(const TraceEntry& entry) const {
    using Recording = engine::WorkRecorder::Recording;
    using State = TraceEntry::State;
    return (entry.state == State::kRecord && which_ == Recording::kFirst) ||
           (entry.state == State::kConfirm && which_ == Recording::kRelocated);
  }

 private:
  // What two ops gain pays only if they come often.
  static constexpr uint64_t kFewestOpsSeen = 32;
  static constexpr uint32_t kOpsATime = 4;
  static constexpr std::chrono::milliseconds kPause{100};
  static constexpr Allowance::Duration kOften = std::chrono::milliseconds(250);
  static constexpr int kLeastShare = 64;  // one part of the time in so many

  bool always() const { return parts_.policy == base::Policy::kAlways; }
  void Begin(uint64_t Stats::*took) {
    took_ = took;
    begun_ = ended_ = parts_.clock->Now();
    allowance_.Begin(begun_);
  }
  // What was under way has ended. Without it, it would have taken so long. The
  // program may have been away since its last op: that is no cost of it.
  void Charge(Allowance::Duration usual) {
    allowance_.End(parts_.clock->Now(), usual);
    if (took_ == nullptr) return;
    const auto cost = std::chrono::duration_cast<std::chrono::microseconds>(
        ended_ - begun_ - usual);
    parts_.journal->stats.*took_ +=
        static_cast<uint64_t>(std::max<int64_t>(cost.count(), 0));
    took_ = nullptr;
  }
  bool May(const TraceEntry& entry, Allowance::Purpose purpose) {
    if (!allowed()) return false;
    if (always()) return true;
    return allowance_.Has(parts_.clock->Now(),
                          parts_.timer->waits() || IsSeldom(entry), purpose);
  }
  // A pass of it begins. The least of the times is kept: others hold what is
  // learned of other traces.
  static void NoteTimeSince(TraceEntry* entry,
                            Allowance::Clock::time_point now) {
    if (entry->came_at == Allowance::Clock::time_point{}) return;
    entry->soonest = std::min(entry->soonest, now - entry->came_at);
  }
  // It takes some forty replays to save what a plan costs. Of a trace among a
  // thousand others these take their time.
  static bool IsSeldom(const TraceEntry& entry) {
    return entry.replays == 0 && entry.soonest != Allowance::Duration::max() &&
           entry.soonest > std::max(kOften, kLeastShare * entry.usual);
  }

  const Parts parts_;
  std::unique_ptr<engine::TraceRecorder> recorder_;
  engine::WorkRecorder::Recording which_ =
      engine::WorkRecorder::Recording::kFirst;
  Allowance allowance_;
  uint64_t Stats::*took_ = nullptr;  // of what is under way
  Allowance::Clock::time_point begun_;
  Allowance::Clock::time_point ended_;       // its last op
  Span span_;                                // of the recording
  Allowance::Clock::time_point not_before_;  // nothing is recorded
  Allowance::Clock::time_point watching_since_;
  Allowance::Clock::time_point watching_until_;
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_LEARNING_H_
