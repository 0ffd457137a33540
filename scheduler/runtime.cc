#include "scheduler/runtime.h"

#include <atomic>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/asymmetric_fence.h"
#include "engine/base/task.h"
#include "engine/device/launch_recorder.h"
#include "engine/device/relaxed_capture.h"
#include "scheduler/build_queue.h"
#include "scheduler/interrupts.h"
#include "scheduler/program_json.h"
#include "scheduler/report.h"
#include "scheduler/runtime_devices.h"
#include "scheduler/session_table.h"
#include "scheduler/span.h"
#include "scheduler/stream_backends.h"
#include "scheduler/stream_session.h"
#include "scheduler/stream_writes.h"

namespace reprise::scheduler {
namespace {

// For people.
std::string NameOf(const StreamKey& key) {
  if (key.kind == DeviceKind::kHost) return "host";
  std::ostringstream name;
  name << "cuda:" << key.device << ", ";
  if (key.stream == nullptr) {
    name << "default stream";
  } else {
    name << "stream " << key.stream;
  }
  return std::move(name).str();
}

}  // namespace

class Runtime::Impl {
 public:
  Impl(Devices devices, const base::Options& options,
       MakeFrontend make_frontend, Timeline* timeline,
       const OpsUnderWay* under_way)
      : devices_(devices),
        options_(options),
        under_way_(under_way),
        plans_(
            options.plan_budget_bytes,
            [this](const PlanKey&, const std::unique_ptr<engine::Plan>& plan) {
              NoteEviction(plan.get());
            }),
        make_frontend_(std::move(make_frontend)) {
    if (timeline != nullptr) track_ = Track(timeline, &plans_, "plans");
    if (options.nvtx) track_.ShowRanges();
    policy_ = options.policy;
    if (policy_ == base::Policy::kAuto) {
      policy_ =
          devices_.is_host() ? base::Policy::kAlways : base::Policy::kMeasured;
    }
    if (options.build_delays != 0) late_.emplace(queue_, options.build_delays);
    base::AllowsHeavyFence();  // asked now: the first answer takes long
  }

  base::Status LoadDevices() { return devices_.Load(); }

  Session* SessionFor(const StreamKey& key) {
    Session* const session = sessions_.FindOrMake(key);
    // What a pass has of the program's state to itself, others may ask for.
    // Nobody goes on before such passes have ended; none begins any more.
    if (writes_.several() && !privacy_ended_.load(std::memory_order_acquire)) {
      for (StreamSession* other : sessions_.All()) other->EndPrivacy();
      privacy_ended_.store(true, std::memory_order_release);
    }
    if (session != nullptr) PrepareFor(key);
    return session;
  }

  void Prepare() {
    if (devices_.is_host() || devices_.attached_once()) return;
    for (const int device : devices_.InUse()) {
      PrepareFor({.kind = devices_.kind(), .device = device});
    }
  }

  void Pause() {
    sessions_.Pause();
    GiveUpRecorder();
  }
  void Resume() {
    if (!devices_.InUse().empty()) unwatched_.Add();
    sessions_.Resume();
  }

  uint64_t ReleaseMemory(int device, Shortage shortage) {
    if (plans_.stats().charge_bytes == 0) return 0;
    // The driver calls to come are no work of the op that they interrupt, nor
    // of a capture that it belongs to.
    std::optional<device::RelaxedCapture> relaxed;
    const device::LaunchRecorder::Hidden hidden;
    if (!devices_.is_host()) {
      relaxed.emplace(*devices_.driver());
      if (shortage == Shortage::kPossible && !devices_.MemoryIsShort()) {
        return 0;
      }
    }
    uint64_t bytes = 0;
    for (StreamSession* session : sessions_.TryOf(device)) {
      bytes += session->ReleasePlans();
    }
    return bytes;
  }

  void ForbidRecording() {
    recording_forbidden_.store(true, std::memory_order_relaxed);
    for (StreamSession* session : sessions_.All()) session->StopRecording();
    GiveUpRecorder();
  }
  void AllowRecording() {
    recording_forbidden_.store(false, std::memory_order_relaxed);
  }
#ifdef REPRISE_MEASURE
  void SkipLaunches(bool skip) { backends_.SkipLaunches(skip); }
#endif
  uint64_t evictions() const {
    return plans_.stats().evictions - evictions_before_reset_;
  }
  void ForgetEvictions() { evictions_before_reset_ = plans_.stats().evictions; }

