#include "scheduler/stream_session.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "engine/base/log.h"
#include "engine/mask_numbers.h"

namespace reprise::scheduler {

using engine::OpView;
using engine::ResultView;
using State = TraceEntry::State;

namespace {

// A head that comes again sooner than this does not end a trace: parallel ops
// on one input (queries, keys and values) look alike.
constexpr uint32_t kShortestRepetition = 4;

// A trace is recorded once so many ops were seen in its passes: what two ops
// gain pays only if they come often.
constexpr uint64_t kFewestOpsSeen = 32;

// One pass in so many of a trace that is not wanted is watched whole, because
// words do not tell that values are used in another way than before.
constexpr uint64_t kPassesAWatch = 16;

// A plan that is left at the same op this often, at one run in so many, is
// split there.
constexpr uint32_t kLeavings = 4;
constexpr uint32_t kRunsALeaving = 8;

// An op that may try out kernels, and could not be recorded so often in a row,
// is a cut; fewer times may have been trials.
constexpr uint32_t kTrials = 3;

constexpr char kNew[] = "another one each time, as what came here before it";

constexpr char kReleased[] =
    "memory ran short: plans were given back, to be recorded again";
constexpr char kFreed[] =
    "memory that a replay under way was to read was freed: it ended there";
constexpr char kAbandoned[] = "raised an error or returned what cannot be kept";

}  // namespace

const char* ToString(TraceEntry::State state) {
  switch (state) {
    case State::kSeen:
      return "seen";
    case State::kRecord:
      return "waiting to be recorded";
    case State::kConfirm:
      return "waiting to be recorded again";
    case State::kBuilding:
      return "building";
    case State::kCheckOps:
      return "validating op by op";
    case State::kCheckWhole:
      return "validating whole segments";
    case State::kReady:
      return "ready";
    case State::kGivenUp:
      return "given up";
  }
  return "?";
}

StreamSession::StreamSession(Parts parts)
    : Session(parts.frontend.get()),
      frontend_(std::move(parts.frontend)),
      backend_(std::move(parts.backend)),
      plans_(parts.plans),
      build_(std::move(parts.build)),
      options_(parts.options),
      policy_(parts.policy),
      clock_(*parts.clock),
      recording_forbidden_(parts.recording_forbidden),
      opened_(parts.opened),
      asleep_(parts.asleep),
      externals_(frontend_.get()),
      traces_(options_.trace_budget_bytes,
              [this](TraceEntry& entry) REPRISE_REQUIRES(lock_) {
                heads_.Remove(entry.head_hash, &entry);
                Unpublish(entry);
              }) {}

StreamSession::~StreamSession() {
  holds_.EndPass();
  pinned_ = PlanCache::Pin();
  traces_.Clear();
}

// --- The stream ------------------------------------------------------------

Action StreamSession::Enter(const OpView& op) {
  entered_ = op.words.data();
  if (++journal_.stats.ops % Attention::kOps == 0) LookAtWholeStream();
  if (observed_ != nullptr) {
    HandleOverlap();
    return Action::kCut;
  }
  if (mode_ == Mode::kFollowing) {
    if (op.cut == nullptr && cursor_ == instance().next_launch_op()) {
      if (LaunchAt(op)) return Follow();
    } else if (op.cut == nullptr && instance().Matches(cursor_, op)) {
      return Follow();
    } else {
      Diverge(op);
    }
  } else if (mode_ == Mode::kValidating) {
    if (op.cut == nullptr && GoOnBeside(op)) return Observe();
    LeaveValidation();
    NoteLeaving(current_, cursor_);
  } else if (mode_ == Mode::kAway) [[unlikely]] {
    return Action::kEager;
  }
  if (attention_.asleep() && mode_ == Mode::kBoundary) [[unlikely]] {
    return Sleep();
  }
  return EnterUnmatched(op);
}

Action StreamSession::EnterUnmatched(const OpView& op) {
  if (op.scalars.empty()) return EnterMasked(op, cache::HashWords(op.words));
  OpView masked = op;
  const cache::Signature words = Mask(masked);
  return EnterMasked(masked, words);
}

Action StreamSession::EnterMasked(const OpView& op,
                                  const cache::Signature& words) {
  const uint64_t hash = words.lo;
  if (mode_ == Mode::kPassing && PassOn(op, hash)) {
    // Its words say that it is the trace's op, and not on whose memory it is.
    const bool writes = std::ranges::any_of(
        op.operands,
        [](const engine::Operand& operand) { return operand.written; });
    return writes ? Action::kCut : Action::kEager;
  }
  if (op.cut != nullptr) return RunCut(op, hash, op.cut);
  if (!learned_cuts_.empty()) {
    if (const std::string* why = learned_cuts_.Find(hash)) {
      return RunCut(op, hash, *why);
    }
  }
  if (!IsExpected(hash) && IsNew(hash)) return LeaveOut(op, kNew);
  if (mode_ == Mode::kWatching &&
      (BeginsTrace(op, hash) || EndsAtForeignWork())) {
    Close();
  }
  if (mode_ == Mode::kBoundary) {
    if (attention_.asleep()) [[unlikely]]
      return Sleep();
    if (opened_ != nullptr) opened_->store(true, std::memory_order_relaxed);
    if (const std::optional<Action> action = TryHead(op, hash)) return *action;
  }
  return Watch(op, words);
}

bool StreamSession::IsExpected(uint64_t hash) const {
  if (mode_ != Mode::kWatching || expected_ == nullptr) return false;
  const std::vector<uint64_t>& hashes = expected_->op_hashes;
  return open_.ops() < hashes.size() && hashes[open_.ops()] == hash;
}

bool StreamSession::IsNew(uint64_t hash) {
  if (mode_ != Mode::kWatching) return novelty_.Meet(hash);
  return novelty_.Meet(hash, open_.signature().lo);
}

Action StreamSession::Sleep() {
  // Relaxed: whoever reads it late shows an op too many.
  if (asleep_ != nullptr) asleep_->store(true, std::memory_order_relaxed);
  return Action::kCut;
}

void StreamSession::PassOver(uint64_t ops) {
  const Locked lock(*this);
  journal_.stats.ops += ops;
  LookAtWholeStream();
}

void StreamSession::ShowAll() {
  const Locked lock(*this);
  if (asleep_ != nullptr) asleep_->store(false, std::memory_order_relaxed);
  asleep_ = nullptr;
}

void StreamSession::LookAtWholeStream() {
  if (policy_ != base::Policy::kMeasured) return;
  const bool before = attention_.asleep();
  attention_.Look(journal_.stats.followed, clock_.Now());
  const bool now = attention_.asleep();
  if (!now && asleep_ != nullptr) {
    asleep_->store(false, std::memory_order_relaxed);
  }
  if (!now || before) return;
  predictor_.Break();
  ++journal_.notes
        ["the stream was let pass: watching it did not pay, or this "
         "was to be measured"];
}

bool StreamSession::Interrupt(const char* what) {
  const Locked lock(*this);
  return CutWithoutOp(what);
}

void StreamSession::InterruptIfUsed(std::span<const MemoryRange> memory,
                                    const char* what) {
  const Locked lock(*this);
  if (mode_ != Mode::kFollowing && mode_ != Mode::kValidating) return;
  for (const MemoryRange& range : memory) {
    if (!instance().Uses(range.begin, range.end)) continue;
    CutWithoutOp(what);
    return;
  }
}

bool StreamSession::CutWithoutOp(const char* what) {
  static constexpr uint64_t kWords[] = {engine::kNoOp};
  may_allocate_.store(false, std::memory_order_relaxed);  // as at an op
  if (mode_ == Mode::kAway) return false;
  if (mode_ == Mode::kBoundary && observed_ == nullptr) return false;
  const uint64_t squashes = journal_.stats.squashes;
  OpView look;
  look.op = engine::kNoOp;
  look.words = kWords;
  look.cut = what;
  Enter(look);
  --journal_.stats.ops;
  return journal_.stats.squashes != squashes;
}

void StreamSession::Leave(const OpView& op, std::span<const ResultView> results,
                          std::unique_ptr<engine::Call> call) {
  // An op that overlapped with another one is no longer waited for.
  if (observed_ != op.words.data()) return;
  observed_ = nullptr;
  if (recorder_ != nullptr) recorder_->GiveCall(std::move(call));
  if (mode_ == Mode::kValidating) {
    LeaveValidating(op, results);
  } else if (mode_ == Mode::kWatching) {
    LeaveWatching(op, results);
  }
}

void StreamSession::Abandon(const OpView& abandoned) {
  if (observed_ != abandoned.words.data()) return;
  OpView op = abandoned;
  observed_ = nullptr;
  if (mode_ == Mode::kValidating) LeaveValidation();
  LearnCut(Mask(op).lo, kAbandoned);
  NoteCut(op, kAbandoned);
  DiscardOpenTrace();
}

Action StreamSession::Observe() {
  observed_ = entered_;
  return Action::kObserve;
}

cache::Signature StreamSession::Mask(OpView& op) {
  const std::span<const uint64_t> words = op.words;
  op.words = engine::MaskNumbers(op, masked_);
  cache::Signature hash = cache::HashWords(op.words);
  if (!unmasked_.empty() && unmasked_.Find(hash.lo) != nullptr) {
    op.words = words;
    hash = cache::HashWords(words);
  }
  return hash;
}

Action StreamSession::RunCut(const OpView& op, uint64_t hash,
                             std::string_view reason) {
  const Action action = LeaveOut(op, reason);
  novelty_.CutPassed(hash);
  return action;
}

Action StreamSession::LeaveOut(const OpView& op, std::string_view reason) {
  NoteCut(op, reason);
  Close();
  return Action::kCut;
}

void StreamSession::HandleOverlap() {
  ++journal_.notes["ops of several threads overlapped on one stream"];
  if (mode_ == Mode::kFollowing) Squash(cursor_);
  if (mode_ == Mode::kValidating) LeaveValidation();
  observed_ = nullptr;
  DiscardOpenTrace();
  predictor_.Break();
}

void StreamSession::DiscardOpenTrace() {
  StopLearning();
  expected_ = nullptr;
  if (mode_ == Mode::kWatching || mode_ == Mode::kPassing) {
    mode_ = Mode::kBoundary;
  }
}

void StreamSession::StopLearning() {
  recorder_.reset();
  allowance_.End(clock_.Now());
}

bool StreamSession::IsWorthRecording(const TraceEntry& entry) const {
  return policy_ == base::Policy::kAlways ||
         entry.seen * entry.ops >= kFewestOpsSeen;
}

// --- Passing ---------------------------------------------------------------

std::optional<Action> StreamSession::TryPass(TraceEntry* entry) {
  if (entry->op_hashes.empty() || ++entry->passes % kPassesAWatch == 0) {
    return std::nullopt;
  }
  current_ = entry;
  cursor_ = 0;
  mode_ = Mode::kPassing;
  PassOn({}, entry->op_hashes.front());
  return Action::kEager;
}

bool StreamSession::PassOn(const OpView& op, uint64_t hash) {
  if (op.cut != nullptr || hash != current_->op_hashes[cursor_]) {
    mode_ = Mode::kBoundary;
    predictor_.Break();
    return false;
  }
  if (++cursor_ == current_->ops) {
    mode_ = Mode::kBoundary;
    LinkTrace(current_);
  }
  return true;
}

// --- Watching --------------------------------------------------------------

bool StreamSession::BeginsTrace(const OpView& op, uint64_t hash) const {
  if (repeated_) return true;
  const bool enough = open_.ops() >= kShortestRepetition;
  if (hash == head_hash_) {
    const Heads::Likeness likeness =
        Heads::Compare(op.operands, head_storages_, open_);
    if (likeness.all() || (enough && likeness.some())) return true;
  }
  // While the trace that the head promised may still come, other heads are
  // ops in its middle. One that came once promises nothing: it may have been
  // two in a row.
  if (!enough) return false;
  if (expected_ != nullptr && expected_->seen > 1 &&
      open_.ops() < expected_->ops) {
    return false;
  }
  for (const Heads::Head& head : heads_.Find(hash)) {
    if (head.entry->state >= State::kConfirm &&
        head.entry->state <= State::kReady &&
        Heads::Compare(op.operands, head.storages, open_).some()) {
      return true;
    }
  }
  return false;
}

Action StreamSession::Watch(const OpView& op, const cache::Signature& words) {
  const uint64_t hash = words.lo;
  if (mode_ == Mode::kBoundary) {
    open_.Clear();
    externals_.Clear();
    repetition_.Clear();
    repeated_ = false;
    head_hash_ = hash;
    op_hashes_.clear();
    head_storages_.clear();
    for (const engine::Operand& operand : op.operands) {
      head_storages_.push_back(operand.storage);
    }
    mode_ = Mode::kWatching;
  }
  if (open_.WritesExternal(op)) {
    return RunCut(op, hash, "writes memory that its trace did not make");
  }
  op_hashes_.push_back(hash);
  const cache::Signature before = open_.signature();
  const engine::ValueId known = open_.values();
  const std::span<const engine::ValueRef> operands = open_.Enter(op, words);
  if (open_.ops() > 1 && open_.values() > known) {
    engine::ValueId next = known;
    for (size_t i = 0; i < operands.size(); ++i) {
      if (operands[i].value != next) continue;
      externals_.Add(op.operands[i].storage);
      ++next;
    }
  }
  if (recorder_ != nullptr) {
    recorder_->Enter(op, before, operands, open_.values());
  }
  if (expected_ == nullptr || open_.ops() > expected_->ops) {
    repeated_ = repetition_.Add(hash, op.operands, operands, open_);
  }
  if (op.may_use_generator) generator_before_ = frontend_->GeneratorState();
  observed_hash_ = hash;
  return Observe();
}

void StreamSession::LeaveWatching(const OpView& op,
                                  std::span<const ResultView> results) {
  std::string refusal;
  bool is_trial = false;
  if (op.may_use_generator &&
      frontend_->GeneratorState() != generator_before_) {
    refusal = "draws random numbers";
  }
  const std::span<const engine::ValueId> values = open_.Leave(results);
  if (recorder_ != nullptr) {
    std::string why = recorder_->Leave(op, results, values, open_.values());
    if (refusal.empty()) refusal = std::move(why);
  }
  if (op.may_try_kernels && recorder_ != nullptr) {
    uint32_t& trials = trials_.Put(observed_hash_);
    trials = refusal.empty() ? 0 : trials + 1;
    is_trial = trials > 0 && trials < kTrials;
  }
  if (!refusal.empty()) {
    if (!is_trial) LearnCut(observed_hash_, refusal);
    NoteCut(op, refusal);
    DiscardOpenTrace();
    novelty_.CutPassed(observed_hash_);
    return;
  }
  if (Ends()) Close();
}

bool StreamSession::EndsAtForeignWork() {
  if (recorder_ == nullptr) return false;
  const std::optional<std::string> call = backend_->TakeForeignWork();
  if (!call.has_value()) return false;
  ++journal_.cuts[{engine::kNoOp, *call + " between two ops"}];
  ends_.Put(open_.signature());
  return true;
}

bool StreamSession::MayBecome(const TraceEntry& entry) const {
  if (open_.ops() > entry.ops) return false;
  if (open_.ops() == entry.ops) return open_.signature() == entry.signature;
  // One that has no recording tells nothing of its middle.
  const engine::Trace* recording = entry.first.get();
  std::shared_ptr<const engine::Trace> planned;
  if (recording == nullptr) {
    planned = entry.planned.lock();
    recording = planned.get();
  }
  return recording == nullptr ||
         recording->ops[open_.ops()].before == open_.signature();
}

bool StreamSession::Ends() {
  if (open_.ops() >= options_.max_trace_ops) return true;
  if (!ends_.empty() && ends_.Find(open_.signature()) != nullptr) return true;
  if (expected_ == nullptr) return false;
  if (open_.ops() <= expected_->ops && !MayBecome(*expected_)) {
    // It is another one of those that begin like this, perhaps.
    for (const Heads::Head& head : heads_.Find(head_hash_)) {
      const TraceEntry& other = *head.entry;
      const bool known = other.first != nullptr || !other.planned.expired() ||
                         open_.ops() == other.ops;
      if (known && MayBecome(other)) expected_ = head.entry;
    }
  }
  return open_.ops() == expected_->ops &&
         open_.signature() == expected_->signature;
}

bool StreamSession::Keeps(const TraceEntry& entry) const {
  using Pass = engine::Backend::Pass;
  return (entry.state == State::kRecord && recording_pass_ == Pass::kFirst) ||
         (entry.state == State::kConfirm &&
          recording_pass_ == Pass::kRelocated);
}

void StreamSession::Close() {
  if (mode_ != Mode::kWatching) return;
  mode_ = Mode::kBoundary;
  expected_ = nullptr;
  if (open_.ops() == 0) {
    StopLearning();
    return;
  }
  TraceEntry* entry = EntryOfOpen();
  LinkTrace(entry);
  heads_.Put(head_hash_, entry, head_storages_);
  if (recorder_ != nullptr) {
    // Of whichever trace it has become.
    if (Keeps(*entry)) {
      KeepRecording(entry, recorder_->Finish(open_.signature()));
    }
    StopLearning();
  }
  if (entry->seen > 1 && entry->op_hashes.empty()) {
    entry->op_hashes = op_hashes_;
  }
  // A single op is worth it only if it launches much: it is recorded late.
  if (entry->state == State::kSeen && (entry->ops > 1 || entry->seen > 1) &&
      IsWorthRecording(*entry)) {
    entry->state = State::kRecord;
  }
  traces_.Count(entry);
  traces_.Trim([this](const TraceEntry& other) {
    return plans_->Contains(KeyOf(other));
  });
}

TraceEntry* StreamSession::EntryOfOpen() {
  const TraceTable::Found found = traces_.EntryFor(
      {open_.signature(), open_.ops(), head_hash_, std::move(externals_)});
  if (found.new_signature) ++journal_.stats.signatures;
  return found.entry;
}

void StreamSession::LinkTrace(TraceEntry* entry) {
  ++journal_.stats.traces;
  ++entry->seen;
  novelty_.TraceEnded(entry->signature.lo);
  traces_.Use(entry);
  predictor_.Saw(*entry);
}

void StreamSession::NoteCut(const OpView& op, std::string_view reason) {
  ++journal_.cuts[{op.op, std::string(reason)}];
}

void StreamSession::LearnCut(uint64_t hash, std::string_view reason) {
  learned_cuts_.Put(hash, std::string(reason));
}

// --- Following -------------------------------------------------------------

Action StreamSession::Follow() {
  followed_ = &instance().trace().ops[cursor_];
  ++cursor_;
  ++journal_.stats.followed;
  if (cursor_ == current_->ops) {
    instance().Finish();
    current_->EndRest();
    LinkTrace(current_);
    mode_ = Mode::kBoundary;
    following_.store(false, std::memory_order_release);
  }
  return followed_->native ? Action::kEager : Action::kFollow;
}

bool StreamSession::LaunchAt(const OpView& op) {
  using Readiness = engine::Instance::Readiness;
  const Readiness readiness = instance().BindLate(op);
  if (readiness == Readiness::kUnproven) {
    SquashAt(op);
    RecordAgain(current_);
    return false;
  }
  if (readiness == Readiness::kUntold) {
    SquashAt(op);
    if (!LearnNumbers(current_, cursor_, op)) NoteLeaving(current_, cursor_);
    return false;
  }
  if (readiness != Readiness::kReady || !instance().Matches(cursor_, op)) {
    Diverge(op);
    return false;
  }
  if (!instance().Secure()) {
    ++journal_.notes[kFreed];
    Diverge(op);
    return false;
  }
  const base::Status launched = instance().LaunchNext();
  if (!Goes(launched)) {
    Squash(cursor_);
    GiveUp(current_, launched.error().message());
    return false;
  }
  return true;
}

bool StreamSession::Goes(const base::Status& launched) {
  if (launched) return true;
  if (instance().launched_ops() <= cursor_) return false;
  ++journal_.notes["launched no further than the program was: " +
                   launched.error().message()];
  return true;
}

void StreamSession::Diverge(const OpView& op) {
  const bool numbers = instance().OtherNumbers(cursor_, op);
  SquashAt(op);
  if (numbers && LearnNumbers(current_, cursor_, op)) return;
  NoteLeaving(current_, cursor_);
}

void StreamSession::SquashAt(const OpView& op) {
  ++journal_.squashes[{current_->signature.ToHex(), cursor_,
                       engine::NameOf(*frontend_, op.op)}];
  Squash(cursor_);
}

void StreamSession::NoteLeaving(TraceEntry* entry, uint32_t op) {
  if (!entry->has_plan()) return;
  if (entry->left_at != op ||
      entry->runs - entry->left_since >
          uint64_t{kRunsALeaving} * (entry->left_times + 1)) {
    entry->left_at = op;
    entry->left_times = 0;
    entry->left_since = entry->runs;
  }
  if (++entry->left_times < kLeavings) return;
  ends_.Put(instance().trace().ops[op].before);
  heads_.Remove(entry->head_hash, entry);
  GiveUp(entry, "is left at op " + std::to_string(op) +
                    " too often: its beginning and its rest are traces now");
}

void StreamSession::Squash(uint32_t verified) {
  ++journal_.stats.squashes;
  ++current_->squashes;
  current_->Rest();
  mode_ = Mode::kBoundary;
  predictor_.Break();
  if (verified < current_->ops) {
    novelty_.TraceEnded(instance().trace().ops[verified].before.lo);
  }
  const base::Status restored = instance().Squash(verified);
  following_.store(false, std::memory_order_release);
  if (restored) return;
  base::Log(base::LogLevel::kWarning, restored.error().message());
  GiveUp(current_, restored.error().message());
}

// --- Validating ------------------------------------------------------------

bool StreamSession::GoOnBeside(const OpView& op) {
  using Readiness = engine::Instance::Readiness;
  const bool due = cursor_ == instance().next_launch_op();
  const Readiness readiness = due ? instance().BindLate(op) : Readiness::kReady;
  if (readiness == Readiness::kUnproven) RecordAgain(current_);
  if (readiness == Readiness::kUntold || instance().OtherNumbers(cursor_, op)) {
    LearnNumbers(current_, cursor_, op);
  }
  // Before a segment is launched: another op has not told late externals.
  if (readiness != Readiness::kReady || instance().broken() ||
      !instance().MatchesShadow(cursor_, op)) {
    return false;
  }
  if (!due) return true;
  // Op by op, segments only pass by; launched, if the pass is of whole ones.
  if (!whole_) {
    instance().SkipNext();
    return true;
  }
  if (!instance().Secure()) return false;
  const base::Status launched = instance().LaunchNext();
  if (Goes(launched)) return true;
  GiveUp(current_, launched.error().message());
  return false;
}

void StreamSession::LeaveValidation() {
  StopLearning();
  current_->Rest();
  instance().Finish();
  mode_ = Mode::kBoundary;
  predictor_.Break();
}

void StreamSession::LeaveValidating(const OpView& op,
                                    std::span<const ResultView> results) {
  TraceEntry* entry = current_;
  if (instance().broken()) {
    LeaveValidation();
    return;
  }
  if (auto compared = CompareOp(op, results); !compared) {
    LeaveValidation();
    GiveUp(entry, compared.error().message());
    return;
  }
  if (++cursor_ < entry->ops) return;
  StopLearning();
  instance().Finish();
  entry->EndRest();
  mode_ = Mode::kBoundary;
  LinkTrace(entry);
  if (auto ended = instance().executor().EndComparing(); !ended) {
    GiveUp(entry, ended.error().message());
    return;
  }
  entry->verdict_pending = true;
  entry->validating = instance_index_;
}

base::Status StreamSession::CompareOp(const OpView& op,
                                      std::span<const ResultView> results) {
  engine::Instance& instance = this->instance();
  engine::Executor& executor = instance.executor();
  const engine::TracedOp& traced = instance.trace().ops[cursor_];
  if (traced.native) return {};
  if (!whole_) REPRISE_RETURN_IF_ERROR(executor.LaunchOp(cursor_));
  // Op by op, the plan's memory holds this op's version now; launched whole,
  // it holds each value's last version.
  const auto comparable = [&, op = cursor_,
                           whole = whole_](engine::ValueId value) {
    return executor.Touches(op, value) &&
           (!whole || instance.plan().last_writer(value) == op);
  };
  for (size_t r = 0; r < results.size(); ++r) {
    const engine::ResultSpec& spec = traced.results[r];
    if (spec.kind != engine::ResultSpec::Kind::kValue) continue;
    instance.Shadow(spec.value, results[r].base);
    if (!comparable(spec.value)) continue;
    REPRISE_RETURN_IF_ERROR(
        executor.Compare(results[r].base + spec.offset_bytes,
                         instance.origin(spec.value) + spec.offset_bytes,
                         spec.layout(), cursor_));
  }
  for (size_t i = 0; i < traced.operands.size(); ++i) {
    const engine::ValueRef& ref = traced.operands[i];
    if (!ref.written || !comparable(ref.value)) continue;
    REPRISE_RETURN_IF_ERROR(executor.Compare(
        op.operands[i].address(), instance.origin(ref.value) + ref.offset_bytes,
        ref.layout, cursor_));
  }
  return {};
}

// --- From other threads ----------------------------------------------------

void StreamSession::Settle() {
  const Locked lock(*this);
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

void StreamSession::End() {
  may_allocate_.store(false, std::memory_order_relaxed);  // as at an op
  if (mode_ == Mode::kFollowing) Squash(cursor_);
  if (mode_ == Mode::kValidating) LeaveValidation();
  observed_ = nullptr;
  DiscardOpenTrace();
  predictor_.Break();
}

void StreamSession::Pause() {
  const Locked lock(*this);
  End();
  mode_ = Mode::kAway;
}

void StreamSession::Resume() {
  const Locked lock(*this);
  if (mode_ == Mode::kAway) mode_ = Mode::kBoundary;
}

void StreamSession::StopRecording() {
  const Locked lock(*this);
  recorder_.reset();
}

void StreamSession::Reset() {
  const Locked lock(*this);
  End();
  pinned_ = PlanCache::Pin();
  traces_.Clear();
  heads_.Clear();
  predictor_.Clear();
  ends_.Clear();
  learned_cuts_.Clear();
  unmasked_.Clear();
  trials_.Clear();
  novelty_.Clear();
  attention_ = Attention{};
  if (asleep_ != nullptr) asleep_->store(false, std::memory_order_relaxed);
  journal_.Clear();
  releases_.store(0, std::memory_order_relaxed);
  current_ = nullptr;
  instance_ = nullptr;
}

uint64_t StreamSession::ReleasePlans() {
  if (TryLock()) {
    PlanCache::Pin unpinned;
    if (mode_ != Mode::kFollowing && mode_ != Mode::kValidating) {
      unpinned = std::move(pinned_);
      instance_ = nullptr;
    }
    Unlock();
  }
  const size_t bytes = plans_->EvictIf(
      [this](const PlanKey& key) { return key.session == this; });
  if (bytes > 0) releases_.fetch_add(1, std::memory_order_relaxed);
  return bytes;
}

void StreamSession::BeforeMemoryGoes() {
  while (!TryLock()) {
    if (!following_.load(std::memory_order_acquire) ||
        may_allocate_.load(std::memory_order_relaxed)) {
      return;
    }
    std::this_thread::yield();
  }
  if (mode_ == Mode::kFollowing && !instance().Stands()) {
    ++journal_.notes[kFreed];
    Squash(cursor_);
  }
  Unlock();
}

void StreamSession::Inspect(
    const std::function<void(const Journal&,
                             const std::vector<const TraceEntry*>&,
                             const engine::Frontend&)>& read) {
  const Locked lock(*this);
  if (const uint64_t releases =
          releases_.exchange(0, std::memory_order_relaxed)) {
    journal_.notes[kReleased] += releases;
  }
  std::vector<const TraceEntry*> entries;
  traces_.ForEach(
      [&entries](const TraceEntry& entry) { entries.push_back(&entry); });
  journal_.stats.trace_bytes = traces_.counted_bytes();
  journal_.stats.forgotten = traces_.forgotten() + ends_.forgotten() +
                             learned_cuts_.forgotten() + unmasked_.forgotten() +
                             trials_.forgotten() + journal_.forgotten();
  read(journal_, entries, *frontend_);
}

}  // namespace reprise::scheduler
