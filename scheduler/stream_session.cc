// Larger than its limit: pausing, resetting and inspecting work on all parts of
// a session at once, and so does the change from one pass to the next.

#include "scheduler/stream_session.h"

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "engine/base/log.h"

namespace reprise::scheduler {

using engine::OpView;
using engine::ResultView;
using State = TraceEntry::State;
using Ending = Watching::Ending;

namespace {

constexpr char kNew[] = "a new op each time, like those that came here before";
constexpr char kWritesOutside[] = "writes memory that its trace did not make";
constexpr char kAbandoned[] = "raised an error or returned what cannot be kept";
constexpr char kFromHost[] = "copies from the host, between traces";
constexpr char kReleased[] =
    "memory ran short: plans were dropped, to be recorded again";

}  // namespace

StreamSession::StreamSession(Parts parts)
    : Session(parts.frontend.get()),
      frontend_(std::move(parts.frontend)),
      backend_(std::move(parts.backend)),
      plans_(parts.plans),
      options_(parts.options),
      policy_(parts.policy),
      track_(parts.track),
      opened_(parts.opened),
      writes_(parts.writes),
      clock_(parts.clock),
      learning_({.frontend = frontend_.get(),
                 .work = backend_.get(),
                 .journal = &journal_,
                 .clock = parts.clock,
                 .timer = &timer_,
                 .policy = parts.policy,
                 .forbidden = parts.recording_forbidden,
                 .track = track_}),
      life_({.frontend = frontend_.get(),
             .backend = backend_.get(),
             .plans = plans_,
             .build = std::move(parts.build),
             .options = &options_,
             .journal = &journal_,
             .boundaries = &boundaries_,
             .numbers = &numbers_,
             .timer = &timer_,
             .session = this,
             .track = track_}),
      sleep_(parts.asleep, parts.unwatched),
      watching_({.frontend = frontend_.get(),
                 .work = backend_.get(),
                 .options = &options_,
                 .journal = &journal_,
                 .boundaries = &boundaries_,
                 .learning = &learning_,
                 .life = &life_}),
      passing_(&life_),
      validation_(OnPlans(parts.writes), &learning_, frontend_.get()),
      replay_(
          OnPlans(parts.writes), frontend_.get(), &allocator_wait_,
          parts.under_way,
          {.session = static_cast<const Session*>(this), .kind = parts.kind}),
      choice_({.backend = backend_.get(),
               .options = &options_,
               .policy = parts.policy,
               .clock = &clock_,
               .journal = &journal_,
               .timer = &timer_,
               .learning = &learning_,
               .life = &life_,
               .in_use = &in_use_,
               .holds = &holds_,
               .passing = &passing_,
               .validation = &validation_,
               .replay = &replay_}) {
  journal_.places = Places(
      [this](uint64_t question) { frontend_->AskPlace(this, question); });
}

PlanPass::Parts StreamSession::OnPlans(const StreamWrites* writes) {
  return {.in_use = &in_use_,
          .life = &life_,
          .journal = &journal_,
          .boundaries = &boundaries_,
          .writes = writes,
          .track = track_};
}

StreamSession::~StreamSession() { holds_.EndPass(); }

// --- The stream ------------------------------------------------------------

Action StreamSession::EnterTold(const OpView& op) {
  entered_ = op.words.data();
  if (++journal_.stats.ops % Attention::kOps == 0) LookAtWholeStream();
  if (observed_ != nullptr) {
    ++journal_.notes["ops of several threads overlapped on one stream"];
    Break();
    return Action::kCut;
  }
  if (mode_ == Mode::kReplaying) {
    if (replay_.Enter(op)) return Follow();
    EndReplay();
  } else if (mode_ == Mode::kValidating) {
    if (validation_.Enter(op)) return Observe();
    mode_ = Mode::kBoundary;
  } else if (mode_ == Mode::kAway) [[unlikely]] {
    return Action::kAway;
  }
  if (sleep_.wanted() && mode_ == Mode::kBoundary) [[unlikely]] {
    return Sleep();
  }
  return EnterUnmatched(op);
}

bool StreamSession::WritesOwn(const OpView& op) const {
  switch (mode_) {
    case Mode::kReplaying:
      return replay_.WritesOwn(op);
    case Mode::kValidating:
      return validation_.WritesOwn(op);
    case Mode::kWatching:
      return watching_.WritesOwn(op);
    case Mode::kBoundary:
    case Mode::kPassing:
    case Mode::kAway:
      break;
  }
  return std::ranges::none_of(op.operands, &engine::Operand::written);
}

Action StreamSession::EnterUnmatched(const OpView& op) {
  if (std::ranges::all_of(op.scalars, engine::IsSmallInteger)) {
    return EnterMasked(op, cache::HashWords(op.words));
  }
  OpView masked = op;
  const cache::Signature words = numbers_.Apply(masked);
  return EnterMasked(masked, words);
}

Action StreamSession::EnterMasked(const OpView& op,
                                  const cache::Signature& words) {
  const uint64_t hash = words.lo;
  const bool was_lost = boundaries_.lost();
  if (mode_ == Mode::kPassing) {
    if (op.cut == nullptr && passing_.Enter(hash)) return Pass();
    if (op.cut == nullptr &&
        passing_.Switch(boundaries_.Find(passing_.head_hash()), hash)) {
      timer_.Disregard();
      return Pass();
    }
    mode_ = Mode::kBoundary;
    const bool cut = op.cut != nullptr || boundaries_.cuts().Contain(hash);
    boundaries_.Lose(cut ? 0 : passing_.Left());
  }
  if (op.cut != nullptr) return RunCut(op, hash, op.cut);
  if (const std::string* why = boundaries_.cuts().Why(hash)) {
    return RunCut(op, hash, *why);
  }
  if (mode_ == Mode::kWatching) {
    if (!watching_.IsExpected(hash) &&
        boundaries_.IsNew(hash, watching_.signature().lo,
                          watching_.in_pass())) {
      return LeaveOut(op, hash, kNew);
    }
    if (watching_.EndsBefore(op, hash)) Close(Ending::kByItself);
  } else if (!was_lost &&
             boundaries_.IsNew(hash, std::nullopt, watching_.in_pass())) {
    return LeaveOut(op, hash, kNew);
  }
  // No trace begins with what eager runs: of a model that is brought to the
  // device, nothing would be replayed.
  if (op.by_eager && mode_ == Mode::kBoundary) {
    return RunCut(op, hash, kFromHost);
  }
  return mode_ == Mode::kBoundary ? EnterHead(op, words)
                                  : Watch(op, words, std::nullopt, nullptr);
}

Action StreamSession::EnterHead(const OpView& op,
                                const cache::Signature& words) {
  if (sleep_.wanted() || sleep_.skips()) [[unlikely]]
    return Sleep();
  if (opened_ != nullptr) opened_->store(true, std::memory_order_relaxed);
  if (policy_ == base::Policy::kMeasured) {
    const Profit::Duration saved = timer_.NextHead(clock_.Now());
    sleep_.Earn(saved);
    learning_.Earn(saved);
  }
  const uint64_t head = HeadOf(words.lo);
  TraceEntry* const expected = boundaries_.Choose(head, op.operands);
  if (expected != nullptr && boundaries_.BeginsRun(*expected)) [[unlikely]]
    life_.JoinRun(expected);
  if (expected != nullptr) {
    boundaries_.KnowAgain();
  } else if (boundaries_.lost()) {
    boundaries_.PassLost();
    return Action::kEager;
  }
  switch (choice_.Choose(expected, op)) {
    case PassChoice::Next::kWatching:
      break;
    case PassChoice::Next::kPassing:
      return Pass();
    case PassChoice::Next::kValidating:
      mode_ = Mode::kValidating;
      return Observe();
    case PassChoice::Next::kReplaying:
      mode_ = Mode::kReplaying;
      allocator_wait_.BeginFollowing();
      return Follow();
  }
  return Watch(op, words, head, expected);
}

uint64_t StreamSession::HeadOf(uint64_t hash) const {
  // Elsewhere such an op may be in a trace's middle, or begin a loop. What is
  // learned of where such traces end does not hold for a pass.
  constexpr uint64_t kOfPass = 0x9e3779b97f4a7c15;
  const bool begins_pass =
      watching_.in_pass() && edges_.IsFirst(journal_.stats.ops);
  return begins_pass ? hash ^ kOfPass : hash;
}

Action StreamSession::Watch(const OpView& op, const cache::Signature& words,
                            std::optional<uint64_t> head,
                            TraceEntry* expected) {
  if (head.has_value()) {
    watching_.Begin(op, *head, *head ^ words.lo, expected);
    mode_ = Mode::kWatching;
  }
  if (!watching_.Takes(op)) return RunCut(op, words.lo, kWritesOutside);
  watching_.Enter(op, words);
  return Observe();
}

Action StreamSession::Follow() {
  followed_ = &replay_.followed();
  ++journal_.stats.followed;
  if (replay_.over()) [[unlikely]]
    EndFollowed();
  return followed_->by_eager ? Action::kEager : Action::kFollow;
}

Session::Following StreamSession::following() const {
  if (mode_ != Mode::kReplaying) {
    return {.followed = journal_.stats.followed};
  }
  return {.program = replay_.program(),
          .next_op = replay_.cursor(),
          .followed = journal_.stats.followed};
}

uint32_t StreamSession::FollowUnseen(
    const Unseen& ops, const std::function<void(uint32_t)>& passed) {
  const bool tell = writes_ != nullptr && writes_->several();
  if (mode_ != Mode::kReplaying || (tell && !ops.told) ||
      replay_.program().get() != ops.program ||
      replay_.cursor() != ops.next_op || !replay_.Tell(ops.ops, ops.operands)) {
    return 0;
  }
  const uint32_t followed = replay_.FollowUnseen(ops.ops, ops.taken, passed);
  Stats& stats = journal_.stats;
  const uint64_t looks = stats.ops / Attention::kOps;
  stats.ops += followed;
  stats.followed += followed;
  stats.unshown += followed;
  if (stats.ops / Attention::kOps != looks) LookAtWholeStream();
  if (replay_.over()) EndFollowed();
  return followed;
}

void StreamSession::EndFollowed() {
  EndReplay();
  if (timer_.runs()) timer_.End(clock_.Now());
}

Action StreamSession::Observe() {
  observed_ = entered_;
  return Action::kObserve;
}

Action StreamSession::Pass() {
  const bool over = passing_.over();
  if (over) learning_.Passed(passing_.entry());
  mode_ = over && !timer_.runs() ? Mode::kBoundary : Mode::kPassing;
  // The last op's end is the pass's.
  return over && timer_.runs() ? Observe() : Action::kEager;
}

Action StreamSession::RunCut(const OpView& op, uint64_t hash,
                             std::string_view reason) {
  const Action action = LeaveOut(op, hash, reason);
  boundaries_.CutPassed(hash);
  return action;
}

Action StreamSession::LeaveOut(const OpView& op, uint64_t hash,
                               std::string_view reason) {
  NoteCut(op, reason);
  NoteGap();
  Close(Ending::kByCut);
  boundaries_.LeftOut(hash);
  edges_.Note(journal_.stats.ops);
  return Action::kCut;
}

void StreamSession::NoteGap() {
  if (policy_ == base::Policy::kMeasured && !timer_.in_gap()) {
    timer_.Cut(clock_.Now());
  }
}

void StreamSession::NoteCut(const OpView& op, std::string_view reason) {
  // It is about to end there.
  if (mode_ == Mode::kWatching) journal_.last_trace = watching_.signature().lo;
  if (journal_.CountCut(op.op, reason) &&
      base::LogEnabled(base::LogLevel::kDebug)) {
    base::Log(base::LogLevel::kDebug,
              "cut: " + engine::NameOf(*frontend_, op.op) + ": " +
                  std::string(reason));
  }
}

void StreamSession::Leave(const OpView& op, std::span<const ResultView> results,
                          std::unique_ptr<engine::Call> call) {
  // An op that overlapped with another one is no longer waited for.
  if (observed_ != op.words.data()) return;
  observed_ = nullptr;
  if (learning_.recording()) learning_.recorder()->GiveCall(std::move(call));
  if (mode_ == Mode::kValidating) {
    if (!validation_.Leave(op, results) || validation_.over()) {
      mode_ = Mode::kBoundary;
    }
  } else if (mode_ == Mode::kWatching) {
    if (!watching_.Leave(op, results)) {
      Discard();
      boundaries_.CutPassed(watching_.hash());
    } else if (watching_.Ends()) {
      Close(Ending::kByItself);
    }
  } else if (mode_ == Mode::kPassing) {
    mode_ = Mode::kBoundary;
    timer_.End(clock_.Now());
  }
}

void StreamSession::Abandon(const OpView& abandoned) {
  if (observed_ != abandoned.words.data()) return;
  OpView op = abandoned;
  observed_ = nullptr;
  if (mode_ == Mode::kPassing) {  // by eager, as if nobody had looked
    mode_ = Mode::kBoundary;
    return;
  }
  if (mode_ == Mode::kValidating) {
    validation_.Leaving();
    mode_ = Mode::kBoundary;
  }
  const uint64_t hash = numbers_.Apply(op).lo;
  boundaries_.cuts().LearnForNow(hash, kAbandoned);
  boundaries_.LeftOut(hash);
  NoteCut(op, kAbandoned);
  Discard();
}

bool StreamSession::BeginPass() {
  if (mode_ == Mode::kAway || edges_.in_pass()) return false;
  // Else what came before may belong to it: an eager model with a region in it
  // is one trace.
  const bool follows_on =
      edges_.IsAt(journal_.stats.ops) && observed_ == nullptr;
  if (follows_on && mode_ == Mode::kWatching && watching_.MayEndHere()) {
    Close(Ending::kByItself);
  }
  if (follows_on && mode_ == Mode::kBoundary) boundaries_.KnowAgain();
  watching_.BeginPass();
  edges_.BeginPass(journal_.stats.ops);
  return true;
}

void StreamSession::EndPass() {
  if (!edges_.in_pass()) return;
  ForgetPass();
  edges_.Note(journal_.stats.ops);
}

void StreamSession::ForgetPass() {
  edges_.EndPass();
  watching_.EndPass();
}

bool StreamSession::Interrupt(const char* what) {
  const Locked lock(*this);
  return CutWithoutOp(what);
}

void StreamSession::InterruptUnlessAt(const uint64_t* words, const char* what) {
  const Locked lock(*this);
  if (observed_ != words) CutWithoutOp(what);
}

void StreamSession::Tell(uint64_t question, const std::string& place) {
  // Whoever tells may have locks that the one who is inside waits for.
  if (!TryLock()) return;
  journal_.places.Tell(question, place);
  Unlock();
}

void StreamSession::InterruptIfUsed(const MemoryRanges& memory,
                                    const char* what) {
  const Locked lock(*this);
  if (mode_ != Mode::kReplaying && mode_ != Mode::kValidating) return;
  if (in_use_.instance->binding().Uses([&memory](uint64_t begin, uint64_t end) {
        return memory.Overlap(begin, end);
      })) {
    CutWithoutOp(what);
  }
}

void StreamSession::EndPrivacy() {
  const Locked lock(*this);
  if (mode_ == Mode::kReplaying &&
      !in_use_.instance->plan().effects().privates().empty()) {
    CutWithoutOp("another stream has begun");
  }
}

bool StreamSession::CutWithoutOp(const char* what) {
  allocator_wait_.SetMayAllocate(false);  // as at an op
  if (mode_ == Mode::kAway) return false;
  const uint64_t words[] = {engine::kNoOp, std::hash<std::string_view>{}(what)};
  boundaries_.Part();
  NoteGap();
  if (mode_ == Mode::kBoundary && observed_ == nullptr) {
    boundaries_.CutPassed(cache::HashWords(words).lo);
    edges_.Note(journal_.stats.ops);
    return false;
  }
  const uint64_t squashes = journal_.stats.squashes;
  OpView look;
  look.op = engine::kNoOp;
  look.words = words;
  look.cut = what;
  Enter(look);
  edges_.Note(--journal_.stats.ops);
  return journal_.stats.squashes != squashes;
}

// --- Passes end ------------------------------------------------------------

void StreamSession::Close(Ending ending) {
  if (mode_ != Mode::kWatching) return;
  mode_ = Mode::kBoundary;
  watching_.Close(ending);
}

void StreamSession::Discard() {
  watching_.Drop();
  if (mode_ == Mode::kWatching || mode_ == Mode::kPassing) {
    mode_ = Mode::kBoundary;
  }
}

void StreamSession::EndReplay() {
  mode_ = Mode::kBoundary;
  allocator_wait_.EndFollowing();
}

void StreamSession::Break() {
  if (mode_ == Mode::kReplaying) {
    replay_.Leaving();
    EndReplay();
  } else if (mode_ == Mode::kValidating) {
    validation_.Leaving();
    mode_ = Mode::kBoundary;
  }
  observed_ = nullptr;
  Discard();
  boundaries_.Break();
}

// --- Whether the stream is worth looking at --------------------------------

Action StreamSession::Sleep() {
  sleep_.Begin();
  return Action::kCut;
}

void StreamSession::PassOver(uint64_t ops) {
  const Locked lock(*this);
  journal_.stats.ops += ops;
  LookAtWholeStream();
}

void StreamSession::ShowAll() {
  const Locked lock(*this);
  sleep_.NotAlone();
}

void StreamSession::LookAtWholeStream() {
  if (policy_ != base::Policy::kMeasured) return;
  const Stats& stats = journal_.stats;
  const char* why = sleep_.Look({.replayed = stats.followed,
                                 .traces = stats.traces,
                                 .known = life_.known_ops(),
                                 .promising = life_.promising_ops()},
                                clock_.Now());
  if (why == nullptr) return;
  boundaries_.Break();
  ++journal_.notes[why];
}

// --- From other threads ----------------------------------------------------

void StreamSession::Settle() {
  const Locked lock(*this);
  life_.Settle();
}

void StreamSession::Pause() {
  const Locked lock(*this);
  if (observed_ == nullptr &&
      (mode_ == Mode::kWatching || mode_ == Mode::kBoundary)) {
    // What is open ends like this the next time, too, and whoever pauses
    // between two passes goes on with the next one.
    Close(Ending::kByCut);
    boundaries_.Part();
  } else {
    allocator_wait_.SetMayAllocate(false);  // as at an op
    Break();
  }
  mode_ = Mode::kAway;
  ForgetPass();
  edges_.Note(journal_.stats.ops);
  clock_.Stop();
}

void StreamSession::Resume() {
  const Locked lock(*this);
  if (mode_ == Mode::kAway) mode_ = Mode::kBoundary;
  clock_.GoOn();
}

void StreamSession::StopRecording() {
  const Locked lock(*this);
  learning_.DropRecording();
}

void StreamSession::Reset() {
  const Locked lock(*this);
  allocator_wait_.SetMayAllocate(false);  // as at an op
  Break();
  in_use_ = PlanInUse{};
  life_.Clear();
  boundaries_.Clear();
  ForgetPass();
  numbers_.Clear();
  watching_.Forget();
  timer_ = PassTimer{};
  sleep_.Reset();
  journal_.Clear();
  edges_.Note(0);
  releases_.store(0, std::memory_order_relaxed);
}

uint64_t StreamSession::ReleasePlans() {
  if (TryLock()) {
    PlanInUse unpinned;
    if (mode_ != Mode::kReplaying && mode_ != Mode::kValidating) {
      unpinned = std::exchange(in_use_, PlanInUse{});
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
    if (!allocator_wait_.MayWait()) return;
    std::this_thread::yield();
  }
  if (mode_ == Mode::kReplaying && replay_.LeaveIfMemoryGoes()) EndReplay();
  Unlock();
}

std::shared_ptr<const engine::Program> StreamSession::FindProgram(
    std::string_view signature) {
  const Locked lock(*this);
  std::shared_ptr<const engine::Program> program;
  uint64_t most = 0;
  for (const TraceEntry* entry : life_.entries()) {
    if (entry->signature.ToHex() != signature) continue;
    if (program != nullptr && entry->replays <= most) continue;
    const PlanCache::Pin plan = plans_->Lookup({entry->build, this});
    if (!plan) continue;
    program = (*plan)->program();
    most = entry->replays;
  }
  return program;
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
  journal_.stats.saved_us = static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(sleep_.saved())
          .count());
  journal_.stats.trace_bytes = life_.counted_bytes();
  journal_.stats.forgotten = life_.forgotten() + boundaries_.forgotten() +
                             numbers_.forgotten() + journal_.forgotten();
  read(journal_, life_.entries(), *frontend_);
}

}  // namespace reprise::scheduler
