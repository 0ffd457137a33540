#include "scheduler/build_job.h"

#include <algorithm>

#include "engine/replay/plan.h"

namespace reprise::scheduler {

void BuildJob::Run() {
  // Relaxed: the queue orders the parts. Who changes the state has them.
  State state = State::kQueued;
  if (!state_.compare_exchange_strong(state, State::kRunning,
                                      std::memory_order_relaxed)) {
    return;
  }
  outcome_ = BuildWatched();
  if (outcome_->has_value() && (*outcome_)->refusal.empty()) {
    parts_.first.reset();
  }
  parts_.second.reset();
  parts_.program.reset();
  // Release: publishes the outcome, and to Abandon what is in the cache.
  state = State::kRunning;
  if (!state_.compare_exchange_strong(state, State::kDone,
                                      std::memory_order_release)) {
    parts_.plans->Erase(parts_.key);
  }
}

void BuildJob::Abandon() {
  State state = State::kQueued;
  if (state_.compare_exchange_strong(state, State::kAbandoned,
                                     std::memory_order_relaxed)) {
    parts_.first.reset();
    parts_.second.reset();
    parts_.program.reset();
    return;
  }
  // Acquire: what Run has put is there to be erased.
  if (state_.exchange(State::kAbandoned, std::memory_order_acquire) ==
      State::kDone) {
    parts_.plans->Erase(parts_.key);
  }
}

BuildJob::Outcome BuildJob::BuildWatched() {
  const engine::Trace& trace =
      is_plan() ? *parts_.first : *parts_.program->trace;
  Span span;
  span.Begin(parts_.track, Doing::kBuilding, trace.signature,
             static_cast<uint32_t>(trace.ops.size()));
  Outcome outcome = Build();
  span.End(outcome ? outcome->refusal : outcome.error().error.message());
  return outcome;
}

BuildJob::Outcome BuildJob::Build() {
  std::shared_ptr<const engine::Program> program = parts_.program;
  if (is_plan()) {
    auto explained = parts_.backend->Explain(parts_.first, *parts_.second);
    if (!explained) return tl::unexpected(std::move(explained).error());
    program = *std::move(explained);
  }
  Built built;
  const auto& segments = program->segments;
  built.summary = {.launches = program->launches,
                   .segments = segments.size(),
                   .gates = static_cast<size_t>(std::ranges::count(
                       segments, true, &engine::Segment::gated)),
                   .lanes = program->branches.size(),
                   .layout_bytes = program->layout.size_bytes,
                   .bytes_at_once = program->bytes_at_once,
                   .mechanism = program->mechanism,
                   .notes = program->notes};
  if (is_plan() && program->launches < 2) {
    built.refusal = "a single launch gains nothing";
    return built;
  }
  auto instance = Instantiate(program);
  if (!instance) {
    return tl::unexpected<engine::BuildFailure>(
        {.error = std::move(instance).error(),
         .op = std::nullopt,
         .outdated = program->library_frees.outdated()});
  }
  built.bytes = instance->bytes;
  built.shares = instance->shared != nullptr;
  built.refusal = Put(std::move(program), *std::move(instance));
  return built;
}

base::Result<engine::InstanceParts> BuildJob::Instantiate(
    const std::shared_ptr<const engine::Program>& program) {
  std::shared_ptr<engine::Ledger> arena;
  if (parts_.arena != nullptr) {
    REPRISE_ASSIGN_OR_RETURN(arena,
                             parts_.arena->Take(*program, *parts_.backend));
  }
  return parts_.backend->Instantiate(program, std::move(arena));
}

std::string BuildJob::Put(std::shared_ptr<const engine::Program> program,
                          engine::InstanceParts instance) {
  if (state_.load(std::memory_order_relaxed) == State::kAbandoned) return {};
  // Another instance's program is that of its plan.
  const uint64_t bytes = instance.bytes + (is_plan() ? program->host_bytes : 0);
  MakeRoom(*parts_.plans, bytes);
  const auto put = parts_.plans->Insert(
      parts_.key,
      std::make_unique<engine::Plan>(std::move(program), std::move(instance)),
      bytes);
  return put ? std::string() : put.error().message();
}

}  // namespace reprise::scheduler
