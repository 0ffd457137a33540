// Larger than its limit: each function takes a trace from one state to another,
// and all of them share the session's plans, instances and recordings. Apart, a
// reader would look for the next state in several files.

#include "scheduler/lifecycle.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/log.h"

namespace reprise::scheduler {

using engine::OpView;
using engine::Plan;
using State = TraceEntry::State;

namespace {

constexpr char kMoves[] =
    "an operand is again and again at an address where no recording saw it: "
    "recorded ever more rarely";

constexpr char kMemoryGone[] =
    "memory that its kernels name, or kernels of a library's, are freed again "
    "and again: recorded ever more rarely";
constexpr char kOtherMemory[] =
    "an operand that comes from outside is replaced again and again: recorded "
    "ever more rarely";

constexpr char kGaveWay[] =
    "its plan was evicted again and again, for other plans or for the "
    "program's memory: recorded ever more rarely";

}  // namespace

Lifecycle::Lifecycle(Parts parts)
    : parts_(std::move(parts)),
      journal_(*parts_.journal),
      boundaries_(*parts_.boundaries),
      plans_(*parts_.plans),
      traces_(parts_.options->trace_budget_bytes,
              [this](TraceEntry& entry) {
                boundaries_.Forget(entry);
                parts_.timer->Forget(entry);
                Unpublish(entry);
              }),
      instances_({.plans = parts_.plans,
                  .options = parts_.options,
                  .journal = parts_.journal,
                  .traces = &traces_,
                  .build =
                      [this](TraceEntry* entry, BuildJob::Parts from) {
                        PostBuild(entry, std::move(from));
                      }}),
      retention_(&traces_, parts_.plans),
      joining_(&traces_, parts_.boundaries, &retention_,
               parts_.options->max_trace_ops) {}

Lifecycle::~Lifecycle() { traces_.Clear(); }

// --- Traces that come --------------------------------------------------------

TraceEntry* Lifecycle::EntryFor(TraceTable::Closed closed) {
  const TraceTable::Found found = traces_.EntryFor(std::move(closed));
  if (found.new_signature) ++journal_.stats.signatures;
  return found.entry;
}

void Lifecycle::PassEnded(TraceEntry* entry) {
  ++journal_.stats.traces;
  journal_.last_trace = entry->signature.lo;
  if (entry->seen++ > 0) known_ops_ += entry->ops;
  entry->came = ++passes_;
  entry->KeptPromise();
  traces_.Use(entry);
  DropIdle(entry);
  if (TraceEntry* before = boundaries_.Ended(entry)) Join(before, entry);
  if (entry->promises() || boundaries_.NearsJoining(*entry)) {
    promising_ops_ += entry->ops;
  }
}

void Lifecycle::WantRecording(TraceEntry* entry) {
  if (entry->state == State::kSeen) entry->state = State::kRecord;
}

void Lifecycle::CountAndTrim(TraceEntry* entry) {
  traces_.Count(entry);
  traces_.Trim([this](const TraceEntry& other) {
    return plans_.Contains(KeyOf(other));
  });
}

std::vector<const TraceEntry*> Lifecycle::entries() {
  std::vector<const TraceEntry*> entries;
  traces_.ForEach(
      [&entries](const TraceEntry& entry) { entries.push_back(&entry); });
  return entries;
}

// --- From recordings to a plan -----------------------------------------------

void Lifecycle::NoteReleased(TraceEntry* entry) {
  if (entry->released.has_value()) return;
  std::vector<engine::ValueId>& released = entry->released.emplace();
  const std::vector<engine::Value>& values = entry->first->values;
  for (engine::ValueId v = 0; v < values.size(); ++v) {
    if (!values[v].external && values[v].dead_at == engine::Value::kLives &&
        !parts_.frontend->Alive(values[v].storage)) {
      released.push_back(v);
    }
  }
}

void Lifecycle::Keep(TraceEntry* entry, std::unique_ptr<engine::Trace> trace) {
  ++journal_.stats.recorded;
  Say(base::LogLevel::kDebug, *entry,
      entry->state == State::kRecord ? "recorded" : "recorded again");
  TellWhatIsKnown(*entry, *trace);
  if (entry->state == State::kRecord) {
    entry->first = std::move(trace);
    entry->released.reset();
    entry->state = State::kConfirm;
    return;
  }
  entry->second = std::move(trace);
  for (const engine::ValueId v : ComeBeside(*entry, *entry->first)) {
    entry->variations.Moves(v);
  }
  if (!entry->variations.AreTold(*entry->first, *entry->second)) {
    entry->second.reset();
    return;
  }
  entry->state = State::kBuilding;
  entry->planned = entry->first;
  instances_.JoinGroup(entry);
  BuildJob::Parts from;
  from.first = std::move(entry->first);
  from.second = std::move(entry->second);
  PostBuild(entry, std::move(from));
  entry->build = last_build_;
}

void Lifecycle::TellWhatIsKnown(const TraceEntry& entry, engine::Trace& trace) {
  if (!nondeterministic_.empty()) {
    for (engine::TracedOp& op : trace.ops) {
      op.nondeterministic = nondeterministic_.Find(op.hash) != nullptr;
    }
  }
  if (entry.released.has_value()) {
    for (const engine::ValueId v : *entry.released) {
      trace.values[v].held = false;
    }
  }
  entry.variations.Mark(trace);
}

void Lifecycle::PostBuild(TraceEntry* entry, BuildJob::Parts from) {
  from.backend = parts_.backend;
  from.arena = Instances::ArenaOf(*entry);
  from.plans = parts_.plans;
  from.track = parts_.track;
  from.key = {++last_build_, parts_.session};
  entry->job = std::make_shared<BuildJob>(std::move(from));
  parts_.build(entry->job);
}

void Lifecycle::CollectBuild(TraceEntry* entry) {
  if (!entry->job->done()) return;
  // Where it built nothing, it has the recording still.
  const std::shared_ptr<BuildJob> job = std::move(entry->job);
  BuildJob::Outcome outcome = job->TakeOutcome();
  if (!outcome && !outcome.error().unexplained.empty()) {
    const std::shared_ptr<const engine::Trace> recording = entry->recording();
    for (const uint32_t op : outcome.error().unexplained) {
      parts_.numbers->Keep(recording->ops[op].hash);
    }
    // It never comes again in this form.
    boundaries_.Forget(*entry);
    GiveUp(entry, outcome.error().error.message() +
                      "; its numbers are part of the trace's form now");
    return;
  }
  if (!outcome && outcome.error().outdated) {
    entry->instances.Clear();  // of an earlier plan: this one never paid
    Renew(entry, outcome.error().error.message(), {});
    return;
  }
  if (!outcome && outcome.error().split.has_value()) {
    const uint32_t op = *outcome.error().split;
    SplitAt(entry, entry->recording()->ops[op].before,
            outcome.error().error.message() + ": split at op " +
                std::to_string(op));
    return;
  }
  if (!outcome) {
    FailAt(entry, outcome.error().op, outcome.error().error.message());
    return;
  }
  ++journal_.stats.builds;
  entry->Followed();  // which was another plan's
  entry->summary = std::move(outcome->summary);
  entry->instances.Begin({.bytes = outcome->bytes, .shares = outcome->shares});
  if (!outcome->refusal.empty()) {
    GiveUp(entry, outcome->refusal);
    return;
  }
  if (!plans_.Contains(KeyOf(*entry))) {  // evicted before its head came
    GaveWay(entry);
    return;
  }
  entry->state = State::kCheckOps;
  traces_.HasPlan(entry);
  Say(base::LogLevel::kInfo, *entry,
      "built: " + std::to_string(entry->summary.launches) + " launches in " +
          std::to_string(entry->summary.segments) + " segments, " +
          std::to_string(outcome->bytes) + " bytes");
}

void Lifecycle::AwaitVerdict(TraceEntry* entry, size_t instance) {
  entry->verdict_pending = true;
  entry->validating = instance;
}

void Lifecycle::CollectVerdict(TraceEntry* entry,
                               engine::Executor::Patience patience) {
  const PlanCache::Pin pin = Pin(entry);
  if (!pin) return;
  auto verdict = (*pin)->instance(entry->validating).executor().Poll(patience);
  if (!verdict) {
    GiveUp(entry, verdict.error().message());
    return;
  }
  if (!verdict->has_value()) return;
  entry->verdict_pending = false;
  if (!Judge(entry, **pin, **verdict)) return;
  ++journal_.stats.validated;
  ++entry->validations;
  entry->instances.Validated(entry->validating);
  if (entry->state == State::kCheckOps) {
    entry->state = State::kCheckWhole;
  } else if (entry->state == State::kCheckWhole) {
    entry->state = State::kReady;
    entry->reason.clear();  // of an earlier plan
    entry->variations.NumbersAreTold();
    Say(base::LogLevel::kInfo, *entry,
        "equal to eager in every bit: it may be replayed from now on");
  }
}

bool Lifecycle::Judge(TraceEntry* entry, const Plan& plan,
                      const engine::Verdict& verdict) {
  using Kind = Suspects::Finding::Kind;
  const engine::Trace& trace = plan.trace();
  const bool op_by_op = entry->instances[entry->validating].validations == 0;
  const Suspects::Finding finding = entry->suspects.Judge(
      trace, plan.effects(), verdict,
      op_by_op ? Suspects::Compared::kOpByOp : Suspects::Compared::kWhole,
      [this](engine::OpId op) {
        return parts_.frontend->MayBeNondeterministic(op);
      });
  switch (finding.kind) {
    case Kind::kEqual:
      return true;
    case Kind::kDiffers:
      FailAt(entry, finding.op,
             "op " + std::to_string(finding.op) + " (" +
                 parts_.frontend->OpName(trace.ops[finding.op].op) +
                 ") gave other bits than eager");
      break;
    case Kind::kConfirmed:
      LearnNondeterministic(entry, trace);
      break;
    case Kind::kNotKnown:
      // No instance is trusted before that is known.
      entry->instances.TrustNone();
      entry->state = State::kCheckOps;
      break;
  }
  return false;
}

void Lifecycle::LearnNondeterministic(TraceEntry* entry,
                                      const engine::Trace& trace) {
  std::set<uint64_t> learned;
  for (const uint32_t op : entry->suspects.ops()) {
    const engine::TracedOp& traced = trace.ops[op];
    nondeterministic_.Put(traced.hash);
    learned.insert(traced.hash);
    ++journal_.notes["nondeterministic, compared to within rounding: " +
                     parts_.frontend->OpName(traced.op)];
  }
  // Plans that were built without knowing it might undo such an op. A pass of
  // one may be under way.
  traces_.ForEach([&](TraceEntry& other) {
    const std::shared_ptr<const engine::Trace> recording = other.recording();
    if (recording == nullptr || other.state == State::kGivenUp) return;
    other.outdated |= std::ranges::any_of(
        recording->ops, [&learned](const engine::TracedOp& op) {
          return !op.nondeterministic && learned.contains(op.hash);
        });
  });
}

void Lifecycle::Settle() {
  std::vector<TraceEntry*> due;
  traces_.ForEach([&due](TraceEntry& entry) {
    if (entry.state == State::kBuilding || entry.verdict_pending) {
      due.push_back(&entry);
    }
  });
  for (TraceEntry* entry : due) {
    if (entry->state == State::kBuilding) CollectBuild(entry);
    if (entry->verdict_pending) {
      CollectVerdict(entry, engine::Executor::Patience::kWait);
    }
  }
}

// --- A plan, and its instances -----------------------------------------------

PlanCache::Pin Lifecycle::Pin(TraceEntry* entry) {
  PlanCache::Pin pin = plans_.Lookup(KeyOf(*entry));
  if (!pin) {
    GaveWay(entry);
  }
  return pin;
}

void Lifecycle::GaveWay(TraceEntry* entry) {
  Say(base::LogLevel::kInfo, *entry, "its plan was evicted");
  Renew(entry, kGaveWay, {});
}

void Lifecycle::HasRoom(TraceEntry* entry, const engine::Instance& instance) {
  for (TraceEntry* left : instances_.HasRoom(entry, instance)) {
    Say(base::LogLevel::kInfo, *left,
        "has not come for long, and others have left its arena: dropped");
    StartOver(left);
  }
}

void Lifecycle::HasNoRoom(TraceEntry* entry,
                          const std::shared_ptr<engine::Ledger>& arena,
                          size_t index) {
  if (instances_.HasNoRoom(entry, arena, index)) RecordAgain(entry);
}

// --- Back --------------------------------------------------------------------

std::vector<engine::ValueId> Lifecycle::ComeBeside(const TraceEntry& entry,
                                                   const engine::Trace& trace) {
  std::vector<engine::ValueId> values;
  size_t index = 0;  // as Watching lists what comes behind the head
  for (engine::ValueId v = 0; v < trace.values.size(); ++v) {
    const engine::Value& value = trace.values[v];
    if (!value.external || value.birth_op == 0) continue;
    if (index == entry.identity.storages()) return {};
    if (entry.identity.IsBeside(index++)) values.push_back(v);
  }
  return index == entry.identity.storages() ? values
                                            : std::vector<engine::ValueId>();
}

void Lifecycle::NoteLeaving(TraceEntry* entry, const engine::Effects& effects,
                            uint32_t op, const engine::TracedOp& traced,
                            bool operands) {
  if (!entry->has_plan()) return;
  if (const auto recording = entry->recording(); recording && operands) {
    // Both recordings may have held one that is another one now and then: who
    // is watched tells.
    entry->known_ops.WatchNext();
    std::vector<engine::ValueId> moved = ComeBeside(*entry, *recording);
    std::erase_if(moved, [&](engine::ValueId v) {
      return effects.input(v) ||
             std::ranges::none_of(
                 traced.operands,
                 [v](const engine::ValueRef& ref) { return ref.value == v; });
    });
    if (!moved.empty()) {
      LearnMoves(entry, moved);
      return;
    }
  }
  // A loop that is left early at times is left at one place or another, and so
  // are layers.
  const bool anywhere = entry->joined.may_be_left_anywhere();
  using Where = Leavings::Where;
  const Where where = anywhere                    ? Where::kAnywhere
                      : entry->EndsSoonBehind(op) ? Where::kNearTheEnd
                                                  : Where::kAtOneOp;
  if (!entry->leavings.Left(op, where)) return;
  if (anywhere) {
    ComeApart(entry, "is left too often: its parts are traces again");
    return;
  }
  SplitAt(entry, traced.before,
          "is left at op " + std::to_string(op) +
              " too often: its beginning and its rest are traces now");
}

void Lifecycle::ComeApart(TraceEntry* entry, std::string_view reason) {
  SplitAt(entry, *entry->joined.at(), reason);
}

void Lifecycle::SplitAt(TraceEntry* entry, const cache::Signature& beginning,
                        std::string_view reason) {
  boundaries_.EndAt(beginning);
  entry->joined.ComeApart();  // at `beginning`, perhaps
  boundaries_.Forget(*entry);
  GiveUp(entry, reason);
}

void Lifecycle::Join(TraceEntry* entry, TraceEntry* behind) {
  const std::vector<TraceEntry*> all = joining_.PartsOf(*entry, behind);
  if (all.empty()) return;
  const uint32_t ops = std::accumulate(
      all.begin(), all.end(), uint32_t{0},
      [](uint32_t sum, const TraceEntry* part) { return sum + part->ops; });
  if (!GoOn(entry, ops)) return;
  ++journal_.notes["two traces that always came together are one"];
  Say(base::LogLevel::kInfo, *entry,
      "becomes one with what always comes behind it");
  for (TraceEntry* part : all) {
    entry->joined.GoOnWith({part->id, part->seen}, part->joined);
    part->succession.Restart();
  }
}

void Lifecycle::DropIdle(TraceEntry* entry) {
  for (TraceEntry* idle : retention_.Unproved(passes_)) {
    Say(base::LogLevel::kInfo, *idle,
        "has not come for long: its plan, which is not proved, was dropped");
    idle->stayed_away = true;
    RecordAgain(idle);
  }
  if (!entry->joined.AreDue(entry->replays)) return;
  for (TraceEntry* part : retention_.IdleParts(entry)) {
    Say(base::LogLevel::kInfo, *part,
        "comes as part of another one alone: its plan was dropped");
    StartOver(part);
  }
  retention_.LookForRotated(entry);
}

void Lifecycle::JoinRun(TraceEntry* entry) {
  const uint32_t times = entry->run.length();
  if (!GoOn(entry, (times - 1) * entry->ops)) return;
  entry->joined.GoOnAsRun();
  ++journal_.notes["a trace that always came as often in a row is one"];
  Say(base::LogLevel::kInfo, *entry,
      "becomes one of the " + std::to_string(times) +
          " times that it always comes in a row");
}

bool Lifecycle::GoOn(TraceEntry* entry, uint32_t ops) {
  if (!joining_.MayGoOn(*entry, ops)) return false;
  entry->joined.GoOn(ops);
  // Its head promises it until the longer one has come; and it may come by
  // itself again, before a cut.
  DropPlan(entry);
  entry->first.reset();
  entry->known_ops.Forget();  // it is watched, to go on
  entry->outdated = false;
  entry->state = State::kSeen;
  traces_.Count(entry);
  return true;
}

bool Lifecycle::After(engine::Instance::Readiness readiness, TraceEntry* entry,
                      const engine::Instance& instance, uint32_t index,
                      const OpView& op) {
  using Readiness = engine::Instance::Readiness;
  switch (readiness) {
    case Readiness::kUnproven:
      LearnMoves(entry, instance.unproven());
      return entry->state == State::kConfirm;
    case Readiness::kElsewhere:
      return LearnDraws(entry);
    case Readiness::kUntold:
      return LearnNumbers(entry, index, instance.trace().ops[index], op);
    case Readiness::kReplaced:
      Renew(entry, instance.broken() ? kMemoryGone : kOtherMemory,
            instance.Replaced());
      return !entry->renewal.waiting();
    case Readiness::kReady:
    case Readiness::kOccupied:
    case Readiness::kOtherOp:
    case Readiness::kNoMemory:
      break;
  }
  return false;
}

bool Lifecycle::LearnNumbers(TraceEntry* entry, uint32_t index,
                             const engine::TracedOp& traced, const OpView& op) {
  if (entry->state == State::kGivenUp ||
      !entry->variations.LearnNumbers(index, traced, op.scalars)) {
    return false;
  }
  RecordAgain(entry);
  return true;
}

bool Lifecycle::LearnDraws(TraceEntry* entry) {
  if (!entry->has_plan()) return false;
  if (!entry->variations.LearnDraw(entry->replays)) return false;
  RecordAgain(entry);
  return true;
}

void Lifecycle::LearnMoves(TraceEntry* entry,
                           std::span<const engine::ValueId> values) {
  if (!entry->has_plan()) return;
  if (entry->variations.LearnMoves(
          values, entry->instances.replays() >= Renewal::kReplaysThatPay)) {
    RecordAgain(entry);
  } else {
    Renew(entry, kMoves, {});
  }
}

void Lifecycle::LearnOutliving(TraceEntry* entry,
                               std::span<const engine::ValueId> values) {
  entry->variations.LearnOutliving(values);
  RecordAgain(entry);
}

void Lifecycle::FailAt(TraceEntry* entry, std::optional<uint32_t> op,
                       std::string_view reason) {
  Reject(*entry, reason);
  entry->reason = reason;
  // Of a plan that was good for long.
  if (entry->has_plan() &&
      entry->instances.replays() >= Variations::kReplaysToTryAgain) {
    entry->tries.Renew();
  }
  if (entry->tries.Take()) {
    StartOver(entry);
    return;
  }
  // The op becomes a cut, so that what lies before and after it can be had. In
  // what was joined the parts tell themselves.
  const std::shared_ptr<const engine::Trace> recording = entry->recording();
  if (op.has_value() && recording != nullptr && !entry->joined.is_joined()) {
    boundaries_.cuts().Learn(recording->ops[*op].hash, reason);
  }
  GiveUp(entry, reason);
}

void Lifecycle::CouldNotRun(TraceEntry* entry, const base::Error& error) {
  if (error.code() != base::Code::kFailedPrecondition ||
      !entry->refusals.Take()) {
    GiveUp(entry, error.message());
    return;
  }
  ++journal_.notes["an op refused to run in a replay, and eager ran it: " +
                   error.message()];
}

void Lifecycle::StartOver(TraceEntry* entry) {
  DropPlan(entry);
  entry->first.reset();
  entry->suspects.Clear();
  entry->outdated = false;
  entry->state = State::kRecord;
  traces_.Count(entry);
}

void Lifecycle::Outdate(TraceEntry* entry) { entry->outdated = true; }

void Lifecycle::Renew(TraceEntry* entry, std::string_view reason,
                      std::span<const engine::ValueId> replaced) {
  if (entry->instances.replays() < Renewal::kReplaysThatPay) {
    entry->variations.LearnReplaced(replaced);
  }
  entry->renewal.Replaced(entry->instances.replays());
  if (entry->renewal.waiting()) {
    Reject(*entry, reason);
    entry->reason = reason;
  }
  StartOver(entry);
}

void Lifecycle::RecordAgain(TraceEntry* entry) {
  DropPlan(entry);
  entry->state = entry->first == nullptr ? State::kRecord : State::kConfirm;
}

void Lifecycle::DropPlan(TraceEntry* entry) {
  // The plan lets it go.
  if (entry->first == nullptr) entry->first = entry->planned.lock();
  entry->planned.reset();
  entry->second.reset();
  entry->member.reset();
  entry->verdict_pending = false;
  Unpublish(*entry);
  traces_.HasNoPlan(entry);
}

void Lifecycle::Unpublish(TraceEntry& entry) {
  if (entry.job != nullptr) entry.job->Abandon();
  entry.job.reset();
  plans_.Erase(KeyOf(entry));
}

void Lifecycle::GiveUp(TraceEntry* entry, std::string_view reason) {
  if (entry->joined.is_joined()) {  // its parts were better
    boundaries_.EndAt(*entry->joined.at());
    boundaries_.Forget(*entry);
  }
  entry->state = State::kGivenUp;
  entry->reason = reason;
  DropPlan(entry);
  entry->first.reset();
  entry->outdated = false;
  traces_.Count(entry);
  Reject(*entry, reason);
}

void Lifecycle::Reject(const TraceEntry& entry, std::string_view reason) {
  ++journal_.stats.rejected;
  Say(base::LogLevel::kInfo, entry, reason);
  parts_.track.Tell(Doing::kRejected, entry.signature, entry.ops, reason);
  ++journal_.rejections[{entry.signature.ToHex(), std::string(reason)}];
}

}  // namespace reprise::scheduler
