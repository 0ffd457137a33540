// StreamSession: a trace's way to a plan, and what is tried at a head.

#include <algorithm>
#include <cmath>
#include <utility>

#include "scheduler/instance_policy.h"
#include "scheduler/stream_session.h"

namespace reprise::scheduler {

using engine::Instance;
using engine::OpView;
using engine::Plan;
using State = TraceEntry::State;

namespace {

// Builds and validations may fail for what happens once in a process (a library
// that makes its workspace); then the trace is recorded again.
constexpr uint32_t kTries = 3;

// A trace is recorded again so often for numbers that turned out to change, and
// so many of its recordings are dropped because they did not.
constexpr uint32_t kNumberTries = 16;

constexpr char kMemoryGone[] =
    "a library's memory that its kernels name is freed again and again: "
    "recorded ever more rarely";
constexpr char kOtherMemory[] =
    "an operand that comes from outside is replaced again and again: recorded "
    "ever more rarely";

}  // namespace

std::optional<Action> StreamSession::TryHead(const OpView& op, uint64_t hash) {
  TraceEntry* entry =
      heads_.Choose(hash, op.operands, predictor_.Foresee(hash));
  expected_ = entry;
  const bool to_record =
      entry != nullptr &&
      ((entry->state == State::kRecord && !entry->renewal.waiting()) ||
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
      if (entry->renewal.waiting()) {
        entry->renewal.Pass();
      } else {
        StartRecording(engine::Backend::Pass::kFirst);
      }
      break;
    case State::kConfirm:
      StartRecording(engine::Backend::Pass::kRelocated);
      break;
    case State::kCheckOps:
    case State::kCheckWhole:
    case State::kReady:
      return TryPlan(entry, op);
    case State::kSeen:
    case State::kBuilding:
    case State::kGivenUp:
      break;
  }
  return recorder_ == nullptr ? TryPass(entry) : std::nullopt;
}

Profit::Mode StreamSession::ChooseMode(TraceEntry* entry) {
  if (entry->rest > 0) {
    --entry->rest;
    return Profit::Mode::kEager;
  }
  if (entry->state != State::kReady) return Profit::Mode::kOther;
  const Profit::Mode mode = policy_ == base::Policy::kAlways
                                ? Profit::Mode::kReplay
                                : entry->profit.Choose(options_.margin);
  entry->profit.AtHead(mode, clock_.Now());
  return mode;
}

std::optional<Action> StreamSession::TryPlan(TraceEntry* entry,
                                             const OpView& op) {
  if (ChooseMode(entry) == Profit::Mode::kEager) return TryPass(entry);
  pinned_ = plans_->Lookup(KeyOf(*entry));
  if (!pinned_) {  // evicted
    instance_ = nullptr;
    StartOver(entry);
    StartRecording(engine::Backend::Pass::kFirst);
    return std::nullopt;
  }
  // What is not a replay tells nothing about one's time.
  if (!TakeInstance(entry)) {
    entry->profit.Disregard();
    return std::nullopt;
  }
  if (WantsValidation(entry)) {
    entry->profit.Disregard();
    if (!MayLearn()) return TryPass(entry);
    return StartValidation(entry, op);
  }
  return StartReplay(entry, op);
}

bool StreamSession::TakeInstance(TraceEntry* entry) {
  if (entry->job != nullptr) CollectInstance(entry);
  Plan& plan = **pinned_;
  // While it may not be validated the others go on.
  const bool may_validate = MayRecord() || plan.instances() == 1;
  if (!entry->instances.back().usable() && may_validate) {
    instance_index_ = plan.instances() - 1;
    instance_ = &plan.instance(instance_index_);
    return true;
  }
  const Plan::Choice choice = plan.Choose();
  if (choice.held > 0) {
    if (entry->job == nullptr && WantsInstance(*entry, choice)) {
      PostBuild(entry, BuildJob::Makes::kNextInstance);
    }
    if (entry->job != nullptr) return false;
  }
  instance_index_ = choice.index;
  instance_ = choice.instance;
  DropIdleInstance(entry);
  return true;
}

// --- Recording -------------------------------------------------------------

bool StreamSession::MayLearn() {
  return MayRecord() &&
         (policy_ == base::Policy::kAlways || allowance_.Has(clock_.Now()));
}

bool StreamSession::MayRecord() const {
  return recording_forbidden_ == nullptr ||
         !recording_forbidden_->load(std::memory_order_relaxed);
}

void StreamSession::StartRecording(engine::Backend::Pass pass) {
  if (!MayLearn()) return;
  allowance_.Begin(clock_.Now());
  auto recorder =
      engine::TraceRecorder::Start(frontend_.get(), backend_.get(), pass);
  if (!recorder) {
    ++journal_.notes["nothing is recorded: " + recorder.error().message()];
    return;
  }
  recorder_ = *std::move(recorder);
  recording_pass_ = pass;
}

void StreamSession::KeepRecording(TraceEntry* entry,
                                  std::unique_ptr<engine::Trace> trace) {
  ++journal_.stats.recorded;
  if (entry->state == State::kRecord) {
    entry->first = std::move(trace);
    entry->state = State::kConfirm;
    return;
  }
  entry->second = std::move(trace);
  for (const auto& [op, slot] : entry->changing) {
    if (entry->first->ops[op].slots[slot].recorded.bits !=
        entry->second->ops[op].slots[slot].recorded.bits) {
      continue;
    }
    if (++entry->equal_recordings < kNumberTries) {
      entry->second.reset();
      return;
    }
  }
  entry->state = State::kBuilding;
  PostBuild(entry, options_.max_instances == 1
                       ? BuildJob::Makes::kOnlyInstance
                       : BuildJob::Makes::kFirstInstance);
}

// --- Building --------------------------------------------------------------

void StreamSession::PostBuild(TraceEntry* entry, BuildJob::Makes makes) {
  BuildJob::Parts parts;
  parts.backend = backend_.get();
  parts.plans = plans_;
  parts.key = {++last_build_, this};
  parts.makes = makes;
  if (makes == BuildJob::Makes::kNextInstance) {
    parts.first = (*pinned_)->first();
    parts.second = (*pinned_)->second();
  } else {
    entry->planned = entry->first;
    parts.first = std::move(entry->first);
    parts.second = std::move(entry->second);
    entry->build = parts.key.build;
  }
  entry->job = std::make_shared<BuildJob>(std::move(parts));
  build_(entry->job);
}

void StreamSession::CollectBuild(TraceEntry* entry) {
  if (!entry->job->done()) return;
  // Where it built nothing, it has the recording still.
  const std::shared_ptr<BuildJob> job = std::move(entry->job);
  BuildJob::Outcome outcome = job->TakeOutcome();
  if (!outcome && !outcome.error().unexplained.empty()) {
    const std::shared_ptr<const engine::Trace> recording = entry->recording();
    for (const uint32_t op : outcome.error().unexplained) {
      unmasked_.Put(recording->ops[op].hash);
    }
    // It never comes again in this form.
    heads_.Remove(entry->head_hash, entry);
    GiveUp(entry, outcome.error().error.message());
    return;
  }
  if (!outcome) {
    FailAt(entry, outcome.error().op, outcome.error().error.message(), kTries);
    return;
  }
  ++journal_.stats.builds;
  entry->summary = std::move(outcome->summary);
  entry->instances = {InstanceUse{.bytes = outcome->bytes}};
  if (!outcome->refusal.empty()) {
    GiveUp(entry, outcome->refusal);
    return;
  }
  if (!plans_->Contains(KeyOf(*entry))) {  // evicted before its head came
    StartOver(entry);
    return;
  }
  entry->state = State::kCheckOps;
  traces_.HasPlan(entry);
}

bool StreamSession::WantsInstance(const TraceEntry& entry,
                                  const Plan::Choice& choice) const {
  const uint64_t bytes = entry.instances.front().bytes;
  const size_t count = entry.instances.size();
  return (*pinned_)->second() != nullptr && count < options_.max_instances &&
         bytes <= options_.max_arena_bytes / (count + 1) &&
         AnotherInstancePays(choice.held, choice.held_bytes, bytes);
}

void StreamSession::CollectInstance(TraceEntry* entry) {
  if (!entry->job->done()) return;
  BuildJob::Outcome outcome = entry->job->TakeOutcome();
  const PlanKey key = entry->job->key();
  entry->job.reset();
  if (!outcome) {
    RefuseInstance(entry, outcome.error().error.message());
    return;
  }
  ++journal_.stats.builds;
  if (!outcome->refusal.empty()) {
    RefuseInstance(entry, outcome->refusal);
    return;
  }
  const PlanCache::Pin built = plans_->Lookup(key);
  if (!built) {
    RefuseInstance(entry, "memory ran short before it was used");
    return;
  }
  // Its charge moves to the plan. Charging less never fails.
  plans_->Erase(key);
  (void)plans_->Recharge(built, 0);
  entry->instances.push_back(
      {.bytes = outcome->bytes, .last_replay = entry->replays});
  if (auto charged = Recharge(*entry); !charged) {
    entry->instances.pop_back();
    RefuseInstance(entry, charged.error().message());
    return;
  }
  (*pinned_)->Adopt(**built);
}

base::Status StreamSession::Recharge(const TraceEntry& entry) {
  return plans_->Recharge(pinned_,
                          entry.bytes() + (*pinned_)->recording_bytes());
}

void StreamSession::RefuseInstance(TraceEntry* entry, std::string_view reason) {
  (*pinned_)->DropSecond();
  (void)Recharge(*entry);  // charging less never fails
  entry->summary.notes.push_back("no other instance: " + std::string(reason));
}

void StreamSession::DropIdleInstance(TraceEntry* entry) {
  const InstanceUse& last = entry->instances.back();
  if (instance_index_ + 1 == entry->instances.size() ||
      entry->replays - last.last_replay < kReplaysWithoutInstance) {
    return;
  }
  (*pinned_)->DropLast();
  entry->instances.pop_back();
  (void)Recharge(*entry);  // charging less never fails
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
  const std::shared_ptr<const engine::Trace> recording = entry->recording();
  if (op.has_value() && recording != nullptr) {
    LearnCut(recording->ops[*op].hash, reason);
  }
  GiveUp(entry, reason);
}

void StreamSession::StartOver(TraceEntry* entry) {
  DropPlan(entry);
  entry->first.reset();
  entry->state = State::kRecord;
  traces_.Count(entry);
}

void StreamSession::Renew(TraceEntry* entry, std::string_view reason) {
  entry->renewal.Replaced(entry->plan_replays());
  if (entry->renewal.waiting()) {
    Reject(*entry, reason);
    entry->reason = reason;
  }
  StartOver(entry);
}

void StreamSession::RecordAgain(TraceEntry* entry) {
  DropPlan(entry);
  entry->state = State::kConfirm;
}

bool StreamSession::LearnNumbers(TraceEntry* entry, uint32_t index,
                                 const OpView& op) {
  if (entry->state == State::kGivenUp || ++entry->number_tries > kNumberTries) {
    return false;
  }
  const engine::TracedOp& traced = instance().trace().ops[index];
  for (uint32_t i = 0; i < traced.slots.size(); ++i) {
    const engine::ScalarSlot& slot = traced.slots[i];
    if (op.scalars[slot.scalar].bits != slot.recorded.bits) {
      entry->changing.emplace(index, i);
    }
  }
  RecordAgain(entry);
  return true;
}

void StreamSession::DropPlan(TraceEntry* entry) {
  // The plan lets it go.
  if (entry->first == nullptr) entry->first = entry->planned.lock();
  entry->planned.reset();
  entry->second.reset();
  entry->verdict_pending = false;
  Unpublish(*entry);
  traces_.HasNoPlan(entry);
}

void StreamSession::Unpublish(TraceEntry& entry) {
  if (entry.job != nullptr) entry.job->Abandon();
  entry.job.reset();
  plans_->Erase(KeyOf(entry));
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
  auto verdict = (*pin)->instance(entry->validating).executor().Poll(patience);
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
  ++entry->instances[entry->validating].validations;
  if (entry->state == State::kCheckOps) {
    entry->state = State::kCheckWhole;
  } else if (entry->state == State::kCheckWhole) {
    entry->state = State::kReady;
  }
}

bool StreamSession::WantsValidation(TraceEntry* entry) {
  const InstanceUse& use = entry->instances[instance_index_];
  if (!use.usable()) return true;
  if (!MayLearn()) return false;
  if (options_.validate_share <= 0.0 || use.replays == 0) return false;
  const auto period = static_cast<uint64_t>(
      std::max(1.0, std::round(1.0 / options_.validate_share)));
  return use.replays / period + 2 > use.validations;
}

bool StreamSession::Resolve(TraceEntry* entry, const OpView& op) {
  const uint64_t escapes = instance().escapes();
  const Instance::Readiness readiness = instance().Resolve(op, holds_);
  journal_.stats.escapes += instance().escapes() - escapes;
  switch (readiness) {
    case Instance::Readiness::kReady:
      return true;
    case Instance::Readiness::kUnproven:
      RecordAgain(entry);
      StartRecording(engine::Backend::Pass::kRelocated);
      return false;
    case Instance::Readiness::kUntold:
      if (LearnNumbers(entry, 0, op)) {
        StartRecording(engine::Backend::Pass::kRelocated);
      }
      return false;
    case Instance::Readiness::kReplaced:
      Renew(entry, instance().broken() ? kMemoryGone : kOtherMemory);
      if (!entry->renewal.waiting()) {
        StartRecording(engine::Backend::Pass::kFirst);
      }
      return false;
    case Instance::Readiness::kOtherOp:
    case Instance::Readiness::kNoMemory:
      return false;
  }
  return false;
}

std::optional<Action> StreamSession::StartValidation(TraceEntry* entry,
                                                     const OpView& op) {
  if (!Resolve(entry, op)) return std::nullopt;
  whole_ = entry->instances[instance_index_].validations > 0;
  if (whole_ && !instance().Secure()) {
    instance().Finish();
    return std::nullopt;
  }
  allowance_.Begin(clock_.Now());
  auto begun = instance().executor().BeginComparing();
  if (begun && whole_) begun = instance().LaunchNext();
  if (!whole_) instance().SkipNext();
  if (!begun) {
    instance().Finish();
    GiveUp(entry, begun.error().message());
    return std::nullopt;
  }
  ++entry->runs;
  current_ = entry;
  cursor_ = 0;
  mode_ = Mode::kValidating;
  return Observe();
}

// --- Replaying -------------------------------------------------------------

std::optional<Action> StreamSession::StartReplay(TraceEntry* entry,
                                                 const OpView& op) {
  if (!Resolve(entry, op)) return std::nullopt;
  if (!instance().Secure()) {
    instance().Finish();
    return std::nullopt;
  }
  cursor_ = 0;
  if (const base::Status launched = instance().LaunchNext(); !Goes(launched)) {
    instance().Finish();
    GiveUp(entry, launched.error().message());
    return std::nullopt;
  }
  ++journal_.stats.replays;
  ++entry->runs;
  ++entry->replays;
  InstanceUse& use = entry->instances[instance_index_];
  ++use.replays;
  use.last_replay = entry->replays;
  current_ = entry;
  mode_ = Mode::kFollowing;
  following_.store(true, std::memory_order_relaxed);
  return Follow();
}

}  // namespace reprise::scheduler