  const base::Options& options() const { return options_; }
  const RuntimeDevices& devices() const { return devices_; }
  PlanCache& plans() { return plans_; }
  BuildQueue& builds() { return queue_; }
  SessionTable& sessions() { return sessions_; }
  Interrupts& interrupts() { return interrupts_; }
  StreamWrites& writes() { return writes_; }
  UnwatchedWork& unwatched() { return unwatched_; }
  const Skipping& asleep() const { return asleep_; }

 private:
  void PrepareFor(const StreamKey& key) {
    devices_.Prepare(key, !recording_forbidden_.load(std::memory_order_relaxed),
                     background());
  }
  void GiveUpRecorder() {
    if (devices_.recorder() != nullptr) devices_.recorder()->GiveUp();
  }

  // Null: memory that several plans shared.
  void NoteEviction(const engine::Plan* plan) const {
    if (plan == nullptr) return;
    const engine::Trace& trace = plan->trace();
    track_.Tell(Doing::kEvicted, trace.signature,
                static_cast<uint32_t>(trace.ops.size()), {});
  }

  std::unique_ptr<StreamSession> MakeSession(const StreamKey& key,
                                             SessionTable::Place place) {
    StreamSession::Parts parts;
    parts.kind = devices_.kind();
    parts.frontend = make_frontend_(key);
    auto backend = backends_.Make(key, parts.frontend.get(), &background());
    if (!backend) {
      base::Log(base::LogLevel::kWarning, backend.error().message());
      return nullptr;
    }
    parts.backend = *std::move(backend);
    parts.options = options_;
    parts.policy = policy_;
    static const std::atomic<bool> always{true};
    const bool served = devices_.Serves(key);
    parts.recording_forbidden = served ? &recording_forbidden_ : &always;
    parts.opened = interrupts_.opened();
    parts.writes = &writes_;
    parts.under_way = under_way_;
    // Another device's would hide the ops of those that are served.
    if (place == SessionTable::Place::kFirst && served) parts.asleep = &asleep_;
    parts.unwatched = &unwatched_;
    parts.plans = &plans_;
    parts.track = track_.Of(NameOf(key));
    parts.build = [this](std::shared_ptr<BuildJob> job) {
      Post(std::move(job));
    };
    return std::make_unique<StreamSession>(std::move(parts));
  }

  // Runs the job off the program's threads.
  void Post(std::shared_ptr<BuildJob> job) {
    background().Post([this, job = std::move(job)]() mutable {
      // The program may capture meanwhile. What the job leaves ends here, too.
      std::optional<device::RelaxedCapture> relaxed;
      if (!devices_.is_host()) relaxed.emplace(*devices_.driver());
      job->Run();
      job.reset();
    });
  }

  base::TaskRunner& background() {
    if (late_.has_value()) return *late_;
    return queue_;
  }

