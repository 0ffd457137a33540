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
      outputs_(plan,
               parts_.shared != nullptr
                   ? std::move(parts_.shared)
                   : Ledger::Create(std::move(parts_.arena),
                                    trace_->values.size(), parts_.device),
               parts_.places, &binding_),
      binding_(program_, std::move(parts_.places), parts_.executor.get()),
      externals_(program_, &binding_),
      privates_(program_, &binding_),
      draws_(program_, parts_.executor.get()) {}

base::Status Instance::TakePrivates() {
  const std::span<const kernels::RangeCopy> takings = privates_.takings();
  return takings.empty() ? base::Status() : parts_.executor->CopyAll(takings);
}

base::Status Instance::GivePrivates() {
  const std::vector<kernels::RangeCopy> givings =
      privates_.GivingsBefore(kNoLaunch);
  if (givings.empty()) return {};
  return MakeRight([&] { return parts_.executor->CopyAll(givings); });
}

bool Instance::Draw() {
  const bool drawn = draws_.Draw();
  NoteNextStop();
  return drawn;
}

void Instance::TakeBackDraw() {
  draws_.TakeBack();
  NoteNextStop();
}

bool Instance::DrawsBesideEager() {
  const bool drawn = draws_.DrawBesideEager();
  NoteNextStop();
  return drawn;
}

void Instance::Shadow(ValueId value, const StoragePlace& place) {
  holds_->Watch(place.storage);
  binding_.Shadow(value, place);
}

