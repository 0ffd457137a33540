#include "scheduler/learning.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace reprise::scheduler {

using Recording = engine::WorkRecorder::Recording;
using State = TraceEntry::State;

namespace {

constexpr std::string_view kAnother = "another trace came";

// What two ops gain pays only if they come often.
constexpr uint64_t kFewestOpsSeen = 32;
// What came so often is expected to come as often again.
constexpr uint64_t kTimesToExpect = 4;

constexpr std::chrono::milliseconds kPause(100);

// It takes some forty replays to save what a plan costs. A trace that comes
// more rarely, and takes less than one part of the time in so many, takes long
// to save it.
constexpr Allowance::Duration kOften = std::chrono::milliseconds(250);
constexpr int kLeastShare = 64;

bool IsSeldom(const TraceEntry& entry) {
  const std::optional<Allowance::Duration> soonest = entry.times.soonest();
  return entry.replays == 0 && soonest.has_value() &&
         *soonest > std::max(kOften, kLeastShare * entry.times.usual());
}

// About what it takes beyond the usual time
// (docs/decisions/0052-what-learning-may-cost.md).
Allowance::Duration CostOf(const TraceEntry& entry,
                           Allowance::Purpose purpose) {
  if (purpose == Allowance::Purpose::kRecord) return entry.times.usual() / 3;
  return entry.state == State::kCheckWhole ? entry.times.usual() / 2
                                           : entry.times.usual();
}

}  // namespace

void Learning::Passed(const TraceEntry& entry) {
  if (!bounded() || entry.seen < kTimesToExpect || !entry.promises() ||
      entry.being_recorded.failed() || SavesLittle(entry)) {
    return;
  }
  allowance_.Expect(parts_.clock->Now(), entry.times.usual());
}

bool Learning::IsWorthIt(const TraceEntry& entry) const {
  return !bounded() || entry.seen * entry.ops >= kFewestOpsSeen;
}

bool Learning::IsFor(const TraceEntry& entry) const {
  return (entry.state == State::kRecord && which_ == Recording::kFirst) ||
         (entry.state == State::kConfirm && which_ == Recording::kRelocated);
}

bool Learning::May(const TraceEntry& entry, Allowance::Purpose purpose) {
  if (!allowed()) return false;
  if (!bounded()) return true;
  return allowance_.Has(parts_.clock->Now(),
                        {.purpose = purpose,
                         .cost = CostOf(entry, purpose),
                         .saves_little = SavesLittle(entry)});
}

bool Learning::SavesLittle(const TraceEntry& entry) const {
  return parts_.timer->waits() || IsSeldom(entry);
}

void Learning::StartRecording(TraceEntry* entry, Recording recording) {
  if (bounded()) {
    entry->times.Begins(parts_.clock->Now());
    if (!entry->being_recorded.Take()) return;
  }
  if (!MayRecord(*entry) || parts_.clock->Now() < not_before_) return;
  Begin(&Stats::recording_us, *entry);
  auto recorder = engine::TraceRecorder::Start(
      parts_.frontend, parts_.work, recording,
      {.ops = entry->ops,
       .bytes_at_once =
           entry->first == nullptr ? 0 : entry->first->bytes_at_once});
  if (!recorder) {
    ended_ = parts_.clock->Now();
    GiveUpRecording(recorder.error().message());
    return;
  }
  recorder_ = *std::move(recorder);
  which_ = recording;
  span_.Begin(parts_.track,
              recording == Recording::kFirst ? Doing::kRecording
                                             : Doing::kRecordingAgain,
              entry->signature, entry->ops);
}

void Learning::GiveUpRecording(const std::string& why) {
  ++parts_.journal->notes["nothing is recorded: " + why];
  Stop();
}

void Learning::PauseRecording(const std::string& why) {
  GiveUpRecording(why);
  not_before_ = parts_.clock->Now() + kPause;
}

void Learning::Miss(TraceEntry* promised) {
  promised->being_recorded.Fail();
  Drop(kAnother, /*in_vain=*/true);
}

void Learning::StopRecording(const TraceEntry& entry, TraceEntry* promised,
                             bool kept) {
  const bool came =
      promised == nullptr || promised->signature == entry.signature;
  if (!came) {
    promised->being_recorded.Fail();
  } else if (promised != nullptr) {
    promised->being_recorded.Succeed();
  }
  if (!came && entry.times.usual() > Duration{}) {
    usual_ = entry.times.usual();
    usual_ops_ = entry.ops;
  }
  Drop(came ? "" : kAnother, /*in_vain=*/!kept);
}

// What a validation gives the device to do is not seen here. So it is counted
// whole where the program waits for the device.
void Learning::StartValidating(const TraceEntry& entry) {
  Begin(&Stats::validating_us, entry);
  if (parts_.timer->waits()) usual_ = {};
}

void Learning::StopWatching(TraceEntry* entry) const {
  if (!bounded()) return;
  entry->times.Watched(watching_since_, watching_until_);
}

void Learning::Begin(uint64_t Stats::*took, const TraceEntry& entry) {
  took_ = took;
  usual_ = entry.times.usual();
  usual_ops_ = entry.ops;
  begun_ = ended_ = parts_.clock->Now();
  ops_ = 0;
}

void Learning::Drop(std::string_view why, bool in_vain) {
  const TimePoint now = parts_.clock->Now();
  recorder_.reset();
  span_.End(why);
  Charge(now, in_vain);
}

void Learning::Charge(TimePoint seen, bool in_vain) {
  if (took_ == nullptr) return;
  const Duration usual = usual_ * std::min(ops_, usual_ops_) / usual_ops_;
  const Duration cost =
      std::max((ended_ - begun_) + (parts_.clock->Now() - seen) - usual,
               Duration::zero());
  allowance_.Spend(cost, in_vain);
  parts_.journal->stats.*took_ += static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(cost).count());
  took_ = nullptr;
}

}  // namespace reprise::scheduler
