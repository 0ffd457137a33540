// A session of the host executor, as tests of stretches use it.

#ifndef REPRISE_TESTS_BINDINGS_TORCH_HOST_SESSION_H_
#define REPRISE_TESTS_BINDINGS_TORCH_HOST_SESSION_H_

#include <cstddef>
#include <memory>
#include <utility>

#include "bindings/torch/runtime/op_table.h"
#include "bindings/torch/runtime/torch_frontend.h"
#include "engine/backend/host_backend.h"
#include "scheduler/build_job.h"
#include "scheduler/plan_cache.h"
#include "scheduler/stream_session.h"
#include "scheduler/stream_writes.h"

namespace reprise::bindings {

// Builds at once, in segments of three ops, and validates no plan again. Both
// are borrowed.
inline std::unique_ptr<scheduler::StreamSession> MakeHostSession(
    scheduler::PlanCache* plans, const scheduler::StreamWrites* writes) {
  scheduler::StreamSession::Parts parts;
  parts.frontend =
      MakeFrontend({scheduler::DeviceKind::kHost, 0, nullptr}, &OpName);
  parts.backend = std::make_unique<engine::HostBackend>(
      parts.frontend.get(),
      engine::HostBackend::Options{.max_arena_bytes = size_t{1} << 24,
                                   .segment_ops = 3});
  parts.plans = plans;
  parts.options.validate_share = 0;
  parts.build = [](const std::shared_ptr<scheduler::BuildJob>& job) {
    job->Run();
  };
  parts.writes = writes;
  return std::make_unique<scheduler::StreamSession>(std::move(parts));
}

}  // namespace reprise::bindings

#endif  // REPRISE_TESTS_BINDINGS_TORCH_HOST_SESSION_H_
