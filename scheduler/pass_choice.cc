#include "scheduler/pass_choice.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace reprise::scheduler {

using engine::OpView;
using State = TraceEntry::State;

namespace {

constexpr char kOpUnderWay[] =
    "another thread was inside an op that may write what a replay would read: "
    "eager ran the pass";

}  // namespace

PassChoice::Next PassChoice::Choose(TraceEntry* entry, const OpView& op) {
  const bool to_record =
      entry != nullptr &&
      ((entry->state == State::kRecord && !entry->renewal.waiting()) ||
       entry->state == State::kConfirm);
  if (!to_record) parts_.backend->Resting();
  if (entry == nullptr || parts_.backend->Capturing()) return Next::kWatching;
  if (entry->outdated) life_.StartOver(entry);
  if (entry->state == State::kBuilding) life_.CollectBuild(entry);
  if (entry->verdict_pending) {
    life_.CollectVerdict(entry, engine::Executor::Patience::kPoll);
    if (entry->verdict_pending) return Next::kWatching;
  }
  if (entry->outdated) life_.StartOver(entry);
  switch (entry->state) {
    case State::kRecord:
      if (entry->renewal.waiting()) {
        entry->renewal.Pass();
      } else {
        learning_.StartRecording(entry,
                                 engine::WorkRecorder::Recording::kFirst);
      }
      break;
    case State::kConfirm:
      life_.NoteReleased(entry);
      learning_.StartRecording(entry,
                               engine::WorkRecorder::Recording::kRelocated);
      break;
    case State::kCheckOps:
    case State::kCheckWhole:
    case State::kReady:
      return TryPlan(entry, op);
    case State::kSeen:
      return Next::kWatching;  // it may not be the one that comes
    case State::kBuilding:
    case State::kGivenUp:
      break;
  }
  return learning_.recording() ? Next::kWatching : TryPass(entry);
}

PassChoice::Next PassChoice::TryPass(TraceEntry* entry) {
  return parts_.passing->Begin(entry) ? Next::kPassing : Next::kWatching;
}

PassChoice::Next PassChoice::TryPlan(TraceEntry* entry, const OpView& op) {
  if (ChooseMode(entry) == Profit::Mode::kEager) return TryPass(entry);
  in_use_ = {.entry = entry, .plan = life_.Pin(entry)};
  if (!in_use_.plan) {  // evicted
    if (entry->renewal.waiting()) return TryPass(entry);
    learning_.StartRecording(entry, engine::WorkRecorder::Recording::kFirst);
    return Next::kWatching;
  }
  const std::optional<size_t> index =
      life_.instances().Choose(entry, in_use_.plan, learning_.allowed());
  if (!index.has_value()) return Next::kWatching;
  in_use_.index = *index;
  in_use_.instance = &(*in_use_.plan)->instance(*index);
  if (!in_use_.instance->outlived().empty() && learning_.MayRecord(*entry)) {
    life_.LearnOutliving(entry, in_use_.instance->outlived());
    learning_.StartRecording(entry,
                             engine::WorkRecorder::Recording::kRelocated);
    return Next::kWatching;
  }
  Instances::KeepOut(entry, **in_use_.plan);
  const bool validate = WantsValidation(entry);
  if (validate) {
    timer_.Disregard();  // it is no replay
    if (!learning_.MayValidate(*entry)) return TryPass(entry);
  }
  if (!Resolve(op)) return Next::kWatching;
  if (parts_.replay->MayBeWritten()) {
    in_use_.instance->Finish();
    ++journal_.notes[kOpUnderWay];
    timer_.Disregard();
    return TryPass(entry);
  }
  if (validate) {
    return parts_.validation->Begin(op) ? Next::kValidating : Next::kWatching;
  }
  return parts_.replay->Begin() ? Next::kReplaying : Next::kWatching;
}

Profit::Mode PassChoice::ChooseMode(TraceEntry* entry) {
  if (!entry->running.Take()) return Profit::Mode::kEager;
  if (entry->state != State::kReady) return Profit::Mode::kOther;
  if (parts_.policy == base::Policy::kAlways) return Profit::Mode::kReplay;
  const Profit::Mode mode = entry->profit.Choose(parts_.options->margin);
  timer_.Begin(entry, mode, parts_.clock->Now());
  return mode;
}

bool PassChoice::WantsValidation(TraceEntry* entry) {
  const InstanceUse& use = entry->instances[in_use_.index];
  if (!use.usable()) return true;
  if (!learning_.MayValidate(*entry)) return false;
  if (parts_.options->validate_share <= 0.0 || use.replays == 0) return false;
  const auto period = static_cast<uint64_t>(
      std::max(1.0, std::round(1.0 / parts_.options->validate_share)));
  return use.replays / period + 2 > use.validations;
}

bool PassChoice::Resolve(const OpView& op) {
  using engine::Instance;
  using Recording = engine::WorkRecorder::Recording;
  Instance& instance = *in_use_.instance;
  TraceEntry* entry = in_use_.entry;
  const uint64_t escapes = instance.escapes();
  const Instance::Readiness readiness = instance.Resolve(op, *parts_.holds);
  journal_.stats.escapes += instance.escapes() - escapes;
  if (readiness == Instance::Readiness::kReady) {
    life_.HasRoom(entry, instance);
    return true;
  }
  if (readiness == Instance::Readiness::kOccupied) {
    life_.HasNoRoom(entry, instance.arena(), in_use_.index);
  } else if (life_.After(readiness, entry, instance, 0, op)) {
    learning_.StartRecording(entry, entry->state == State::kRecord
                                        ? Recording::kFirst
                                        : Recording::kRelocated);
  }
  return false;
}

}  // namespace reprise::scheduler