  RuntimeDevices devices_;
  const base::Options options_;
  const OpsUnderWay* const under_way_;
  base::Policy policy_;
  Track track_;  // of the cache
  PlanCache plans_;
  std::atomic<uint64_t> evictions_before_reset_{0};
  // Relaxed: a session that reads it late holds its lock then, and
  // StopRecording, which takes that lock afterwards, ends what it began.
  std::atomic<bool> recording_forbidden_{false};
  Skipping asleep_;
  UnwatchedWork unwatched_{[this] { return devices_.InUse(); }};
  StreamWrites writes_{under_way_, devices_.kind()};
  StreamBackends backends_{
      {.devices = &devices_, .options = &options_, .writes = &writes_}};
  std::atomic<bool> privacy_ended_{false};
  const MakeFrontend make_frontend_;
  Interrupts interrupts_{
      {.sessions = &sessions_, .writes = &writes_, .unwatched = &unwatched_}};
  SessionTable sessions_{
      &writes_, [this](const StreamKey& key, SessionTable::Place place) {
        return MakeSession(key, place);
      }};
  // Its destructor waits for builds, which use all of the above.
  BuildQueue queue_;
  std::optional<base::DelayingTaskRunner> late_;  // if told so
};

base::Result<std::unique_ptr<Runtime>> Runtime::Create(
    Devices devices, const base::Options& options, MakeFrontend make_frontend,
    Timeline* timeline, const OpsUnderWay* under_way) {
  REPRISE_ASSIGN_OR_RETURN(const size_t memory_bytes,
                           RuntimeDevices::MemoryBytes(devices));
  auto impl =
      std::make_unique<Impl>(devices, options.For(memory_bytes),
                             std::move(make_frontend), timeline, under_way);
  REPRISE_RETURN_IF_ERROR(impl->LoadDevices());
  return std::unique_ptr<Runtime>(new Runtime(std::move(impl)));
}

Runtime::Runtime(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Runtime::~Runtime() = default;

void Runtime::Prepare() { impl_->Prepare(); }

Session* Runtime::SessionFor(const StreamKey& key) {
  return impl_->SessionFor(key);
}

bool Runtime::Wait(std::optional<std::chrono::milliseconds> timeout) {
  if (!impl_->builds().WaitIdle(timeout)) return false;
  for (StreamSession* session : impl_->sessions().All()) session->Settle();
  return true;
}

const BuildQueue& Runtime::builds() const { return impl_->builds(); }

void Runtime::Pause() { impl_->Pause(); }

void Runtime::Resume() { impl_->Resume(); }

bool Runtime::Interrupt(const StreamKey& key, const char* what) {
  Session* session = impl_->sessions().Find(key);
  return session != nullptr && session->Interrupt(what);
}

void Runtime::MemoryIsUsedOn(const StreamKey& stream, const char* what) {
  // Once the stream has a session, the others are told of waits for it.
  Session* const session = impl_->SessionFor(stream);
  if (session == nullptr || impl_->writes().several()) {
    impl_->interrupts().MemoryIsUsed(what);
    return;
  }
  impl_->interrupts().NoteUnknownWrites();
  (void)session->Interrupt(what);
}

Interrupts& Runtime::interrupts() { return impl_->interrupts(); }

UnwatchedWork& Runtime::unwatched() { return impl_->unwatched(); }

const Skipping& Runtime::asleep() const { return impl_->asleep(); }

void Runtime::PassOver(uint64_t ops) {
  for (StreamSession* session : impl_->sessions().All()) session->PassOver(ops);
}

void Runtime::ForbidRecording() { impl_->ForbidRecording(); }

void Runtime::AllowRecording() { impl_->AllowRecording(); }

void Runtime::Reset() {
  Wait(std::nullopt);
  for (StreamSession* session : impl_->sessions().All()) session->Reset();
  impl_->ForgetEvictions();
}

Stats Runtime::stats() const {
  Stats sum = SumOfStats(impl_->sessions().Of(impl_->devices().served()));
  sum.plans =
      impl_->plans().CountIf([](const PlanKey& key) { return key.is_plan(); });
  sum.plan_bytes = impl_->plans().stats().charge_bytes;
  sum.evictions = impl_->evictions();
  return sum;
}

std::string Runtime::ExplainJson() const {
  return ReportJson(impl_->devices().is_host() ? "host" : "cuda", stats(),
                    impl_->sessions().Of(impl_->devices().served()));
}

std::string Runtime::PlanJson(const std::string& signature) const {
  for (StreamSession* session : impl_->sessions().All()) {
    if (const auto program = session->FindProgram(signature)) {
      return ProgramJson(*program);
    }
  }
  return {};
}

void Runtime::AddPlaces(Timeline::Excerpt& excerpt) const {
  scheduler::AddPlaces(excerpt, impl_->sessions().All());
}

const base::Options& Runtime::options() const { return impl_->options(); }

#ifdef REPRISE_MEASURE
void Runtime::SkipLaunches(bool skip) { impl_->SkipLaunches(skip); }
#endif

uint64_t Runtime::ReleaseMemory(int device, Shortage shortage) {
  return impl_->ReleaseMemory(device, shortage);
}

void Runtime::BeforeMemoryGoes(int device) {
  for (StreamSession* session : impl_->sessions().TryOf(device)) {
    session->BeforeMemoryGoes();
  }
}

}  // namespace reprise::scheduler
