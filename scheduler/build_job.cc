#include "scheduler/build_job.h"

#include "engine/plan.h"

namespace reprise::scheduler {

void BuildJob::Run() {
  // Relaxed: the queue orders the parts. Who changes the state has them.
  State state = State::kQueued;
  if (!state_.compare_exchange_strong(state, State::kRunning,
                                      std::memory_order_relaxed)) {
    return;
  }
  outcome_ = Build();
  if (outcome_->has_value() && (*outcome_)->refusal.empty()) {
    parts_.first.reset();
  }
  parts_.second.reset();
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
    return;
  }
  // Acquire: what Run has put is there to be erased.
  if (state_.exchange(State::kAbandoned, std::memory_order_acquire) ==
      State::kDone) {
    parts_.plans->Erase(parts_.key);
  }
}

BuildJob::Outcome BuildJob::Build() {
  auto built = parts_.backend->Build(*parts_.first, *parts_.second);
  if (!built) return tl::unexpected(std::move(built).error());
  Built outcome;
  outcome.summary = {built->launches, built->segments.size(), built->mechanism,
                     built->notes};
  outcome.bytes = built->bytes;
  outcome.refusal = Put(*std::move(built));
  return outcome;
}

std::string BuildJob::Put(engine::BuiltPlan built) {
  if (state_.load(std::memory_order_relaxed) == State::kAbandoned) return {};
  const bool is_plan = parts_.makes != Makes::kNextInstance;
  if (is_plan && built.launches < 2) return "a single launch gains nothing";
  uint64_t bytes = built.bytes;
  auto plan = std::make_unique<engine::Plan>(parts_.first, std::move(built));
  if (parts_.makes == Makes::kFirstInstance) plan->KeepSecond(parts_.second);
  // Another instance's recordings are those of its plan.
  if (is_plan) bytes += plan->recording_bytes();
  const auto put = parts_.plans->Insert(parts_.key, std::move(plan), bytes);
  return put ? std::string() : put.error().message();
}

}  // namespace reprise::scheduler
