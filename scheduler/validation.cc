#include "scheduler/validation.h"

#include <cstddef>

#include "engine/executor.h"
#include "engine/instance.h"
#include "engine/trace.h"

namespace reprise::scheduler {

using engine::OpView;
using engine::ResultView;

bool Validation::Begin() {
  cursor_ = 0;
  whole_ = entry()->instances[in_use_.index].validations > 0;
  if (whole_ && !instance().Secure()) {
    instance().Finish();
    return false;
  }
  learning_.StartValidating();
  auto begun = instance().executor().BeginComparing();
  if (begun && whole_) begun = instance().LaunchNext();
  if (!whole_) instance().SkipNext();
  if (!begun) {
    instance().Finish();
    life_.GiveUp(entry(), begun.error().message());
    return false;
  }
  ++entry()->runs;
  return true;
}

bool Validation::Enter(const OpView& op) {
  if (op.cut == nullptr && GoOn(op)) return true;
  Leaving();
  NoteLeaving();
  return false;
}

bool Validation::GoOn(const OpView& op) {
  using Readiness = engine::Instance::Readiness;
  const bool due = cursor_ == instance().next_launch_op();
  const Readiness readiness = due ? instance().BindLate(op) : Readiness::kReady;
  if (readiness == Readiness::kUnproven) life_.RecordAgain(entry());
  if (readiness == Readiness::kUntold || instance().OtherNumbers(cursor_, op)) {
    LearnNumbers(op);
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
  life_.GiveUp(entry(), launched.error().message());
  return false;
}

bool Validation::Leave(const OpView& op, std::span<const ResultView> results) {
  if (instance().broken()) {
    Leaving();
    return false;
  }
  if (auto compared = Compare(op, results); !compared) {
    Leaving();
    life_.GiveUp(entry(), compared.error().message());
    return false;
  }
  if (++cursor_ == entry()->ops) Finish();
  return true;
}

void Validation::Finish() {
  learning_.Stop();
  instance().Finish();
  entry()->EndRest();
  life_.PassEnded(entry());
  if (auto ended = instance().executor().EndComparing(); !ended) {
    life_.GiveUp(entry(), ended.error().message());
    return;
  }
  entry()->verdict_pending = true;
  entry()->validating = in_use_.index;
}

void Validation::Leaving() {
  learning_.Stop();
  entry()->Rest();
  instance().Finish();
  boundaries_.Break();
}

base::Status Validation::Compare(const OpView& op,
                                 std::span<const ResultView> results) {
  engine::Instance& instance = this->instance();
  engine::Executor& executor = instance.executor();
  const engine::TracedOp& traced = this->traced();
  if (traced.native) return {};
  if (!whole_) REPRISE_RETURN_IF_ERROR(executor.LaunchOp(cursor_));
  // Op by op, the plan's memory holds this op's version now; launched whole,
  // it holds each value's last version.
  const auto comparable = [&, op = cursor_,
                           whole = whole_](engine::ValueId value) {
    return executor.Touches(op, value) &&
           (!whole || instance.plan().effects().last_writer(value) == op);
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

}  // namespace reprise::scheduler
