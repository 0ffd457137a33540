#include "scheduler/watching.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "engine/replay/outside_writes.h"
#include "engine/trace/trace.h"
#include "scheduler/trace_table.h"

namespace reprise::scheduler {

using engine::OpView;
using engine::ResultView;
using State = TraceEntry::State;

namespace {

// A head that comes again sooner than this does not end a trace: parallel ops
// on one input (queries, keys and values) look alike.
constexpr uint32_t kShortestRepetition = 4;

constexpr char kWarns[] = "warned the program when it was watched";

}  // namespace

Watching::Watching(const Parts& parts)
    : work_(*parts.work),
      options_(*parts.options),
      journal_(*parts.journal),
      boundaries_(*parts.boundaries),
      learning_(*parts.learning),
      life_(*parts.life),
      externals_(parts.frontend),
      loops_(&parts.boundaries->loop_code()) {}

void Watching::Begin(const OpView& op, uint64_t hash, uint64_t kind,
                     TraceEntry* expected) {
  open_.Clear(kind);
  externals_.Clear();
  loops_.Clear();
  body_is_due_ = false;
  goes_on_until_ = 0;
  head_.hash = hash;
  head_.behind = boundaries_.behind();
  head_.of_pass = in_pass_;
  op_hashes_.clear();
  head_.storages.clear();
  for (const engine::Operand& operand : op.operands) {
    head_.storages.push_back(operand.storage);
  }
  promised_ = expected_ = expected;
  learning_.StartWatching();
  if (expected == nullptr) journal_.places.MeetHead(hash);
}

// --- Where it ends -----------------------------------------------------------

bool Watching::IsExpected(uint64_t hash) const {
  if (expected_ == nullptr) return false;
  const std::vector<uint64_t>& hashes = expected_->known_ops.hashes();
  return open_.ops() < hashes.size() && hashes[open_.ops()] == hash;
}

bool Watching::EndsBefore(const OpView& op, uint64_t hash) {
  if (!BeginsTrace(op, hash)) {
    return EndsAtForeignWork() || EndsAtUnseenBytes(op);
  }
  loops_.Learn(op);
  return true;
}

bool Watching::BeginsTrace(const OpView& op, uint64_t hash) {
  if (open_.ops() < goes_on_until_) return false;
  if (IsJoined()) return false;
  if (in_pass_) {
    body_is_due_ |= loops_.Repeats();
    return false;
  }
  if (loops_.Repeats() || body_is_due_) return true;
  const bool enough = open_.ops() >= kShortestRepetition;
  if (hash == head_.hash) {
    const Heads::Likeness likeness =
        Heads::Compare(op.operands, head_.storages, open_);
    const bool some = likeness.some(IsBehind(head_.behind));
    if (likeness.all() || (enough && some)) return true;
    if (enough && op.operands.empty() && loops_.ComesRound(hash)) {
      return true;
    }
  }
  const bool hopeless =
      expected_ != nullptr && expected_->state == State::kGivenUp;
  if ((!enough && !hopeless) || (IsPromised() && MayComeNext(hash))) {
    return false;
  }
  if (loops_.BodyIsOver() || loops_.BeginsBody(op, open_)) return true;
  for (const Heads::Head& head : boundaries_.Find(hash)) {
    const bool is_known = head.entry->state >= State::kConfirm ||
                          boundaries_.EndsAt(head.entry->signature);
    if (is_known && head.entry->state <= State::kReady &&
        Heads::Compare(op.operands, head.storages, open_)
            .some(IsBehindOneOf(head.behind))) {
      return true;
    }
  }
  return false;
}

// Where it is not known behind what the head came it may have come behind this:
// passes may follow each other, and this is the second one.
bool Watching::IsBehind(uint64_t op) const { return op == 0 || op == hash_; }

bool Watching::IsBehindOneOf(std::span<const uint64_t> ops) const {
  return ops.empty() || std::ranges::find(ops, hash_) != ops.end();
}

bool Watching::Awaits() const {
  return expected_ != nullptr && expected_->state != State::kGivenUp &&
         open_.ops() < expected_->ops;
}

// While the trace that the head promised may still come, other heads are ops in
// its middle. One that came once promises nothing: it may have been two in a
// row. One that was given up is not waited for.
bool Watching::IsPromised() const {
  return Awaits() && expected_->seen > 1 && MayBecome(*expected_);
}

bool Watching::MayComeNext(uint64_t hash) const {
  return !expected_->known_ops.known() || IsExpected(hash);
}

// What was joined has heads in its middle, its own one perhaps.
bool Watching::IsJoined() const {
  return Awaits() && expected_->joined.is_joined() && MayBecome(*expected_);
}

bool Watching::EndsAtForeignWork() {
  if (!learning_.recording()) return false;
  const std::optional<std::string> call = work_.TakeForeignWork();
  if (!call.has_value()) return false;
  journal_.CountCut(engine::kNoOp, *call + " between two ops");
  boundaries_.EndedAt(open_.signature());
  return true;
}

bool Watching::EndsAtUnseenBytes(const OpView& op) {
  if (!learning_.recording()) return false;
  const char* why = learning_.recorder()->WhyReadsUnseen(op, open_);
  if (why == nullptr) return false;
  journal_.CountCut(op.op, why);
  boundaries_.EndAt(open_.signature());
  return true;
}

bool Watching::MayBecome(const TraceEntry& entry) const {
  if (open_.ops() > entry.ops) return false;
  if (open_.ops() == entry.ops) return open_.signature() == entry.signature;
  // One that has no recording tells less of its middle.
  const engine::Trace* recording = entry.first.get();
  std::shared_ptr<const engine::Trace> planned;
  if (recording == nullptr) {
    planned = entry.planned.lock();
    recording = planned.get();
  }
  if (recording != nullptr) {
    return recording->ops[open_.ops()].before == open_.signature();
  }
  // Then its words may.
  return !entry.known_ops.known() || open_.ops() == 0 ||
         entry.known_ops.hashes()[open_.ops() - 1] == hash_;
}

bool Watching::MayEndHere() const {
  return open_.ops() >= goes_on_until_ && !IsJoined() &&
         (head_.of_pass || !IsPromised());
}

bool Watching::Ends() {
  if (open_.ops() >= options_.max_trace_ops) return true;
  if (open_.ops() <= goes_on_until_) return open_.ops() == goes_on_until_;
  if (expected_ != nullptr && open_.ops() <= expected_->ops &&
      !MayBecome(*expected_)) {
    // It is another one of those that begin like this, perhaps.
    for (const Heads::Head& head : boundaries_.Find(head_.hash)) {
      const TraceEntry& other = *head.entry;
      const bool known = other.first != nullptr || !other.planned.expired() ||
                         open_.ops() == other.ops;
      if (known && MayBecome(other)) expected_ = head.entry;
    }
  }
  if (learning_.recording() && learning_.bounded() && RecordsInVain()) {
    learning_.Miss(promised_);
  }
  const bool whole = expected_ != nullptr && IsWhole(*expected_);
  if (whole && expected_->joined.goes_on_for() > 0) {
    goes_on_until_ = open_.ops() + expected_->joined.goes_on_for();
    return false;
  }
  const bool ends_body = loops_.BodyIsOver() &&
                         open_.ops() >= kShortestRepetition && !IsPromised() &&
                         !IsJoined();
  return whole || ends_body || boundaries_.EndsAt(open_.signature());
}

bool Watching::RecordsInVain() const {
  if (promised_ == nullptr || MayBecome(*promised_)) return false;
  return std::ranges::none_of(
      boundaries_.Find(head_.hash), [this](const Heads::Head& head) {
        return learning_.IsFor(*head.entry) && MayBecome(*head.entry);
      });
}

bool Watching::TakesOutside(const OpView& op) const {
  return std::ranges::all_of(op.operands, [this](const engine::Operand& one) {
    return !one.written || open_.Owns(one) || engine::CanCopy(one);
  });
}

// --- Op by op ----------------------------------------------------------------

void Watching::Enter(const OpView& op, const cache::Signature& words) {
  hash_ = words.lo;
  op_hashes_.push_back(hash_);
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
  if (learning_.recording()) {
    const base::Status entered = learning_.recorder()->Enter(
        op, words, before, operands, open_.values());
    if (!entered) [[unlikely]]
      learning_.PauseRecording(entered.error().message());
  }
  if (in_pass_ && ++ops_of_pass_ >= kLongPass) EndPass();
  if (EndsWithPass()) {
    loops_.LeaveBody();
    return;
  }
  if (expected_ == nullptr || open_.ops() > expected_->ops) {
    loops_.Add(op, hash_, operands, open_);
  }
  loops_.FollowBody(op, open_);
}

bool Watching::Leave(const OpView& op, std::span<const ResultView> results) {
  std::string refusal;
  bool is_trial = false;
  const std::span<const engine::ValueId> values =
      open_.Leave(results, op.by_eager);
  if (!learning_.recording()) learning_.Watch(open_.ops());
  if (learning_.recording()) {
    refusal = learning_.recorder()->Leave(op, results, values, open_.values());
    learning_.OpEnded();
    if (refusal.empty()) {
      tried_.Put(hash_, kTrials).Renew();
    } else if (op.may_try_kernels || tried_.Find(hash_) != nullptr) {
      is_trial = tried_.Put(hash_, kTrials).Take();
    }
  }
  // What eager runs always warns where it stands.
  if (refusal.empty() && op.warned && !op.by_eager) {
    boundaries_.cuts().LearnForNow(hash_, kWarns);
    journal_.CountCut(op.op, kWarns);
    return false;
  }
  if (refusal.empty()) {
    boundaries_.cuts().Tried(hash_);
    return true;
  }
  if (!is_trial) boundaries_.cuts().Learn(hash_, refusal);
  journal_.CountCut(op.op, refusal);
  return false;
}

// --- Its end -----------------------------------------------------------------

void Watching::Close(Ending ending) {
  if (ending == Ending::kByCut) loops_.Forget();
  TraceEntry* promised = std::exchange(promised_, nullptr);
  TraceEntry* expected = std::exchange(expected_, nullptr);
  if (open_.ops() == 0) {
    learning_.Stop();
    return;
  }
  if (promised != nullptr && promised->signature != open_.signature() &&
      (ending == Ending::kByItself || open_.ops() >= promised->ops)) {
    promised->BrokePromise();
  }
  TraceEntry* entry = life_.EntryFor(
      {open_.signature(), open_.ops(), head_.hash, std::move(externals_)});
  if (goes_on_until_ > 0) EndJoin(expected, entry);
  if (expected != nullptr && expected != entry && expected->joined.is_run() &&
      expected->signature == entry->signature) {
    // Each time round on another input: so would each run be another trace.
    life_.ComeApart(expected,
                    "comes on other memory: its parts are traces again");
  }
  life_.PassEnded(entry);
  boundaries_.Closed(head_.hash, entry, head_.storages, head_.behind, hash_);
  if (learning_.recording()) {
    // Of whichever trace it has become.
    const bool kept = learning_.IsFor(*entry);
    if (kept) {
      life_.Keep(entry, learning_.recorder()->Finish(open_.signature()));
    }
    learning_.StopRecording(*entry, promised, kept);
  } else {
    learning_.StopWatching(entry);
    learning_.Passed(*entry);
  }
  if (entry->seen > 1 && !entry->known_ops.known()) {
    entry->known_ops.Know(op_hashes_);
  }
  // A single op is worth it only if it launches much: it is recorded late.
  if ((entry->ops > 1 || entry->seen > 1) && learning_.IsWorthIt(*entry)) {
    life_.WantRecording(entry);
  }
  life_.CountAndTrim(entry);
}

void Watching::EndJoin(TraceEntry* beginning, TraceEntry* entry) {
  Joined::Parts parts = beginning->joined.StopGoingOn();
  if (open_.ops() != goes_on_until_) return;  // a cut came
  if (entry->state == State::kGivenUp) {
    boundaries_.EndAt(beginning->signature);
    return;
  }
  entry->joined.Become(beginning->signature, beginning->joined,
                       std::move(parts));
  boundaries_.Succeed(*beginning, entry);
}

void Watching::Drop() {
  learning_.Stop();
  promised_ = expected_ = nullptr;
  loops_.Forget();
}

}  // namespace reprise::scheduler
