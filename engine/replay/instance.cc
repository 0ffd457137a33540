#include "engine/replay/instance.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "engine/replay/again.h"

namespace reprise::engine {
namespace {

// What makes right what the program has seen of a replay.
template <typename Run>
base::Status MakeRight(Run run) {
  return Again(run, "at the end of a replay",
               "what the program has seen of a replay could not be made right");
}

}  // namespace

Instance::Instance(PlanCore* plan, InstanceParts parts)
    : plan_(plan),
      program_(plan->program().get()),
      trace_(program_->trace.get()),
      parts_(std::move(parts)),
      ledger_(parts_.shared != nullptr
                  ? std::move(parts_.shared)
                  : Ledger::Create(std::move(parts_.arena),
                                   trace_->values.size(), parts_.device)),
      tenant_(ledger_->Join()),
      binding_(program_, std::move(parts_.places), parts_.executor.get()),
      fresh_(trace_->values.size()),
      externals_(program_->segments.size()),
      values_(program_->segments.size()),
      watched_(trace_->values.size(), false) {
  for (ValueId v = 0; v < trace_->values.size(); ++v) {
    if (trace_->values[v].external && !program_->effects.input(v)) {
      lasting_.push_back(v);
    }
    if (program_->effects.late(v)) {
      late_births_.push_back(trace_->values[v].birth_op);
    }
  }
  std::ranges::sort(late_births_);
  for (const ValueId v : program_->effects.privates()) {
    takings_.push_back(binding_.Taking(v));
  }
  eager_allocates_ = std::ranges::any_of(trace_->ops, &TracedOp::by_eager);
  NoteTouched();
  NoteNeighbours();
}

void Instance::NoteTouched() {
  std::vector<size_t> noted(trace_->values.size(), ~size_t{0});  // the segment
  // Private ones are taken at the beginning.
  for (const ValueId v : program_->effects.privates()) {
    noted[v] = 0;
    externals_[0].push_back(v);
  }
  for (size_t s = 0; s < program_->segments.size(); ++s) {
    const Segment& segment = program_->segments[s];
    for (uint32_t k = segment.first_op; k < segment.end_op; ++k) {
      for (const ValueRef& operand : trace_->ops[k].operands) {
        const ValueId v = operand.value;
        const Value& value = trace_->values[v];
        if (program_->effects.input(v) && k > value.birth_op)
          watched_[v] = true;
        // Operands of the op at which the segment is launched are alive.
        const bool at_hand = value.birth_op == segment.first_op &&
                             (s == 0 || program_->effects.late(v));
        const bool own = !value.external && value.birth_op >= segment.first_op;
        if (at_hand || own || noted[v] == s) continue;
        noted[v] = s;
        (value.external ? externals_ : values_)[s].push_back(v);
      }
    }
  }
}

void Instance::NoteNeighbours() {
  neighbours_.resize(trace_->values.size());
  followers_.resize(program_->segments.size());
  std::vector<ValueId> by_place = plan_->outputs();
  std::ranges::sort(by_place, {},
                    [this](ValueId v) { return binding_.origin(v); });
  for (size_t i = 0; i < by_place.size(); ++i) {
    const ValueId v = by_place[i];
    const uint64_t end = binding_.origin(v) + program_->place_bytes[v];
    for (size_t j = i + 1;
         j < by_place.size() && binding_.origin(by_place[j]) < end; ++j) {
      neighbours_[v].push_back(by_place[j]);
      neighbours_[by_place[j]].push_back(v);
    }
  }
  size_t s = 0;
  for (ValueId v = 0; v < neighbours_.size(); ++v) {
    if (neighbours_[v].empty()) continue;
    std::ranges::sort(neighbours_[v]);
    // Values are numbered in the order in which they come.
    while (program_->segments[s].end_op <= trace_->values[v].birth_op) ++s;
    if (neighbours_[v].front() < v) followers_[s].push_back(v);
  }
}

base::Status Instance::TakePrivates() {
  return takings_.empty() ? base::Status() : parts_.executor->CopyAll(takings_);
}

// A value whose storage is gone may be seen through another one (DLPack), and
// nobody has taken its memory in a pass in which eager allocates nothing: the
// session's ops are all that take memory in the order of its stream.
std::vector<kernels::RangeCopy> Instance::Given(uint32_t end_op) const {
  std::vector<kernels::RangeCopy> copies;
  for (const ValueId v : program_->effects.PrivatesWrittenBefore(end_op)) {
    if (eager_allocates_ && !binding_.Stands(v)) continue;
    const kernels::RangeCopy taking = binding_.Taking(v);
    copies.push_back({taking.from, taking.to, taking.bytes});
  }
  return copies;
}

base::Status Instance::GivePrivates() {
  const std::vector<kernels::RangeCopy> copies = Given(kNoLaunch);
  if (copies.empty()) return {};
  return MakeRight([&] { return parts_.executor->CopyAll(copies); });
}

void Instance::GoOnDrawing(uint32_t draw) {
  const std::span<const engine::Draw> ahead = program_->effects.draws().ahead();
  next_draw_ = draw;
  next_draw_op_ = draw < ahead.size() ? ahead[draw].op : kNoLaunch;
  next_stop_op_ = std::min(next_launch_op_, next_draw_op_);
}

bool Instance::Draw() {
  const uint64_t increment =
      program_->effects.draws().ahead()[next_draw_].increment;
  const GeneratorState& at = binding_.generator(next_draw_);
  if (!trace_->frontend->MoveGenerator(at, at.After(increment))) return false;
  GoOnDrawing(next_draw_ + 1);
  return true;
}

void Instance::TakeBackDraw() {
  GoOnDrawing(next_draw_ - 1);
  const uint64_t increment =
      program_->effects.draws().ahead()[next_draw_].increment;
  const GeneratorState& at = binding_.generator(next_draw_);
  // Where others have used it meanwhile, they have used what lies behind.
  (void)trace_->frontend->MoveGenerator(at.After(increment), at);
}

bool Instance::DrawsBesideEager() {
  if (trace_->frontend->Generator() != binding_.generator(next_draw_)) {
    return false;
  }
  GoOnDrawing(next_draw_ + 1);
  return true;
}

bool Instance::DrewBesideEager(uint32_t op) const {
  if (next_draw_ == 0) return true;
  const engine::Draw& last = program_->effects.draws().ahead()[next_draw_ - 1];
  return last.op != op ||
         trace_->frontend->Generator() ==
             binding_.generator(next_draw_ - 1).After(last.increment);
}

void Instance::Shadow(ValueId value, const StoragePlace& place) {
  holds_->Watch(place.storage);
  binding_.Shadow(value, place);
}

void Instance::BindExternal(const ValueRef& ref, const Operand& operand) {
  // The trace's own storages are weakly held by it.
  if ((watched_[ref.value] || !program_->effects.input(ref.value)) &&
      operand.storage != trace_->values[ref.value].storage) {
    holds_->Watch(operand.storage);
  }
  binding_.BindExternal(ref, operand);
}

Instance::Readiness Instance::BindNumbers(uint32_t index, const OpView& op) {
  switch (binding_.BindNumbers(index, op)) {
    case Executor::Fit::kBound:
      break;
    case Executor::Fit::kUntold:
      return Readiness::kUntold;
    case Executor::Fit::kOutside:
      return Readiness::kOtherOp;
  }
  return Readiness::kReady;
}

Instance::Readiness Instance::BindDraws(uint32_t source) {
  return binding_.BindDraws(source) ? Readiness::kReady : Readiness::kElsewhere;
}

bool Instance::HeadIsApart(const OpView& head) const {
  for (size_t i = 0; i < head.operands.size(); ++i) {
    if (!binding_.Apart(head.operands[i], trace_->ops[0].operands[i].value,
                        plan_->escaping())) {
      return false;
    }
  }
  return true;
}

bool Instance::Tell(uint32_t cursor, uint32_t end_op,
                    std::span<const KnownOperand> operands) {
  ForgetTold();
  for (const KnownOperand& operand : operands) {
    const ValueId v = operand.ref.value;
    const uint32_t birth = trace_->values[v].birth_op;
    const bool tells = program_->effects.late(v) && birth >= cursor &&
                       birth < end_op &&
                       std::ranges::find(told_, v) == told_.end();
    if (tells) {
      unproven_.clear();
      NoteIfUnproven(operand.ref, operand.at);
      if (!unproven_.empty() ||
          !binding_.Apart(operand.at, v, plan_->escaping())) {
        return false;
      }
      BindExternal(operand.ref, operand.at);
      told_.push_back(v);
    } else if (!binding_.IsAt(operand.ref, operand.at.storage,
                              operand.at.address())) {
      return false;
    }
  }
  const auto late = [this](uint32_t op) {
    return std::ranges::lower_bound(late_births_, op) - late_births_.begin();
  };
  if (late(end_op) - late(cursor) != std::ssize(told_)) return false;
  told_end_ = end_op;
  return true;
}

bool Instance::Secure() {
  return Secure(next_segment_, next_segment_ + 1, kNoLaunch);
}

bool Instance::Secure(size_t first, size_t end, uint32_t cursor) {
  if (broken()) return false;
  touched_.clear();
  for (size_t s = first; s < end; ++s) {
    for (const ValueId v : externals_[s]) {
      touched_.push_back(binding_.place(v));
    }
    if (plan_->escaping().empty()) continue;
    for (const ValueId v : values_[s]) {
      if (trace_->values[v].birth_op >= cursor) continue;
      const StoragePlace& place = binding_.place(v);
      if (place.storage != nullptr) touched_.push_back(place);
    }
  }
  return touched_.empty() || holds_->Hold(touched_);
}

bool Instance::Stands() const {
  if (broken()) return false;
  const auto stands = [this](ValueId v) { return binding_.Stands(v); };
  return std::all_of(lasting_.begin(), lasting_.end(), stands) &&
         std::all_of(plan_->escaping().begin(), plan_->escaping().end(),
                     stands);
}

void Instance::Own(ValueId value, StorageToken storage) {
  // Behind the last op nothing is touched any more.
  if (holds_ == nullptr || !plan_->escapes(value)) return;
  holds_->Watch(storage);
  binding_.Own(value, {storage, binding_.origin(value)});
}

Instance::Readiness Instance::Resolve(const OpView& head, StorageHolds& holds) {
  holds_ = &holds;
  Readiness readiness = ResolveHead(head);
  if (readiness == Readiness::kReady) readiness = ResolveOthers();
  if (readiness == Readiness::kReady) {
    moved_in_ = !ledger_->IsIn(tenant_);
    if (!ledger_->Enter(tenant_)) readiness = Readiness::kOccupied;
  }
  if (readiness == Readiness::kReady) readiness = ResolveOutputs();
  // Behind it: a place that was found free may have been lent until just now,
  // and its borrowers are told of before it is free.
  if (readiness == Readiness::kReady && !WaitForBorrowers()) {
    readiness = Readiness::kNoMemory;
  }
  if (readiness == Readiness::kReady &&
      (binding_.MovesOntoWrites(head) || !HeadIsApart(head))) {
    readiness = Readiness::kOtherOp;
  }
  next_segment_ = 0;
  launched_ops_ = 0;
  next_launch_op_ = kNoLaunch;
  GoOnDrawing(0);
  if (readiness != Readiness::kReady) Finish();
  return readiness;
}

bool Instance::WaitForBorrowers() {
  std::optional<std::vector<device::UniqueEvent>> uses = ledger_->TakeUses();
  if (!uses.has_value()) return false;
  for (const device::UniqueEvent& use : *uses) {
    if (parts_.executor->WaitFor(use.get())) continue;
    ledger_->ReturnUses(*std::move(uses));
    return false;
  }
  return true;
}

Instance::Readiness Instance::ResolveHead(const OpView& head) {
  if (!binding_.SameWords(0, head)) {
    return binding_.OtherNumbers(0, head) ? Readiness::kUntold
                                          : Readiness::kOtherOp;
  }
  const TracedOp& expected = trace_->ops[0];
  unproven_.clear();
  for (size_t i = 0; i < head.operands.size(); ++i) {
    NoteIfUnproven(expected.operands[i], head.operands[i]);
  }
  if (!unproven_.empty()) return Readiness::kUnproven;
  for (size_t i = 0; i < head.operands.size(); ++i) {
    BindExternal(expected.operands[i], head.operands[i]);
  }
  // Another storage than the one that the copy was made for.
  for (size_t i = 0; i < head.operands.size(); ++i) {
    const ValueId v = expected.operands[i].value;
    if (program_->effects.is_private(v) &&
        (binding_.IsMoved(v) ||
         head.operands[i].storage_bytes != trace_->values[v].size_bytes)) {
      if (binding_.IsMoved(v)) unproven_.push_back(v);
      return Readiness::kUnproven;
    }
  }
  // A value that the head uses twice must be one value now as well.
  return Matches(0, head) && binding_.WritesApart(0, head)
             ? BindNumbers(0, head)
             : Readiness::kOtherOp;
}

void Instance::NoteIfUnproven(const ValueRef& ref, const Operand& operand) {
  const uint64_t origin = operand.address() - ref.offset_bytes;
  if (!program_->movable[ref.value] &&
      origin != trace_->values[ref.value].origin) {
    unproven_.push_back(ref.value);
  }
}

Instance::Readiness Instance::ResolveOthers() {
  if (program_->library_frees.may_end() && trace_->frontend->LibraryIsFull())
      [[unlikely]] {
    return Readiness::kReplaced;
  }
  if (broken()) return Readiness::kReplaced;
  if (std::ranges::any_of(plan_->others(), [this](ValueId v) {
        return binding_.IsReplaced(v);
      })) {
    return Readiness::kReplaced;
  }
  return program_->effects.draws().uses_head() ? BindDraws(Draws::kHead)
                                               : Readiness::kReady;
}

std::vector<ValueId> Instance::Replaced() const {
  std::vector<ValueId> replaced;
  std::ranges::copy_if(plan_->others(), std::back_inserter(replaced),
                       [this](ValueId v) { return binding_.IsReplaced(v); });
  return replaced;
}

Instance::Readiness Instance::BindLate(const OpView& op) {
  bound_late_ = false;
  const Segment& segment = program_->segments[next_segment_];
  if (!segment.gated || launched_ops_ > segment.first_op ||
      !binding_.SameWords(segment.first_op, op)) {
    return Readiness::kReady;
  }
  const TracedOp& expected = trace_->ops[segment.first_op];
  const auto told = [&](const ValueRef& ref) {
    return program_->effects.late(ref.value) &&
           trace_->values[ref.value].birth_op == segment.first_op;
  };
  unproven_.clear();
  for (size_t i = 0; i < op.operands.size(); ++i) {
    const ValueRef& ref = expected.operands[i];
    if (!told(ref)) continue;
    if (!binding_.Apart(op.operands[i], ref.value, plan_->escaping())) {
      return Readiness::kOtherOp;
    }
    NoteIfUnproven(ref, op.operands[i]);
  }
  if (!unproven_.empty()) return Readiness::kUnproven;
  for (size_t i = 0; i < op.operands.size(); ++i) {
    const ValueRef& ref = expected.operands[i];
    if (!told(ref)) continue;
    BindExternal(ref, op.operands[i]);
    bound_late_ = true;
  }
  if (!binding_.WritesApart(segment.first_op, op)) return Readiness::kOtherOp;
  const Readiness bound = BindNumbers(segment.first_op, op);
  if (bound != Readiness::kReady) return bound;
  const std::optional<uint32_t> source =
      program_->effects.draws().ToldBy(segment.first_op);
  return source.has_value() ? BindDraws(*source) : Readiness::kReady;
}

Instance::Readiness Instance::ResolveOutputs() {
  for (const ValueId v : outlived_) plan_->Escape(v);
  if (ledger_->leased()) {
    for (ValueId v : plan_->outputs()) {
      if (!ledger_->leased(v)) continue;
      if (!plan_->escapes(v) && !neighbours_[v].empty()) {
        outlived_.push_back(v);
      }
      plan_->Escape(v);
      // Nor may others be written over it.
      for (const ValueId other : neighbours_[v]) plan_->Escape(other);
    }
  }
  for (ValueId v : plan_->escaping()) {
    if (!BindFresh(v)) return Readiness::kNoMemory;
  }
  return Readiness::kReady;
}

base::Status Instance::BindFresh(ValueId value) {
  if (!fresh_[value]) {
    REPRISE_ASSIGN_OR_RETURN(fresh_[value], trace_->frontend->Allocate(
                                                program_->place_bytes[value]));
    ++escapes_;
  }
  binding_.BindOutput(value, fresh_[value].address());
  return {};
}

bool Instance::HasRoomNow() const {
  if (launched_ops_ > program_->segments[next_segment_].first_op) return true;
  return StaysFree(next_segment_, kNoLaunch, {});
}

bool Instance::HasRoom() {
  const std::vector<ValueId>& followers = followers_[next_segment_];
  // Of a launch that got stuck, some have their places already.
  if (followers.empty() ||
      launched_ops_ > program_->segments[next_segment_].first_op) {
    return true;
  }
  const size_t outlived = outlived_.size();
  for (const ValueId v : followers) {
    if (plan_->escapes(v)) continue;
    for (const ValueId other : neighbours_[v]) {
      if (other >= v) break;
      if (ledger_->leased(other)) outlived_.push_back(other);
    }
  }
  // Behind it: see Resolve.
  return outlived_.size() == outlived && WaitForBorrowers();
}

base::Status Instance::LaunchNext() {
  const Segment& segment = program_->segments[next_segment_];
  const uint32_t from = std::max(launched_ops_, segment.first_op);
  Executor::Progress progress =
      parts_.executor->LaunchSegment(next_segment_, from);
  if (progress.status) {
    GoOnFrom(from);
  } else {
    launched_ops_ = progress.end_op;
    next_launch_op_ = progress.end_op;
    next_stop_op_ = std::min(next_launch_op_, next_draw_op_);
  }
  return std::move(progress.status);
}

bool Instance::IsForetold(size_t segment) const {
  const Segment& due = program_->segments[segment];
  const Effects& effects = program_->effects;
  return !due.gated ||
         ((effects.foretold(due.first_op) ||
           (due.first_op < told_end_ && effects.tells_places(due.first_op))) &&
          binding_.WritesApart(due.first_op));
}

bool Instance::StaysFree(size_t segment, uint32_t cursor,
                         std::span<const ValueId> taken) const {
  const auto given_out = [&](ValueId other) {
    return ledger_->leased(other) ||
           (trace_->values[other].birth_op >= cursor &&
            !plan_->escapes(other) && std::ranges::binary_search(taken, other));
  };
  return std::ranges::none_of(followers_[segment], [&](ValueId v) {
    return !plan_->escapes(v) &&
           std::ranges::any_of(neighbours_[v], [&](ValueId other) {
             return other < v && given_out(other);
           });
  });
}

base::Status Instance::LaunchForetold(uint32_t cursor,
                                      const Foretold& foretold) {
  const std::vector<Segment>& segments = program_->segments;
  size_t end = next_segment_ + 1;
  if (launched_ops_ <= segments[next_segment_].first_op) {
    while (end < segments.size() && segments[end].first_op < foretold.end_op &&
           IsForetold(end) && StaysFree(end, cursor, foretold.taken)) {
      ++end;
    }
  }
  if (end > next_segment_ + 1 && !Secure(next_segment_, end, cursor)) {
    end = next_segment_ + 1;
  }
  const uint32_t drawn = next_draw_;
  for (size_t s = next_segment_ + 1; s < end; ++s) {
    while (next_draw_op_ <= segments[s].first_op && s < end) {
      if (!Draw()) end = s;  // that op is to be shown
    }
  }
  if (end == next_segment_ + 1) return LaunchNext();
  Executor::Progress progress = parts_.executor->LaunchSegments(
      next_segment_,
      std::span(segments).subspan(next_segment_, end - next_segment_));
  if (progress.status) {
    next_segment_ = end - 1;
    GoOnFrom(segments[next_segment_].first_op);
    return {};
  }
  while (next_draw_ > drawn) TakeBackDraw();
  launched_ops_ = progress.end_op;
  while (segments[next_segment_].end_op <= launched_ops_) ++next_segment_;
  next_launch_op_ = launched_ops_;
  next_stop_op_ = std::min(next_launch_op_, next_draw_op_);
  return std::move(progress.status);
}

void Instance::GoOnFrom(uint32_t op) {
  const Segment& segment = program_->segments[next_segment_];
  launched_ops_ = segment.end_op;
  ++next_segment_;
  next_launch_op_ =
      next_segment_ == program_->segments.size()
          ? kNoLaunch
          : LaunchedAt(program_->segments[next_segment_], segment, op);
  next_stop_op_ = std::min(next_launch_op_, next_draw_op_);
}

Block Instance::TakeBlock(ValueId value) {
  if (plan_->escapes(value)) return std::move(fresh_[value]);
  return ledger_->Lease(value, binding_.origin(value));
}

void Instance::Finish() {
  next_segment_ = 0;
  launched_ops_ = 0;
  told_end_ = 0;
  binding_.EndShadows();
  if (holds_ != nullptr) holds_->EndPass();
  holds_ = nullptr;
}

base::Status Instance::Squash(uint32_t verified) {
  const uint32_t launched = launched_ops_;
  const std::vector<kernels::RangeCopy> given = Given(verified);
  const auto needed = [this](ValueId v) {
    return plan_->escapes(v) ? !fresh_[v] : ledger_->leased(v);
  };
  const Effects::Restoration restoration =
      program_->effects.ToRestore(verified, launched, needed);
  std::vector<kernels::RangeCopy> taken;
  for (const ValueId v : restoration.taken) taken.push_back(binding_.Taking(v));
  Finish();
  // Each value is rebuilt from its birth on, and private ones are given behind
  // all that takes them, so it may be begun again.
  Executor& executor = *parts_.executor;
  base::Status restored = MakeRight([&]() -> base::Status {
    if (!taken.empty()) REPRISE_RETURN_IF_ERROR(executor.CopyAll(taken));
    for (const uint32_t k : restoration.ops) {
      REPRISE_RETURN_IF_ERROR(executor.LaunchOp(k));
    }
    return {};
  });
  if (given.empty()) return restored;
  base::Status gave = MakeRight([&] { return executor.CopyAll(given); });
  return restored ? std::move(gave) : std::move(restored);
}

}  // namespace reprise::engine
