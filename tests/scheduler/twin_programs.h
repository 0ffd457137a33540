// One program run twice: through a session, and plainly beside it.

#ifndef REPRISE_TESTS_SCHEDULER_TWIN_PROGRAMS_H_
#define REPRISE_TESTS_SCHEDULER_TWIN_PROGRAMS_H_

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/clock.h"
#include "engine/base/task.h"
#include "engine/host_backend.h"
#include "scheduler/stream_session.h"
#include "tests/sim/model_frontend.h"

namespace reprise::scheduler {

// What a step is given on each side; both sides hold the same values.
struct Side {
  sim::ModelProgram* program;
  std::vector<sim::ModelTensor> weights;
};

class TwinPrograms : public testing::Test {
 protected:
  using Held = std::vector<sim::ModelTensor>;

  TwinPrograms() { Restart(); }

  // A session that knows nothing, and weights of 64 elements.
  void Restart(size_t plan_budget_bytes = size_t{1} << 20) {
    session_.reset();
    plans_ = std::make_unique<PlanCache>(plan_budget_bytes);
    base::Options options;
    options.validate_share = 0;
    StreamSession::Parts parts;
    auto frontend = std::make_unique<sim::ModelFrontend>();
    frontend_ = frontend.get();
    parts.backend = std::make_unique<Backend>(
        frontend.get(),
        engine::HostBackend::Options{.max_arena_bytes = options.max_arena_bytes,
                                     .segment_ops = 3},
        &recordings_open_, &explains_numbers_);
    parts.recording_forbidden = &recording_forbidden_;
    parts.asleep = &asleep_;
    parts.policy = policy_;
    parts.clock = &clock_;
    parts.frontend = std::move(frontend);
    parts.options = options;
    parts.plans = plans_.get();
    parts.build = [this](std::shared_ptr<BuildJob> job) {
      builds_.Post([job] { job->Run(); });
    };
    watched_.weights.clear();
    plain_.weights.clear();
    session_ = std::make_unique<StreamSession>(std::move(parts));
    watched_program_ =
        std::make_unique<sim::ModelProgram>(frontend_, session_.get());
    plain_program_ =
        std::make_unique<sim::ModelProgram>(&plain_frontend_, nullptr);
    watched_.program = watched_program_.get();
    plain_.program = plain_program_.get();
    for (int i = 0; i < 8; ++i) {
      const float seed = 0.75f * static_cast<float>(i);
      watched_.weights.push_back(watched_.program->Make(seed, 64));
      plain_.weights.push_back(plain_.program->Make(seed, 64));
    }
  }

  ~TwinPrograms() override { session_.reset(); }

  // Says whether it is recording, as CUPTI would be taken.
  class Backend final : public engine::HostBackend {
   public:
    Backend(engine::Frontend* frontend, const Options& options, int* open,
            const bool* explains_numbers)
        : HostBackend(frontend, options),
          open_(open),
          explains_numbers_(explains_numbers) {}
    base::Status StartRecording(Pass) override {
      ++*open_;
      return {};
    }
    void StopRecording() override { --*open_; }
    tl::expected<engine::BuiltPlan, engine::BuildFailure> Build(
        const engine::Trace& first, const engine::Trace& second) override {
      const auto slots = engine::ChangingSlots(first, second);
      for (uint32_t k = 0; k < slots.size() && !*explains_numbers_; ++k) {
        if (slots[k] == 0) continue;
        return tl::unexpected<engine::BuildFailure>(
            {base::Error(base::Code::kFailedPrecondition, "told to fail"),
             k,
             {k}});
      }
      return HostBackend::Build(first, second);
    }

   private:
    int* open_;
    const bool* explains_numbers_;
  };

  // Runs the step on both sides, builds what is due, compares what it returns.
  void Both(const std::function<Held(Side&)>& step) {
    const Held held = step(watched_);
    const Held expected = step(plain_);
    builds_.RunAll();
    ASSERT_EQ(held.size(), expected.size());
    for (size_t i = 0; i < held.size(); ++i) {
      ASSERT_EQ(held[i].values(), expected[i].values()) << "tensor " << i;
    }
  }

  std::map<std::string, uint64_t> notes() {
    std::map<std::string, uint64_t> notes;
    session_->Inspect(
        [&notes](const Journal& journal, const std::vector<const TraceEntry*>&,
                 const engine::Frontend&) { notes = journal.notes; });
    return notes;
  }
  Stats stats() {
    Stats stats;
    session_->Inspect(
        [&stats](const Journal& journal, const std::vector<const TraceEntry*>&,
                 const engine::Frontend&) { stats = journal.stats; });
    return stats;
  }

  // The share of ops that a replay answered since `before`.
  double FollowedSince(const Stats& before) {
    const Stats now = stats();
    return static_cast<double>(now.followed - before.followed) /
           static_cast<double>(now.ops - before.ops);
  }

  // Every trace in a line, for the messages of failures.
  std::string Traces() {
    std::ostringstream text;
    session_->Inspect([&text](const Journal& journal,
                              const std::vector<const TraceEntry*>& entries,
                              const engine::Frontend&) {
      for (const TraceEntry* entry : entries) {
        text << entry->signature.ToHex().substr(0, 8) << ": " << entry->ops
             << " ops, seen " << entry->seen << ", " << ToString(entry->state)
             << ", " << entry->replays << " replays, " << entry->squashes
             << " squashes " << entry->reason << "\n";
      }
      for (const auto& [rejection, count] : journal.rejections) {
        text << count << " x rejected: " << rejection.second << "\n";
      }
    });
    return text.str();
  }

  int recordings_open_ = 0;
  bool explains_numbers_ = true;
  // From the next restart on.
  base::Policy policy_ = base::Policy::kAlways;
  base::ManualClock clock_;
  std::atomic<bool> asleep_{false};
  std::atomic<bool> recording_forbidden_{false};
  base::ManualTaskRunner builds_;
  std::unique_ptr<PlanCache> plans_;
  sim::ModelFrontend plain_frontend_;
  sim::ModelFrontend* frontend_ = nullptr;
  std::unique_ptr<StreamSession> session_;
  std::unique_ptr<sim::ModelProgram> watched_program_;
  std::unique_ptr<sim::ModelProgram> plain_program_;
  Side watched_;
  Side plain_;
};

}  // namespace reprise::scheduler

#endif  // REPRISE_TESTS_SCHEDULER_TWIN_PROGRAMS_H_
