#include "scheduler/validation.h"

#include <cstddef>
#include <string>
#include <utility>

#include "engine/replay/executor.h"
#include "engine/replay/instance.h"
#include "engine/trace/trace.h"

namespace reprise::scheduler {

using engine::OpView;
using engine::ResultView;

bool Validation::Begin(const OpView& head) {
  cursor_ = 0;
  whole_ = entry()->instances[in_use_.index].validations > 0;
  if (KeepsFromOthers() ||
      ((whole_ || HasPrivates()) && !instance().RetainMemory()) ||
      !KeepOutside(head)) {
    instance().Finish();
    return false;
  }
  if (!DrawsBesideEager()) {
    outside_.End();
    instance().Finish();
    return false;
  }
  learning_.StartValidating(*entry());
  BeginSpan(whole_ ? Doing::kValidatingWhole : Doing::kValidatingOps);
  auto begun = instance().executor().BeginComparing();
  if (begun) begun = instance().TakePrivates();
  if (begun && whole_) {
    begun = instance().LaunchNext();
    base::Status taken_back = TakeBackOutside();
    if (begun) begun = std::move(taken_back);
  }
  if (!whole_) instance().SkipNext();
  if (!begun) {
    learning_.Stop();
    span_.Drop();
    outside_.End();
    instance().Finish();
    life_.CouldNotRun(entry(), begun.error());
    return false;
  }
  entry()->leavings.RunBegan();
  return true;
}

bool Validation::Enter(const OpView& op) {
  short_of_memory_ = false;
  if (op.cut == nullptr && GoOn(op)) return true;
  Leaving();
  if (!short_of_memory_) NoteLeaving(&op);
  return false;
}

bool Validation::GoOn(const OpView& op) {
  using Readiness = engine::Instance::Readiness;
  const bool due = cursor_ == instance().next_launch_op();
  const Readiness readiness = due ? instance().BindLate(op) : Readiness::kReady;
  if (readiness != Readiness::kReady) {
    (void)life_.After(readiness, entry(), instance(), cursor_, op);
  }
  if (readiness != Readiness::kUntold &&
      instance().binding().OtherNumbers(cursor_, op)) {
    LearnNumbers(op);
  }
  // Before a segment is launched: another op has not told late externals.
  if (readiness != Readiness::kReady || instance().broken() ||
      !instance().binding().MatchesShadow(cursor_, op)) {
    return false;
  }
  if (!DrawsBesideEager()) {
    life_.LearnDraws(entry());
    return false;
  }
  if ((due || WritesBesideEager()) && !KeepOutside(op)) return false;
  if (!due) return true;
  // Op by op, segments only pass by; launched, if the pass is of whole ones.
  if (!whole_) {
    instance().SkipNext();
    return true;
  }
  if (!instance().RetainMemory()) return false;
  if (!instance().HasRoom()) {
    short_of_memory_ = true;
    return false;
  }
  const base::Status launched = instance().LaunchNext();
  const base::Status taken_back = TakeBackOutside();
  if (Goes(launched) && taken_back) return true;
  life_.CouldNotRun(entry(), (launched ? taken_back : launched).error());
  return false;
}

bool Validation::DrawsBesideEager() {
  return cursor_ != instance().next_draw_op() || instance().DrawsBesideEager();
}

bool Validation::KeepOutside(const OpView& op) {
  outside_.End();
  const bool keeps =
      WritesOutside() || traced().may_draw || WritesBesideEager();
  if (!keeps) return true;
  const base::Status kept =
      outside_.Begin(traced(), op, instance().trace(), instance().executor());
  if (kept) return true;
  outside_.End();
  short_of_memory_ = true;
  ++journal_.notes["not validated: what an op writes could not be kept: " +
                   kept.error().message()];
  return false;
}

base::Status Validation::TakeBackOutside() {
  base::Status kept = outside_.Keep(instance().executor());
  base::Status put = outside_.PutBefore(instance().executor());
  return kept ? std::move(put) : std::move(kept);
}

base::Status Validation::LaunchAfterEager(std::span<const Pair> pairs) {
  engine::Executor& executor = instance().executor();
  REPRISE_RETURN_IF_ERROR(outside_.Keep(executor));
  REPRISE_RETURN_IF_ERROR(outside_.PutBefore(executor));
  if (!IsSuspect()) return executor.LaunchOp(cursor_);
  return engine::RunTwice(frontend_, executor,
                          engine::TwiceTags::Of(cursor_, entry()->ops), pairs,
                          [&] { return outside_.PutBefore(executor); });
}

bool Validation::Leave(const OpView& op, std::span<const ResultView> results) {
  if (instance().broken()) {
    Leaving();
    return false;
  }
  if (op.warned && !traced().by_eager) {
    Leaving();
    life_.Warned(entry(), cursor_);
    return false;
  }
  if (!instance().DrewBesideEager(cursor_)) {
    Leaving();
    NoteLeaving(nullptr);
    return false;
  }
  base::Status compared = Compare(op, results);
  if (!whole_) {
    base::Status put = outside_.PutKept(instance().executor());
    if (compared) compared = std::move(put);
  }
  outside_.End();
  if (!compared) {
    Leaving();
    if (IsSuspect() &&
        compared.error().code() == base::Code::kResourceExhausted) {
      life_.CannotTell(entry(), cursor_, compared.error().message());
    } else {
      life_.GiveUp(entry(), compared.error().message());
    }
    return false;
  }
  learning_.OpEnded();
  if (++cursor_ == entry()->ops) Finish();
  return true;
}

void Validation::Finish() {
  learning_.Stop();
  span_.End();
  instance().Finish();
  entry()->Followed();
  life_.PassEnded(entry());
  if (auto ended = instance().executor().EndComparing(); !ended) {
    life_.GiveUp(entry(), ended.error().message());
    return;
  }
  Lifecycle::AwaitVerdict(entry(), in_use_.index);
}

void Validation::Leaving() {
  learning_.Stop();
  span_.EndAt(cursor_);
  entry()->running.Fail();
  outside_.End();
  instance().Finish();
  boundaries_.Break();
}

// Op by op, the plan's memory holds this op's version now; launched whole, it
// holds each value's last version, or that of the op with which its segment
// ends, if it is nondeterministic.
std::vector<engine::WrittenPair> Validation::PairsOf(
    const OpView& op, std::span<const ResultView> results) {
  engine::Instance& instance = this->instance();
  const engine::TracedOp& traced = this->traced();
  const auto comparable = [&](engine::ValueId value) {
    return instance.executor().Touches(cursor_, value) &&
           (!whole_ || traced.nondeterministic ||
            instance.plan().effects().last_writer(value) == cursor_);
  };
  std::vector<Pair> pairs;
  for (size_t i = 0; i < traced.operands.size(); ++i) {
    if (outside_.kept(i) == 0) continue;
    const engine::ValueRef& ref = traced.operands[i];
    const bool is_private = instance.plan().effects().is_private(ref.value);
    // Op by op, eager's is what was kept; launched whole, the plan's.
    const uint64_t here =
        is_private ? instance.binding().origin(ref.value) + ref.offset_bytes
                   : op.operands[i].address();
    pairs.push_back({.eager = whole_ ? here : outside_.kept(i),
                     .replayed = whole_ ? outside_.kept(i) : here,
                     .layout = traced.LayoutOf(i),
                     .outside = !is_private});
  }
  for (size_t r = 0; r < results.size(); ++r) {
    const engine::ResultSpec& spec = traced.results[r];
    if (spec.kind != engine::ResultSpec::Kind::kValue) continue;
    instance.Shadow(spec.value, {results[r].storage, results[r].base});
    if (!comparable(spec.value)) continue;
    pairs.push_back(
        {.eager = results[r].base + spec.offset_bytes,
         .replayed = instance.binding().origin(spec.value) + spec.offset_bytes,
         .layout = spec.layout()});
  }
  for (size_t i = 0; i < traced.operands.size(); ++i) {
    const engine::ValueRef& ref = traced.operands[i];
    if (!ref.written || outside_.kept(i) != 0 || !comparable(ref.value)) {
      continue;
    }
    pairs.push_back(
        {.eager = op.operands[i].address(),
         .replayed = instance.binding().origin(ref.value) + ref.offset_bytes,
         .layout = traced.LayoutOf(i)});
  }
  return pairs;
}

base::Status Validation::Compare(const OpView& op,
                                 std::span<const ResultView> results) {
  using Alike = engine::Executor::Alike;
  engine::Executor& executor = instance().executor();
  const engine::TracedOp& traced = this->traced();
  if (traced.by_eager) return {};
  for (size_t r = 0; r < results.size(); ++r) {
    const engine::ResultSpec& spec = traced.results[r];
    if (spec.tells != engine::ResultSpec::Tells::kNothing &&
        results[r].host_integer !=
            static_cast<int64_t>(spec.Told(instance().drawn()))) {
      return base::Fail(base::Code::kFailedPrecondition,
                        "op " + std::to_string(cursor_) +
                            " tells the host something else than the state of "
                            "the generator where it drew");
    }
  }
  const std::vector<Pair> pairs = PairsOf(op, results);
  if (!whole_) REPRISE_RETURN_IF_ERROR(LaunchAfterEager(pairs));
  // Run twice, it has been compared.
  if (!IsSuspect()) {
    const Alike alike = {.in_every_bit = !traced.nondeterministic};
    for (const Pair& pair : pairs) {
      REPRISE_RETURN_IF_ERROR(executor.Compare(pair.eager, pair.replayed,
                                               pair.layout, alike, cursor_));
    }
  }
  if (!Substitutes()) return {};
  for (const Pair& pair : pairs) {
    if (pair.outside) continue;
    REPRISE_RETURN_IF_ERROR(
        executor.Copy(pair.replayed, pair.eager, pair.layout));
  }
  return {};
}

}  // namespace reprise::scheduler
