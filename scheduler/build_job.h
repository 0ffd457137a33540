// One build of an instance on its way from a session to the build queue and
// back.

#ifndef REPRISE_SCHEDULER_BUILD_JOB_H_
#define REPRISE_SCHEDULER_BUILD_JOB_H_

#include <atomic>
#include <memory>
#include <optional>
#include <utility>

#include "engine/executor.h"
#include "engine/trace.h"

namespace reprise::scheduler {

// The session makes it and reads the outcome once done() is true; the build
// thread calls Run in between, once. A job that is dropped unrun stays undone.
class BuildJob {
 public:
  using Outcome = tl::expected<engine::BuiltPlan, engine::BuildFailure>;

  // The recordings are shared with the session, which may have the same build
  // done again.
  BuildJob(engine::Backend* backend, std::shared_ptr<const engine::Trace> first,
           std::shared_ptr<const engine::Trace> second)
      : backend_(backend),
        first_(std::move(first)),
        second_(std::move(second)) {}

  void Run() {
    outcome_ = backend_->Build(*first_, *second_);
    second_.reset();
    // Release: publishes `outcome_` to the session that sees true (acquire).
    done_.store(true, std::memory_order_release);
  }

  bool done() const { return done_.load(std::memory_order_acquire); }

  Outcome TakeOutcome() { return std::move(*outcome_); }

 private:
  engine::Backend* backend_;  // owned by the session, which outlives the queue
  std::shared_ptr<const engine::Trace> first_;
  std::shared_ptr<const engine::Trace> second_;
  std::optional<Outcome> outcome_;
  std::atomic<bool> done_{false};
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_BUILD_JOB_H_
