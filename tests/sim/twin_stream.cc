#include "tests/sim/twin_stream.h"

#include <algorithm>
#include <utility>

#include "engine/backend/cuda_backend.h"
#include "engine/backend/host_backend.h"

namespace reprise::sim {

using scheduler::StreamSession;

namespace {
constexpr size_t kMaxArenaBytes = size_t{256} << 10;
}  // namespace

TwinStream::TwinStream(const RunOptions& options, TwinDevice* device,
                       CUstream stream, StreamOps* aside)
    : options_(options),
      device_(*device),
      stream_(stream),
      ops_({.gpu = &device->gpu,
            .kernels = &device->kernels,
            .memory = &device->memory,
            .host_calls = &device->host_calls,
            .frontend = nullptr,
            .session = nullptr,
            .stream = stream,
            .fault = options.fault,
            .before_op =
                [device](scheduler::Session* session, const engine::OpView& op,
                         bool waits) { device->BeforeOp(session, op, waits); },
            .before_memory_goes = [device] { device->BeforeMemoryGoes(); },
            .aside = aside,
            .other_thread = device->under_way.Acquire()}) {
  ops_.foretold_percent = options.foretold_percent;
  Take(0);
}

void TwinStream::Begin() {
  if (std::exchange(begun_, true)) return;
  for (const Slot& slot : slots_) {
    if (slot.session != nullptr) Add(slot.session.get());
  }
}

void TwinStream::Add(StreamSession* session) {
  device_.writes.Add(session);
  device_.begun.push_back(session);
  if (!device_.writes.several()) return;
  for (StreamSession* begun : device_.begun) begun->EndPrivacy();
}

TwinStream::~TwinStream() {
  RunResult result;
  End(result);
}

void TwinStream::Pause(bool shows_ops_all_the_same) {
  if (options_.fault != Fault::kOpenWhilePaused) session().Pause();
  ops_.shows = shows_ops_all_the_same;
}

void TwinStream::Resume() {
  session().Resume();
  ops_.shows = true;
}

void TwinStream::Reset() {
  Collect(session());
  session().Reset();
}

void TwinStream::TakeOtherOptions() {
  session().Pause();
  Take(1 - slot_);
  Resume();
}

void TwinStream::Take(size_t slot) {
  if (slots_[slot].session == nullptr) {
    RunOptions options = options_;
    if (slot == 1) {
      options.validate_share = options_.validate_share == 0 ? 0.5 : 0;
      options.max_instances = 3 - options_.max_instances;
      ++options.segment_launches;
    }
    MakeSession(options, slots_[slot]);
  }
  slot_ = slot;
  ops_.Use(slots_[slot].frontend, slots_[slot].session.get());
}

void TwinStream::MakeSession(const RunOptions& options, Slot& slot) {
  auto frontend = std::make_unique<StreamFrontend>(
      &device_.gpu, &device_.memory, stream_, options.fault);
  frontend->calls_draw = options.executes == Executes::kOnHost;
  slot.frontend = frontend.get();
  StreamSession::Parts parts;
  parts.options.validate_share = options.validate_share;
  parts.options.max_arena_bytes = kMaxArenaBytes;
  parts.options.max_instances = options.max_instances;
  parts.options.trace_budget_bytes = options.trace_budget_bytes;
  if (options.shares_arenas) parts.options.shared_arena_bytes = 0;
  parts.policy = options.policy;
  parts.clock = &device_.clock;
  parts.backend = WatchBackend(MakeBackend(options, slot.frontend),
                               options.fault, &device_.counts);
  parts.frontend = std::move(frontend);
  parts.plans = &device_.plans;
  parts.writes = &device_.writes;
  parts.under_way = device_.UnderWay();
  parts.build = [this](std::shared_ptr<scheduler::BuildJob> job) {
    device_.builds.Post([job] { job->Run(); });
  };
  slot.session = std::make_unique<StreamSession>(std::move(parts));
  if (begun_) Add(slot.session.get());
  if (options.executes == Executes::kOnDevice &&
      options.fault != Fault::kGoesUntold) {
    device_.told.push_back(slot.session.get());
  }
}

std::unique_ptr<engine::Backend> TwinStream::MakeBackend(
    const RunOptions& options, StreamFrontend* frontend) {
  const auto private_bytes = [this, most = options.private_bytes] {
    return device_.writes.several() ? 0 : most;
  };
  if (options.executes == Executes::kOnHost) {
    return std::make_unique<engine::HostBackend>(
        frontend,
        engine::HostBackend::Options{.max_arena_bytes = kMaxArenaBytes,
                                     .segment_ops = options.segment_launches,
                                     .private_bytes = private_bytes});
  }
  engine::CudaContext context;
  device_.gpu.forgets_every = 5;
  context.driver = &device_.gpu.driver;
  context.recorder = device_.recorder.get();
  context.stream = stream_;
  context.context = device_.gpu.context;
#ifdef REPRISE_MEASURE
  context.skip_launches = &device_.skip_launches;
#endif
  engine::CudaBackend::Options how;
  how.max_arena_bytes = kMaxArenaBytes;
  how.segment_launches = options.segment_launches;
  how.private_bytes = private_bytes;
  how.compare = [this] { return device_.Compare(); };
  return std::make_unique<engine::CudaBackend>(context, frontend, how);
}

void TwinStream::ClearWorkspaces() {
  for (const Slot& slot : slots_) {
    if (slot.frontend != nullptr) slot.frontend->ClearWorkspace();
  }
}

scheduler::Stats TwinStream::Stats() {
  scheduler::Stats stats;
  for (Slot& slot : slots_) {
    if (slot.session == nullptr) continue;
    slot.session->Inspect([&stats](const scheduler::Journal& journal,
                                   const auto&, const engine::Frontend&) {
      stats.ops += journal.stats.ops;
      stats.followed += journal.stats.followed;
    });
  }
  return stats;
}

void TwinStream::Collect(StreamSession& session) {
  session.Inspect([this](const scheduler::Journal& journal, const auto&,
                         const engine::Frontend&) {
#define REPRISE_ADD(name, meaning) stats_.name += journal.stats.name;
    REPRISE_STATS(REPRISE_ADD)
#undef REPRISE_ADD
    for (const auto& [where, times] : journal.rejections) {
      complaints_.push_back(where.second);
    }
    for (const auto& [note, times] : journal.notes) {
      complaints_.push_back(note);
    }
    for (const auto& [cut, times] : journal.cuts) {
      complaints_.push_back(cut.second);
    }
  });
}

void TwinStream::End(RunResult& result) {
  for (Slot& slot : slots_) {
    if (slot.session == nullptr) continue;
    slot.session->Settle();
    Collect(*slot.session);
    std::erase(device_.told, slot.session.get());
    slot.session.reset();
  }
#define REPRISE_ADD(name, meaning) result.stats.name += stats_.name;
  REPRISE_STATS(REPRISE_ADD)
#undef REPRISE_ADD
  result.complaints.insert(result.complaints.end(), complaints_.begin(),
                           complaints_.end());
  result.ops += ops_.ops();
}

}  // namespace reprise::sim
