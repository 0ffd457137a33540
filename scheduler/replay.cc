#include "scheduler/replay.h"

#include <algorithm>
#include <string>

#include "engine/base/log.h"
#include "engine/replay/instance.h"

namespace reprise::scheduler {

using engine::OpView;

namespace {

constexpr char kFreed[] =
    "memory that a replay was to read was freed: the replay ended there";
constexpr char kHeld[] =
    "memory that a replay was to overwrite was still held: the replay ended "
    "there";
constexpr char kUnderWay[] =
    "another thread was inside an op that may write what a replay was to read: "
    "the replay ended there";

}  // namespace

bool Replay::Begin() {
  cursor_ = 0;
  BeginSpan(Doing::kReplaying);
  const bool draws = cursor_ == instance().next_draw_op();
  if (KeepsFromOthers() || !instance().RetainMemory() || !DrawsIfDue()) {
    instance().Finish();
    span_.Drop();
    return false;
  }
  base::Status launched = instance().TakePrivates();
  if (launched) launched = instance().LaunchNext();
  if (!Goes(launched)) {
    if (draws) instance().TakeBackDraw();
    instance().Finish();
    span_.Drop();
    life_.CouldNotRun(entry(), launched.error());
    return false;
  }
  if (WritesOutside()) ++journal_.stats.effects;
  ++journal_.stats.replays;
  entry()->Replayed(in_use_.index);
  GoOn();
  return true;
}

void Replay::Finish() {
  CountPrivateWriters();
  const base::Status given = instance().GivePrivates();
  instance().Finish();
  span_.End();
  if (const uint64_t bytes = instance().executor().TakeGrowth()) {
    life_.instances().NoteGrowth(entry(), in_use_.plan, in_use_.index, bytes);
  }
  if (!given) {
    base::Log(base::LogLevel::kWarning, given.error().message());
    life_.GiveUp(entry(), given.error().message());
  }
  entry()->Followed();
  life_.PassEnded(entry());
}

void Replay::CountPrivateWriters() {
  const std::vector<uint32_t>& writers =
      instance().plan().effects().private_writers();
  journal_.stats.effects += static_cast<uint64_t>(
      std::ranges::lower_bound(writers, cursor_) - writers.begin());
}

bool Replay::EnterElse(const OpView& op) {
  // What eager allocates may be what the program has freed in this pass, and
  // what a squash needs as it was.
  if (op.by_eager && !instance().Stands()) {
    Diverge(op);
    return false;
  }
  if (op.cut == nullptr && cursor_ == instance().next_launch_op()) {
    if (!LaunchAt(op)) return false;
    GoOn();
    return true;
  }
  const bool draws = cursor_ == instance().next_draw_op();
  if (op.cut != nullptr || (!draws && !op.by_eager) ||
      !instance().binding().Matches(cursor_, op)) {
    Diverge(op);
    return false;
  }
  if (!DrawsIfDue()) {
    LeaveByGenerator(op);
    return false;
  }
  GoOn();
  return true;
}

bool Replay::StopUnseen(const engine::Instance::Foretold& foretold) {
  // Who shows the op is told what is wrong, and leaves.
  if (cursor_ != instance().next_launch_op()) return instance().Draw();
  if (!instance().foretold() || !instance().HasRoomNow() ||
      !instance().RetainMemory() || !instance().HasRoom()) {
    return false;
  }
  const bool draws = cursor_ == instance().next_draw_op();
  if (!DrawsIfDue()) return false;
  if (Goes(instance().LaunchForetold(cursor_, foretold))) return true;
  if (draws) instance().TakeBackDraw();
  return false;
}

bool Replay::DrawsIfDue() {
  return cursor_ != instance().next_draw_op() || instance().Draw();
}

void Replay::LeaveByGenerator(const OpView& op) {
  LeaveAt(op);
  if (!life_.LearnDraws(entry())) NoteLeaving(nullptr);
}

bool Replay::LaunchAt(const OpView& op) {
  using Readiness = engine::Instance::Readiness;
  const Readiness readiness = instance().BindLate(op);
  switch (readiness) {
    case Readiness::kUnproven:
      LeaveAt(op);
      (void)life_.After(readiness, entry(), instance(), cursor_, op);
      return false;
    case Readiness::kElsewhere:
    case Readiness::kUntold:
      LeaveAt(op);
      if (!life_.After(readiness, entry(), instance(), cursor_, op)) {
        NoteLeaving(nullptr);
      }
      return false;
    case Readiness::kReady:
      if (instance().binding().Matches(cursor_, op)) break;
      Diverge(op);
      return false;
    case Readiness::kReplaced:
    case Readiness::kOccupied:
    case Readiness::kOtherOp:
    case Readiness::kNoMemory:
      Diverge(op);
      return false;
  }
  // The segment reads more of the memory that has just been bound than its
  // first op does.
  if (instance().bound_late() && MayBeWritten()) {
    ++journal_.notes[kUnderWay];
    LeaveAt(op);
    return false;
  }
  if (!instance().RetainMemory()) {
    ++journal_.notes[kFreed];
    Diverge(op);
    return false;
  }
  if (!instance().HasRoom()) {
    ++journal_.notes[kHeld];
    LeaveAt(op);
    return false;
  }
  const bool draws = cursor_ == instance().next_draw_op();
  if (!DrawsIfDue()) {
    LeaveByGenerator(op);
    return false;
  }
  if (const base::Status launched = instance().LaunchNext(); !Goes(launched)) {
    if (draws) instance().TakeBackDraw();
    Leaving();
    life_.CouldNotRun(entry(), launched.error());
    return false;
  }
  if (WritesOutside()) ++journal_.stats.effects;
  return true;
}

bool Replay::Tell(uint32_t count,
                  std::span<const engine::Instance::KnownOperand> operands) {
  const uint32_t end = std::min(cursor_ + count, entry()->ops);
  if (!instance().Tell(cursor_, end, operands)) return false;
  if (!instance().told_late() || !MayBeWritten()) return true;
  instance().ForgetTold();
  return false;
}

bool Replay::MayBeWritten() const {
  return under_way_ != nullptr &&
         under_way_->MayWrite(asker_, [this](auto overlaps) {
           return instance().binding().Uses(overlaps);
         });
}

void Replay::Diverge(const OpView& op) {
  const bool numbers = instance().binding().OtherNumbers(cursor_, op);
  LeaveAt(op);
  if (numbers && LearnNumbers(op)) return;
  NoteLeaving(&op);
}

void Replay::LeaveAt(const OpView& op) {
  if (base::LogEnabled(base::LogLevel::kDebug)) {
    base::Log(base::LogLevel::kDebug,
              "squash at op " + std::to_string(cursor_) + ": " +
                  engine::NameOf(frontend_, op.op) + " came");
  }
  const std::string found = engine::NameOf(frontend_, op.op);
  journal_.CountSquash(entry()->signature.ToHex(), cursor_, found);
  Squash(found);
}

bool Replay::LeaveIfMemoryGoes() {
  if (instance().Stands()) return false;
  ++journal_.notes[kFreed];
  Leaving();
  return true;
}

void Replay::Squash(std::string_view found) {
  span_.EndAt(cursor_);
  BeginSpan(Doing::kSquashing);
  ++journal_.stats.squashes;
  entry()->CountSquash();
  if (!entry()->EndsSoonBehind(cursor_)) entry()->running.Fail();
  boundaries_.Left(traced().before);
  CountPrivateWriters();
  const base::Status restored = instance().Squash(cursor_);
  span_.EndAt(cursor_, found);
  wait_.EndFollowing();
  if (restored) return;
  base::Log(base::LogLevel::kWarning, restored.error().message());
  life_.GiveUp(entry(), restored.error().message());
}

}  // namespace reprise::scheduler