Readiness Instance::BindNumbers(uint32_t index, const OpView& op) {
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

Readiness Instance::BindDraws(uint32_t source) {
  return draws_.Bind(source) ? Readiness::kReady : Readiness::kElsewhere;
}

bool Instance::Tell(uint32_t cursor, uint32_t end_op,
                    std::span<const KnownOperand> operands) {
  return externals_.Tell(cursor, end_op, operands, plan_->escaping(), *holds_);
}

bool Instance::RetainMemory() {
  return RetainMemory(next_segment_, next_segment_ + 1, kNoLaunch);
}

bool Instance::RetainMemory(size_t first, size_t end, uint32_t cursor) {
  if (broken()) return false;
  touched_.clear();
  for (size_t s = first; s < end; ++s) {
    for (const ValueId v : plan_->footprint().externals(s)) {
      touched_.push_back(binding_.place(v));
    }
    if (plan_->escaping().empty()) continue;
    for (const ValueId v : plan_->footprint().values(s)) {
      if (trace_->values[v].birth_op >= cursor) continue;
      const StoragePlace& place = binding_.place(v);
      if (place.storage != nullptr) touched_.push_back(place);
    }
  }
  return touched_.empty() || holds_->Hold(touched_);
}

bool Instance::Stands() const {
  if (broken()) return false;
  return externals_.Stand() &&
         std::ranges::all_of(plan_->escaping(),
                             [this](ValueId v) { return binding_.Stands(v); });
}

void Instance::Own(ValueId value, StorageToken storage) {
  // Behind the last op nothing is touched any more.
  if (holds_ == nullptr || !plan_->escapes(value)) return;
  holds_->Watch(storage);
  binding_.Own(value, {storage, binding_.origin(value)});
}

Readiness Instance::Resolve(const OpView& head, StorageHolds& holds) {
  holds_ = &holds;
  Readiness readiness = ResolveHead(head);
  if (readiness == Readiness::kReady) readiness = ResolveOthers();
  if (readiness == Readiness::kReady && !outputs_.Enter()) {
    readiness = Readiness::kOccupied;
  }
  if (readiness == Readiness::kReady &&
      (!outputs_.Bind() || !outputs_.WaitForBorrowers(*parts_.executor))) {
    readiness = Readiness::kNoMemory;
  }
  if (readiness == Readiness::kReady &&
      (binding_.MovesOntoWrites(head) ||
       !externals_.IsApart(head, plan_->escaping()))) {
    readiness = Readiness::kOtherOp;
  }
  next_segment_ = 0;
  launched_ops_ = 0;
  next_launch_op_ = kNoLaunch;
  draws_.Rewind();
  NoteNextStop();
  if (readiness != Readiness::kReady) Finish();
  return readiness;
}

Readiness Instance::ResolveHead(const OpView& head) {
  if (!binding_.SameWords(0, head)) {
    return binding_.OtherNumbers(0, head) ? Readiness::kUntold
                                          : Readiness::kOtherOp;
  }
  if (!externals_.BindHead(head, *holds_)) return Readiness::kUnproven;
  // A value that the head uses twice must be one value now as well.
  return binding_.Matches(0, head) && binding_.WritesApart(0, head)
             ? BindNumbers(0, head)
             : Readiness::kOtherOp;
}

Readiness Instance::ResolveOthers() {
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

Readiness Instance::BindLate(const OpView& op) {
  bound_late_ = false;
  const Segment& segment = program_->segments[next_segment_];
  if (!segment.gated || launched_ops_ > segment.first_op ||
      !binding_.SameWords(segment.first_op, op)) {
    return Readiness::kReady;
  }
  const ExternalBinder::Late late =
      externals_.BindLate(segment.first_op, op, plan_->escaping(), *holds_);
  bound_late_ = late.bound;
  if (late.readiness != Readiness::kReady) return late.readiness;
  if (!binding_.WritesApart(segment.first_op, op)) return Readiness::kOtherOp;
  const Readiness bound = BindNumbers(segment.first_op, op);
  if (bound != Readiness::kReady) return bound;
  const std::optional<uint32_t> source =
      program_->effects.draws().ToldBy(segment.first_op);
  return source.has_value() ? BindDraws(*source) : Readiness::kReady;
}

bool Instance::HasRoomNow() const {
  if (launched_ops_ > program_->segments[next_segment_].first_op) return true;
  return outputs_.StaysFree(next_segment_, kNoLaunch, {});
}

bool Instance::HasRoom() {
  // Of a launch that got stuck, some have their places already.
  if (launched_ops_ > program_->segments[next_segment_].first_op) return true;
  return outputs_.HasRoom(next_segment_, *parts_.executor);
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
    NoteNextStop();
  }
  return std::move(progress.status);
}

bool Instance::IsForetold(size_t segment) const {
  const Segment& due = program_->segments[segment];
  const Effects& effects = program_->effects;
  return !due.gated || ((effects.foretold(due.first_op) ||
                         (externals_.IsTold(due.first_op) &&
                          effects.tells_places(due.first_op))) &&
                        binding_.WritesApart(due.first_op));
}

base::Status Instance::LaunchForetold(uint32_t cursor,
                                      const Foretold& foretold) {
  const std::vector<Segment>& segments = program_->segments;
  size_t end = next_segment_ + 1;
  if (launched_ops_ <= segments[next_segment_].first_op) {
    while (end < segments.size() && segments[end].first_op < foretold.end_op &&
           IsForetold(end) && outputs_.StaysFree(end, cursor, foretold.taken)) {
      ++end;
    }
  }
  if (end > next_segment_ + 1 && !RetainMemory(next_segment_, end, cursor)) {
    end = next_segment_ + 1;
  }
  const uint32_t drawn = draws_.drawn();
  for (size_t s = next_segment_ + 1; s < end; ++s) {
    while (draws_.next_op() <= segments[s].first_op && s < end) {
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
  while (draws_.drawn() > drawn) TakeBackDraw();
  launched_ops_ = progress.end_op;
  while (segments[next_segment_].end_op <= launched_ops_) ++next_segment_;
  next_launch_op_ = launched_ops_;
  NoteNextStop();
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
  NoteNextStop();
}

void Instance::Finish() {
  next_segment_ = 0;
  launched_ops_ = 0;
  externals_.EndTold();
  binding_.EndShadows();
  if (holds_ != nullptr) holds_->EndPass();
  holds_ = nullptr;
}

base::Status Instance::Squash(uint32_t verified) {
  const uint32_t launched = launched_ops_;
  const std::vector<kernels::RangeCopy> givings =
      privates_.GivingsBefore(verified);
  const auto needed = [this](ValueId v) { return outputs_.IsSeen(v); };
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
  if (givings.empty()) return restored;
  base::Status gave = MakeRight([&] { return executor.CopyAll(givings); });
  return restored ? std::move(gave) : std::move(restored);
}

}  // namespace reprise::engine
