// StreamSession: a trace's way to a plan, and what is tried at a head.

#include <algorithm>
#include <cmath>
#include <utility>

#include "scheduler/stream_session.h"

namespace reprise::scheduler {

using engine::OpView;
using engine::Plan;
using State = TraceEntry::State;

namespace {

// Builds and validations may fail for what happens once in a process (a library
// that makes its workspace); then the trace is recorded again.
constexpr uint32_t kTries = 3;

}  // namespace

std::optional<Action> StreamSession::TryHead(const OpView& op, uint64_t hash) {
  TraceEntry* entry = nullptr;
  if (previous_ != nullptr && previous_->successor != nullptr &&
      previous_->successor->head_hash == hash) {
    entry = previous_->successor;
  } else if (const Heads::Head* head = heads_.Find(hash)) {
    entry = head->entry;
  }
  expected_ = entry;
  const bool to_record = entry != nullptr && (entry->state == State::kRecord ||
                                              entry->state == State::kConfirm);
  if (!to_record) backend_->Resting();
  if (entry == nullptr || backend_->Capturing()) return std::nullopt;
  if (entry->state == State::kBuilding) CollectBuild(entry);
  if (entry->verdict_pending) {
    CollectVerdict(entry, engine::Executor::Patience::kPoll);
    if (entry->verdict_pending) return std::nullopt;
  }
  switch (entry->state) {
    case State::kRecord:
      StartRecording(entry, engine::Backend::Pass::kFirst);
      return std::nullopt;
    case State::kConfirm:
      StartRecording(entry, engine::Backend::Pass::kRelocated);
      return std::nullopt;
    case State::kCheckOps:
    case State::kCheckWhole:
    case State::kReady:
      return TryPlan(entry, op);
    case State::kSeen:
    case State::kBuilding:
    case State::kGivenUp:
      return std::nullopt;
  }
  return std::nullopt;
}

Profit::Mode StreamSession::ChooseMode(TraceEntry* entry) {
  if (entry->state != State::kReady) return Profit::Mode::kOther;
  if (entry->rest > 0) {
    --entry->rest;
    return Profit::Mode::kEager;
  }
  const Profit::Mode mode = policy_ == base::Policy::kAlways
                                ? Profit::Mode::kReplay
                                : entry->profit.Choose(options_.margin);
  entry->profit.AtHead(mode, Profit::Clock::now());
  return mode;
}

std::optional<Action> StreamSession::TryPlan(TraceEntry* entry,
                                             const OpView& op) {
  if (ChooseMode(entry) == Profit::Mode::kEager) return std::nullopt;
  pinned_ = plans_->Lookup(KeyOf(*entry));
  if (!pinned_) {  // evicted
    StartOver(entry);
    StartRecording(entry, engine::Backend::Pass::kFirst);
    return std::nullopt;
  }
  if (entry->state != State::kReady || WantsValidation(entry)) {
    return StartValidation(entry, op);
  }
  return StartReplay(entry, op);
}

// --- Recording -------------------------------------------------------------

void StreamSession::StartRecording(TraceEntry* entry,
                                   engine::Backend::Pass pass) {
  auto recorder =
      engine::TraceRecorder::Start(frontend_.get(), backend_.get(), pass);
  if (!recorder) {
    ++journal_.notes["nothing is recorded: " + recorder.error().message()];
    return;
  }
  recorder_ = *std::move(recorder);
  recording_for_ = entry;
}

void StreamSession::KeepRecording(TraceEntry* entry,
                                  std::unique_ptr<engine::Trace> trace) {
  ++journal_.stats.recorded;
  if (entry->state == State::kRecord) {
    entry->first = std::move(trace);
    entry->state = State::kConfirm;
    return;
  }
  entry->job = std::make_shared<BuildJob>(backend_.get(), entry->first,
                                          std::move(trace));
  entry->state = State::kBuilding;
  build_(entry->job);
}

// --- Building --------------------------------------------------------------

void StreamSession::CollectBuild(TraceEntry* entry) {
  if (!entry->job->done()) return;
  BuildJob::Outcome outcome = entry->job->TakeOutcome();
  entry->job.reset();
  if (!outcome) {
    FailAt(entry, outcome.error().op, outcome.error().error.message(), kTries);
    return;
  }
  ++journal_.stats.builds;
  const engine::BuiltPlan& built = (*outcome)->built();
  entry->summary = {built.launches, built.segments.size(), built.bytes,
                    built.mechanism, built.notes};
  if (built.launches < 2) {
    GiveUp(entry, "a single launch gains nothing");
    return;
  }
  auto kept =
      plans_->Insert(KeyOf(*entry), *std::move(outcome), entry->summary.bytes);
  if (!kept) {
    GiveUp(entry, kept.error().message());
    return;
  }
  entry->state = State::kCheckOps;
}

void StreamSession::FailAt(TraceEntry* entry, std::optional<uint32_t> op,
                           std::string_view reason, uint32_t tries) {
  Reject(*entry, reason);
  entry->reason = reason;
  if (++entry->attempts < tries) {
    StartOver(entry);
    return;
  }
  // The op becomes a cut, so that what lies before and after it can be had.
  if (op.has_value() && entry->first != nullptr) {
    const engine::TracedOp& traced = entry->first->ops[*op];
    LearnCut(cache::HashWords(traced.words).lo, reason);
  }
  GiveUp(entry, reason);
}

void StreamSession::StartOver(TraceEntry* entry) {
  DropPlan(entry);
  entry->first.reset();
  entry->state = State::kRecord;
}

void StreamSession::RecordAgain(TraceEntry* entry) {
  DropPlan(entry);
  entry->state = State::kConfirm;
}

void StreamSession::DropPlan(TraceEntry* entry) {
  plans_->Erase(KeyOf(*entry));
  entry->verdict_pending = false;
}

void StreamSession::GiveUp(TraceEntry* entry, std::string_view reason) {
  entry->state = State::kGivenUp;
  entry->reason = reason;
  DropPlan(entry);
  Reject(*entry, reason);
}

void StreamSession::Reject(const TraceEntry& entry, std::string_view reason) {
  ++journal_.stats.rejected;
  ++journal_.rejections[{entry.signature.ToHex(), std::string(reason)}];
}

// --- Validating ------------------------------------------------------------

void StreamSession::CollectVerdict(TraceEntry* entry,
                                   engine::Executor::Patience patience) {
  const PlanCache::Pin pin = plans_->Lookup(KeyOf(*entry));
  if (!pin) {  // evicted
    StartOver(entry);
    return;
  }
  auto verdict = (*pin)->executor().Poll(patience);
  if (!verdict) {
    GiveUp(entry, verdict.error().message());
    return;
  }
  if (!verdict->has_value()) return;
  entry->verdict_pending = false;
  if (!(*verdict)->equal) {
    const uint32_t op = (*verdict)->tag;
    FailAt(entry, op,
           "op " + std::to_string(op) + " (" +
               frontend_->OpName((*pin)->trace().ops[op].op) +
               ") gave other bits than eager",
           kTries);
    return;
  }
  ++journal_.stats.validated;
  ++entry->validations;
  if (entry->state == State::kCheckOps) {
    entry->state = State::kCheckWhole;
  } else if (entry->state == State::kCheckWhole) {
    entry->state = State::kReady;
  }
}

bool StreamSession::WantsValidation(TraceEntry* entry) {
  if (options_.validate_share <= 0.0 || entry->replays == 0) return false;
  const auto period = static_cast<uint64_t>(
      std::max(1.0, std::round(1.0 / options_.validate_share)));
  return entry->replays / period + 2 > entry->validations;
}

bool StreamSession::Resolve(TraceEntry* entry, const OpView& op) {
  const uint64_t escapes = plan().escapes();
  const Plan::Readiness readiness = plan().Resolve(op);
  journal_.stats.escapes += plan().escapes() - escapes;
  switch (readiness) {
    case Plan::Readiness::kReady:
      return true;
    case Plan::Readiness::kUnproven:
      RecordAgain(entry);
      StartRecording(entry, engine::Backend::Pass::kRelocated);
      return false;
    case Plan::Readiness::kReplaced:
      StartOver(entry);
      StartRecording(entry, engine::Backend::Pass::kFirst);
      return false;
    case Plan::Readiness::kOtherOp:
    case Plan::Readiness::kNoMemory:
      return false;
  }
  return false;
}

std::optional<Action> StreamSession::StartValidation(TraceEntry* entry,
                                                     const OpView& op) {
  if (!Resolve(entry, op)) return std::nullopt;
  whole_ = entry->state != State::kCheckOps;
  auto begun = plan().executor().BeginComparing();
  if (begun && whole_) begun = plan().LaunchNext();
  if (!whole_) plan().SkipNext();
  if (!begun) {
    GiveUp(entry, begun.error().message());
    return std::nullopt;
  }
  current_ = entry;
  cursor_ = 0;
  mode_ = Mode::kValidating;
  return Observe(op);
}

// --- Replaying -------------------------------------------------------------

std::optional<Action> StreamSession::StartReplay(TraceEntry* entry,
                                                 const OpView& op) {
  if (!Resolve(entry, op)) return std::nullopt;
  if (auto launched = plan().LaunchNext(); !launched) {
    GiveUp(entry, launched.error().message());
    return std::nullopt;
  }
  ++journal_.stats.replays;
  ++entry->replays;
  current_ = entry;
  cursor_ = 0;
  mode_ = Mode::kFollowing;
  return Follow();
}

}  // namespace reprise::scheduler
