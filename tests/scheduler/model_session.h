// A session of the host, for tests of what lies around sessions.

#ifndef REPRISE_TESTS_SCHEDULER_MODEL_SESSION_H_
#define REPRISE_TESTS_SCHEDULER_MODEL_SESSION_H_

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/backend/host_backend.h"
#include "engine/base/task.h"
#include "scheduler/stream_session.h"
#include "tests/sim/model_frontend.h"

namespace reprise::scheduler {

// A stream's session and the program that runs through it. Both pointers of the
// constructor are borrowed; what `parts` names already stays.
class ModelSession {
 public:
  ModelSession(PlanCache* plans, base::TaskRunner* builds,
               StreamSession::Parts parts = {},
               std::unique_ptr<sim::ModelFrontend> frontend =
                   std::make_unique<sim::ModelFrontend>()) {
    sim::ModelFrontend* const of_session = frontend.get();
    parts.options = parts.options.For(size_t{1} << 30);
    parts.options.validate_share = 0;
    parts.backend = std::make_unique<engine::HostBackend>(
        of_session, engine::HostBackend::Options{
                        .max_arena_bytes = parts.options.max_arena_bytes});
    parts.frontend = std::move(frontend);
    parts.plans = plans;
    parts.build = [builds](std::shared_ptr<BuildJob> job) {
      builds->Post([job] { job->Run(); });
    };
    owned_ = std::make_unique<StreamSession>(std::move(parts));
    session_ = owned_.get();
    program_ = std::make_unique<sim::ModelProgram>(of_session, session_);
    program_->before_op = [](const engine::OpView&) {};
  }

  // Whoever takes it owns it, and this is to be used no longer than that lives.
  std::unique_ptr<StreamSession> Take() { return std::move(owned_); }

  StreamSession& session() { return *session_; }
  sim::ModelProgram& program() { return *program_; }
  // One that has not come before: a trace is open behind it.
  void RunAnOp() { (void)program_->Scale(program_->Make(1), ++factor_); }

 private:
  std::unique_ptr<StreamSession> owned_;
  StreamSession* session_ = nullptr;
  std::unique_ptr<sim::ModelProgram> program_;
  float factor_ = 1;
};

// How often traces of the session ended for that reason.
inline uint64_t CutsFor(StreamSession& session, std::string_view reason) {
  uint64_t cuts = 0;
  session.Inspect([&](const Journal& journal, const auto&, const auto&) {
    for (const auto& [cut, times] : journal.cuts) {
      if (cut.second == reason) cuts += times;
    }
  });
  return cuts;
}

}  // namespace reprise::scheduler

#endif  // REPRISE_TESTS_SCHEDULER_MODEL_SESSION_H_
