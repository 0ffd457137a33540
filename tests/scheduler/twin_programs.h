// One program run twice: through a session, and plainly beside it.

#ifndef REPRISE_TESTS_SCHEDULER_TWIN_PROGRAMS_H_
#define REPRISE_TESTS_SCHEDULER_TWIN_PROGRAMS_H_

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "engine/backend/host_backend.h"
#include "engine/base/clock.h"
#include "engine/base/task.h"
#include "engine/trace/memory_watch.h"
#include "scheduler/ops_under_way.h"
#include "scheduler/span.h"
#include "scheduler/stream_session.h"
#include "scheduler/stream_writes.h"
#include "scheduler/timeline.h"
#include "tests/engine/base/manual_clock.h"
#include "tests/engine/base/manual_task_runner.h"
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
  void Restart(size_t plan_budget_bytes = size_t{1} << 20,
               size_t trace_budget_bytes = base::Options{}.trace_budget_bytes) {
    session_.reset();
    plans_ = std::make_unique<PlanCache>(plan_budget_bytes);
    base::Options options = base::Options().For(size_t{1} << 30);
    options.validate_share = validate_share_;
    options.trace_budget_bytes = trace_budget_bytes;
    options.shared_arena_bytes = shared_arena_bytes_;
    StreamSession::Parts parts;
    auto frontend = std::make_unique<sim::ModelFrontend>();
    frontend_ = frontend.get();
    parts.backend = std::make_unique<Backend>(
        frontend.get(),
        engine::HostBackend::Options{
            .max_arena_bytes = options.max_arena_bytes,
            .segment_ops = 3,
            .private_bytes = [this] { return private_bytes_; }},
        this);
    parts.recording_forbidden = &recording_forbidden_;
    parts.asleep = &asleep_;
    parts.policy = policy_;
    parts.clock = &clock_;
    parts.frontend = std::move(frontend);
    parts.options = options;
    parts.plans = plans_.get();
    parts.writes = &writes_;
    parts.under_way = &under_way_;
    parts.track = Track(&timeline_, plans_.get(), "plans").Of("stream");
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

  // Says what it is asked for, and does what the test says.
  class Backend final : public engine::HostBackend {
   public:
    Backend(engine::Frontend* frontend, const Options& options,
            TwinPrograms* test)
        : HostBackend(frontend, options), test_(test) {}
    base::Status StartRecording(Recording, uint64_t) override {
      ++test_->recordings_open_;
      test_->foreign_work_.reset();
      return {};
    }
    void StopRecording() override { --test_->recordings_open_; }
    base::Status BeginOp(const engine::OpView& op) override {
      if (test_->unheard_ops_ > 0 && --test_->unheard_ops_ == 0) {
        return base::Fail(base::Code::kUnavailable, "nobody is heard");
      }
      return HostBackend::BeginOp(op);
    }
    std::string EndOp(engine::TracedOp& op) override {
      std::string refusal = HostBackend::EndOp(op);
      const bool refused =
          test_->refused_op_ == static_cast<sim::ModelOp>(op.op) &&
          test_->refusals_left_ > 0;
      if (!refused) return refusal;
      --test_->refusals_left_;
      return "told to refuse";
    }
    std::optional<std::string> TakeForeignWork() override {
      return std::exchange(test_->foreign_work_, std::nullopt);
    }
    Explained Explain(std::shared_ptr<const engine::Trace> first,
                      const engine::Trace& second) override {
      ++test_->builds_run_;
      if (test_->on_build_) test_->on_build_();
      if (test_->failing_builds_ > 0 || first->ops.size() > test_->most_ops_) {
        if (test_->failing_builds_ > 0) --test_->failing_builds_;
        return tl::unexpected<engine::BuildFailure>(
            {base::Error(base::Code::kFailedPrecondition, "told to fail"),
             std::nullopt});
      }
      if (test_->outdated_builds_ > 0) {
        --test_->outdated_builds_;
        return tl::unexpected<engine::BuildFailure>(
            {.error = base::Error(base::Code::kUnavailable, "told to fail"),
             .op = std::nullopt,
             .outdated = true});
      }
      const auto slots = engine::ChangingSlots(*first, second);
      for (uint32_t k = 0; k < slots.size() && !test_->explains_numbers_; ++k) {
        if (slots[k].empty()) continue;
        return tl::unexpected<engine::BuildFailure>(
            {base::Error(base::Code::kFailedPrecondition, "told to fail"),
             k,
             {k}});
      }
      auto program = HostBackend::Explain(first, second);
      if (program && test_->moves_must_be_seen_) {
        std::vector<bool>& movable =
            const_cast<engine::Program&>(**program).movable;
        for (engine::ValueId v = 0; v < first->values.size(); ++v) {
          movable[v] = !first->values[v].external ||
                       first->values[v].origin != second.values[v].origin;
        }
      }
      if (program && test_->library_memory_.has_value()) {
        // Nobody else has seen it yet.
        const_cast<engine::Program&>(**program).lasting =
            test_->WatchLibraryMemory();
      }
      return program;
    }

   private:
    TwinPrograms* test_;
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
    session_->Inspect([&notes](const Journal& journal,
                               const std::vector<const TraceEntry*>&,
                               const engine::Frontend&) {
      notes = {journal.notes.begin(), journal.notes.end()};
    });
    return notes;
  }
  // Cuts for that reason, of all ops.
  uint64_t Cuts(const std::string& reason) {
    uint64_t cuts = 0;
    session_->Inspect([&](const Journal& journal, const auto&, const auto&) {
      for (const auto& [cut, times] : journal.cuts) {
        if (cut.second.starts_with(reason)) cuts += times;
      }
    });
    return cuts;
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

  // Of a library's memory, which is freed and taken again.
  void FreeLibraryMemory() {
    watches_.Freed(library_memory_->address, library_memory_->size_bytes);
  }
  std::shared_ptr<const engine::MemoryWatch> WatchLibraryMemory() {
    auto watch =
        watches_.Begin([this] { return std::vector{*library_memory_}; });
    watch->Narrow(std::array{library_memory_->address});
    return watch;
  }

  engine::MemoryWatches watches_;
  // What all plans that are built from now on name.
  std::optional<engine::MemoryWatches::Block> library_memory_;
  int recordings_open_ = 0;  // CUPTI would be taken as often
  int builds_run_ = 0;
  std::function<void()> on_build_;  // runs within each build
  int failing_builds_ = 0;          // so many, for nothing of the trace
  int outdated_builds_ = 0;  // so many, of what a library has freed meanwhile
  size_t most_ops_ = size_t{1} << 20;  // of which a trace can be built
  bool explains_numbers_ = true;
  // As of launches: what lies where it did in both recordings may not move.
  bool moves_must_be_seen_ = false;
  // Recorded, this op is refused so often.
  sim::ModelOp refused_op_ = sim::ModelOp::kAdd;
  int refusals_left_ = 0;
  std::optional<std::string> foreign_work_;  // before the next op
  int unheard_ops_ = 0;         // the last of so many cannot be recorded
  uint64_t private_bytes_ = 0;  // of what plans have copies of
  // From the next restart on.
  double validate_share_ = 0;
  base::Policy policy_ = base::Policy::kAlways;
  size_t shared_arena_bytes_ = base::Options{}.shared_arena_bytes;
  base::ManualClock clock_;
  Timeline timeline_{&clock_};
  Skipping asleep_;
  std::atomic<bool> recording_forbidden_{false};
  base::ManualTaskRunner builds_;
  StreamWrites writes_;    // knows no stream
  OpsUnderWay under_way_;  // those of other threads
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
