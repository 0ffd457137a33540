#include "scheduler/runtime.h"

#include <atomic>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "engine/backend/cuda_backend.h"
#include "engine/backend/host_backend.h"
#include "engine/base/asymmetric_fence.h"
#include "engine/base/mutex.h"
#include "engine/base/task.h"
#include "engine/device/driver.h"
#include "engine/device/launch_recorder.h"
#include "engine/device/relaxed_capture.h"
#include "scheduler/build_queue.h"
#include "scheduler/device_compares.h"
#include "scheduler/program_json.h"
#include "scheduler/report.h"
#include "scheduler/span.h"
#include "scheduler/stream_session.h"
#include "scheduler/stream_writes.h"

namespace reprise::scheduler {
namespace {

// Running statistics, counters, biases: what is larger waits for the program.
constexpr uint64_t kPrivateBytes = uint64_t{64} << 10;

void Add(Stats& sum, const Stats& stats) {
#define REPRISE_STATS_ADD(name, meaning) sum.name += stats.name;
  REPRISE_STATS(REPRISE_STATS_ADD)
#undef REPRISE_STATS_ADD
}

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

// Of several devices the first one's. The process may have less of the host's
// than there is.
base::Result<size_t> MemoryBytes(Devices devices) {
  constexpr size_t kOfTheHost = size_t{16} << 30;
  if (devices.kind == DeviceKind::kHost) return kOfTheHost;
  REPRISE_ASSIGN_OR_RETURN(const device::Driver* const driver,
                           device::Driver::Load());
  CUdevice device = 0;
  REPRISE_CU(*driver, cuDeviceGet(&device, devices.index.value_or(0)));
  size_t bytes = 0;
  REPRISE_CU(*driver, cuDeviceTotalMem(&bytes, device));
  return bytes;
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
      policy_ = devices_.kind == DeviceKind::kCuda ? base::Policy::kMeasured
                                                   : base::Policy::kAlways;
    }
    if (options.build_delays != 0) late_.emplace(queue_, options.build_delays);
    base::AllowsHeavyFence();  // asked now: the first answer takes long
  }

  base::Status LoadDevice() {
    if (devices_.kind == DeviceKind::kHost) return {};
    REPRISE_ASSIGN_OR_RETURN(driver_, device::Driver::Load());
    REPRISE_ASSIGN_OR_RETURN(recorder_,
                             device::LaunchRecorder::Create(*driver_));
    return {};
  }

  Session* SessionFor(const StreamKey& key) REPRISE_EXCLUDES(mutex_) {
    Session* const session = FindOrMake(key);
    // What a pass has of the program's state to itself, others may ask for.
    // Nobody goes on before such passes have ended; none begins any more.
    if (writes_.several() && !privacy_ended_.load(std::memory_order_acquire)) {
      for (StreamSession* other : Sessions()) other->EndPrivacy();
      privacy_ended_.store(true, std::memory_order_release);
    }
    if (session != nullptr) PrepareFor(key);
    return session;
  }

  void Prepare() {
    if (devices_.kind == DeviceKind::kHost ||
        attached_once_.load(std::memory_order_relaxed)) {
      return;
    }
    for (const int device : DevicesInUse()) {
      PrepareFor({.kind = devices_.kind, .device = device});
    }
  }

  Session* FindOrMake(const StreamKey& key) REPRISE_EXCLUDES(mutex_) {
    const base::MutexLock lock(mutex_);
    for (const Slot& slot : sessions_) {
      if (slot.key == key) return slot.session.get();
    }
    auto session = MakeSession(key);
    if (paused_ && session != nullptr) session->Pause();
    // The first one may have its ops passed over only while it is alone.
    if (sessions_.size() == 1 && sessions_[0].session != nullptr) {
      sessions_[0].session->ShowAll();
    }
    if (session != nullptr) writes_.Add(session.get());
    sessions_.push_back({key, std::move(session)});
    return sessions_.back().session.get();
  }

  // Sessions that are made between the two are paused, too: `paused_` is
  // written before, and read after, under the lock that makes them.
  void Pause() REPRISE_EXCLUDES(mutex_) {
    SetPaused(true);
    for (StreamSession* session : Sessions()) session->Pause();
    if (recorder_ != nullptr) recorder_->GiveUp();
  }
  void Resume() REPRISE_EXCLUDES(mutex_) {
    if (!DevicesInUse().empty()) unwatched_.Add();
    SetPaused(false);
    for (StreamSession* session : Sessions()) session->Resume();
  }

  std::vector<StreamSession*> Sessions() const {
    return SessionsOf([](const StreamKey&) { return true; });
  }
  // The others are there for what they write.
  std::vector<StreamSession*> ServedSessions() const {
    return SessionsOf(
        [this](const StreamKey& key) { return devices_.Has(key); });
  }

  Session* Find(const StreamKey& key) const REPRISE_EXCLUDES(mutex_) {
    const base::MutexLock lock(mutex_);
    for (const Slot& slot : sessions_) {
      if (slot.key == key) return slot.session.get();
    }
    return nullptr;
  }

  void InterruptAll(const char* what) {
    // Cleared first: a trace that is begun meanwhile is not missed. Whoever
    // finds it cleared before this has ended finds this (may_have_opened).
    interrupting_.fetch_add(1, std::memory_order_relaxed);
    opened_.store(false, std::memory_order_release);
    InterruptOthers(nullptr, what);
    interrupting_.fetch_sub(1, std::memory_order_release);
  }
  void InterruptOthers(const Session* session, const char* what) {
    for (StreamSession* other : Sessions()) {
      if (other != session) other->Interrupt(what);
    }
  }
  StreamWrites& writes() { return writes_; }
  UnwatchedWork& unwatched() { return unwatched_; }
  // The stream of one of the sessions.
  std::optional<StreamKey> KeyOf(const Session* session) const
      REPRISE_EXCLUDES(mutex_) {
    const base::MutexLock lock(mutex_);
    for (const Slot& slot : sessions_) {
      if (slot.session.get() == session) return slot.key;
    }
    return std::nullopt;
  }
  // Memory was used without an op: what writes it from now on, on whatever
  // stream, is not seen.
  void NoteUnseen() { unseen_.store(true, std::memory_order_relaxed); }
  // The same of an op that may write any memory. It counts once there are
  // several streams: its own stream's session knows of the op.
  void NoteUnknownWrites() {
    if (unknown_writes_.load(std::memory_order_relaxed)) return;
    unknown_writes_.store(true, std::memory_order_relaxed);
  }
  bool unseen() const {
    return unseen_.load(std::memory_order_relaxed) ||
           (unknown_writes_.load(std::memory_order_relaxed) &&
            writes_.several());
  }
  bool may_have_opened() const {
    return opened_.load(std::memory_order_acquire) ||
           interrupting_.load(std::memory_order_acquire) != 0;
  }
  const Skipping& asleep() const { return asleep_; }
  void PassOver(uint64_t ops) {
    for (StreamSession* session : Sessions()) session->PassOver(ops);
  }

  BuildQueue& builds() { return queue_; }

  uint64_t ReleaseMemory(int device, Shortage shortage)
      REPRISE_EXCLUDES(mutex_) {
    if (plans_.stats().charge_bytes == 0) return 0;
    // The driver calls to come are no work of the op that they interrupt, nor
    // of a capture that it belongs to.
    std::optional<device::RelaxedCapture> relaxed;
    const device::LaunchRecorder::Hidden hidden;
    if (devices_.kind == DeviceKind::kCuda) {
      relaxed.emplace(*driver_);
      if (shortage == Shortage::kPossible && !MemoryIsShort()) return 0;
    }
    uint64_t bytes = 0;
    for (StreamSession* session : TrySessionsOf(device)) {
      bytes += session->ReleasePlans();
    }
    return bytes;
  }

  void BeforeMemoryGoes(int device) REPRISE_EXCLUDES(mutex_) {
    for (StreamSession* session : TrySessionsOf(device)) {
      session->BeforeMemoryGoes();
    }
  }

  void AddPlaces(Timeline::Excerpt& excerpt) const REPRISE_EXCLUDES(mutex_) {
    std::map<TrackId, std::vector<size_t>> squashes;
    for (size_t i = 0; i < excerpt.events.size(); ++i) {
      const Timeline::Event& event = excerpt.events[i];
      if (event.doing == Doing::kSquashing) squashes[event.track].push_back(i);
    }
    for (StreamSession* session : Sessions()) {
      const auto found = squashes.find(session->track().id());
      if (found == squashes.end()) continue;
      session->Inspect([&](const Journal& journal, const auto&, const auto&) {
        for (const size_t i : found->second) {
          const Timeline::Event& event = excerpt.events[i];
          const auto places = journal.places.Find(Places::OfSquash(
              event.signature.ToHex(), event.left_at, event.text()));
          if (places.empty()) continue;
          excerpt.places[i] = {places.begin(), places.end()};
        }
      });
    }
  }

  DeviceKind kind() const { return devices_.kind; }
  PlanCache& plans() { return plans_; }
#ifdef REPRISE_MEASURE
  void SkipLaunches(bool skip) {
    skip_launches_.store(skip, std::memory_order_relaxed);
  }
#endif
  void ForbidRecording() {
    recording_forbidden_.store(true, std::memory_order_relaxed);
    for (StreamSession* session : Sessions()) session->StopRecording();
    if (recorder_ != nullptr) recorder_->GiveUp();
  }
  void AllowRecording() {
    recording_forbidden_.store(false, std::memory_order_relaxed);
  }
  uint64_t evictions_before_reset() const { return evictions_before_reset_; }
  void ForgetEvictions() { evictions_before_reset_ = plans_.stats().evictions; }
  const base::Options& options() const { return options_; }

 private:
  // While the program waits, so not beside a graph that it launches; without
  // the lock, which whoever frees memory asks for. CUPTI comes before anything
  // is compiled, which keeps others out of its gate for as long. Failing, it is
  // tried again for the next session; and a recording tries for itself.
  void PrepareFor(const StreamKey& key) {
    if (recorder_ == nullptr || !devices_.Has(key)) return;
    if (!recording_forbidden_.load(std::memory_order_relaxed) &&
        !attached_once_.exchange(true, std::memory_order_relaxed) &&
        !recorder_->Attach()) {
      attached_once_.store(false, std::memory_order_relaxed);
    }
    compares_.Prepare(*driver_, key.device, background());
  }

  // A device of which less than this share is free is short of memory: the next
  // allocation may well be larger.
  static constexpr size_t kFreeShare = 16;

  // The current device's.
  bool MemoryIsShort() const {
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    return driver_->cuMemGetInfo(&free_bytes, &total_bytes) == CUDA_SUCCESS &&
           free_bytes < total_bytes / kFreeShare;
  }

  // What has no context of the framework's has no work.
  std::vector<int> DevicesInUse() const {
    if (devices_.kind == DeviceKind::kHost) return {0};
    std::vector<int> in_use;
    int count = 0;
    if (driver_->cuDeviceGetCount(&count) != CUDA_SUCCESS) count = 0;
    for (int i = 0; i < count; ++i) {
      CUdevice device = 0;
      unsigned flags = 0;
      int active = 1;
      if (driver_->cuDeviceGet(&device, i) != CUDA_SUCCESS ||
          driver_->cuDevicePrimaryCtxGetState(device, &flags, &active) !=
              CUDA_SUCCESS ||
          active != 0) {
        in_use.push_back(i);
      }
    }
    return in_use;
  }

  void SetPaused(bool paused) REPRISE_EXCLUDES(mutex_) {
    const base::MutexLock lock(mutex_);
    paused_ = paused;
  }

  struct Slot {
    StreamKey key;
    std::unique_ptr<StreamSession> session;  // null: none can be had
  };

  template <typename Predicate>
  std::vector<StreamSession*> SessionsOf(Predicate has) const
      REPRISE_EXCLUDES(mutex_) {
    const base::MutexLock lock(mutex_);
    std::vector<StreamSession*> sessions;
    for (const Slot& slot : sessions_) {
      if (slot.session != nullptr && has(slot.key)) {
        sessions.push_back(slot.session.get());
      }
    }
    return sessions;
  }

  // None if another thread has the lock.
  std::vector<StreamSession*> TrySessionsOf(int device)
      REPRISE_EXCLUDES(mutex_) {
    std::vector<StreamSession*> sessions;
    if (!mutex_.TryLock()) return sessions;
    for (const Slot& slot : sessions_) {
      if (slot.session != nullptr && slot.key.device == device) {
        sessions.push_back(slot.session.get());
      }
    }
    mutex_.Unlock();
    return sessions;
  }

  // Null: memory that several plans shared.
  void NoteEviction(const engine::Plan* plan) const {
    if (plan == nullptr) return;
    const engine::Trace& trace = plan->trace();
    track_.Tell(Doing::kEvicted, trace.signature,
                static_cast<uint32_t>(trace.ops.size()), {});
  }

  std::unique_ptr<StreamSession> MakeSession(const StreamKey& key)
      REPRISE_REQUIRES(mutex_) {
    StreamSession::Parts parts;
    parts.kind = devices_.kind;
    parts.frontend = make_frontend_(key);
    if (devices_.kind == DeviceKind::kHost) {
      parts.backend = std::make_unique<engine::HostBackend>(
          parts.frontend.get(),
          engine::HostBackend::Options{
              .max_arena_bytes = options_.max_arena_bytes,
              .private_bytes = [this] { return PrivateBytes(); }});
    } else {
      auto context = ContextFor(key);
      if (!context) {
        base::Log(base::LogLevel::kWarning, context.error().message());
        return nullptr;
      }
      parts.backend = std::make_unique<engine::CudaBackend>(
          *context, parts.frontend.get(),
          engine::CudaBackend::Options{
              .max_arena_bytes = options_.max_arena_bytes,
              .branches = options_.branches,
              .private_bytes = [this] { return PrivateBytes(); },
              .compare =
                  [this, device = key.device] {
                    return compares_.Get(*driver_, device);
                  }});
    }
    parts.options = options_;
    parts.policy = policy_;
    static const std::atomic<bool> always{true};
    parts.recording_forbidden =
        devices_.Has(key) ? &recording_forbidden_ : &always;
    parts.opened = &opened_;
    parts.writes = &writes_;
    parts.under_way = under_way_;
    // Another device's would hide the ops of those that are served.
    if (sessions_.empty() && devices_.Has(key)) parts.asleep = &asleep_;
    parts.unwatched = &unwatched_;
    parts.plans = &plans_;
    parts.track = track_.Of(NameOf(key));
    parts.build = [this](std::shared_ptr<BuildJob> job) {
      background().Post([this, job = std::move(job)]() mutable {
        // The program may capture meanwhile. What the job leaves ends here,
        // too.
        std::optional<device::RelaxedCapture> relaxed;
        if (devices_.kind == DeviceKind::kCuda) relaxed.emplace(*driver_);
        job->Run();
        job.reset();
      });
    };
    return std::make_unique<StreamSession>(std::move(parts));
  }

  uint64_t PrivateBytes() const {
    return writes_.several() ? 0 : kPrivateBytes;
  }

  base::Result<engine::CudaContext> ContextFor(const StreamKey& key)
      REPRISE_REQUIRES(mutex_) {
    engine::CudaContext context;
    context.driver = driver_;
    context.recorder = recorder_.get();
    context.stream = static_cast<CUstream>(key.stream);
    context.builds = &background();
#ifdef REPRISE_MEASURE
    context.skip_launches = &skip_launches_;
#endif
    // The framework's own: retained for as long as the process lives.
    CUdevice device = 0;
    REPRISE_CU(*driver_, cuDeviceGet(&device, key.device));
    REPRISE_CU(*driver_, cuDevicePrimaryCtxRetain(&context.context, device));
    return context;
  }

  base::TaskRunner& background() {
    if (late_.has_value()) return *late_;
    return queue_;
  }

  const Devices devices_;
  const base::Options options_;
  const OpsUnderWay* const under_way_;
  base::Policy policy_;
  Track track_;  // of the cache
  PlanCache plans_;
  std::atomic<uint64_t> evictions_before_reset_{0};
#ifdef REPRISE_MEASURE
  std::atomic<bool> skip_launches_{false};
#endif
  // Relaxed: a session that reads it late holds its lock then, and
  // StopRecording, which takes that lock afterwards, ends what it began.
  std::atomic<bool> recording_forbidden_{false};
  std::atomic<bool> attached_once_{false};
  // Set relaxed: a thread that has begun something finds it, and others that
  // have not been ordered behind that need not.
  std::atomic<bool> opened_{false};
  std::atomic<int> interrupting_{0};  // threads in InterruptAll
  Skipping asleep_;
  UnwatchedWork unwatched_{[this] { return DevicesInUse(); }};
  // Relaxed: the thread that uses memory without an op goes on to order others
  // behind that itself.
  std::atomic<bool> unseen_{false};
  std::atomic<bool> unknown_writes_{false};  // the same
  StreamWrites writes_{under_way_, devices_.kind};
  std::atomic<bool> privacy_ended_{false};
  MakeFrontend make_frontend_;
  const device::Driver* driver_ = nullptr;
  std::unique_ptr<device::LaunchRecorder> recorder_;

  DeviceCompares compares_;

  mutable base::Mutex mutex_;
  std::vector<Slot> sessions_ REPRISE_GUARDED_BY(mutex_);
  bool paused_ REPRISE_GUARDED_BY(mutex_) = false;
  // Its destructor waits for builds, which use all of the above.
  BuildQueue queue_;
  std::optional<base::DelayingTaskRunner> late_;  // if told so
};

base::Result<std::unique_ptr<Runtime>> Runtime::Create(
    Devices devices, const base::Options& options, MakeFrontend make_frontend,
    Timeline* timeline, const OpsUnderWay* under_way) {
  REPRISE_ASSIGN_OR_RETURN(const size_t memory_bytes, MemoryBytes(devices));
  auto impl =
      std::make_unique<Impl>(devices, options.For(memory_bytes),
                             std::move(make_frontend), timeline, under_way);
  REPRISE_RETURN_IF_ERROR(impl->LoadDevice());
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
  for (StreamSession* session : impl_->Sessions()) session->Settle();
  return true;
}

const BuildQueue& Runtime::builds() const { return impl_->builds(); }

void Runtime::Pause() { impl_->Pause(); }

void Runtime::Resume() { impl_->Resume(); }

bool Runtime::Interrupt(const StreamKey& key, const char* what) {
  Session* session = impl_->Find(key);
  return session != nullptr && session->Interrupt(what);
}

void Runtime::InterruptAll(const char* what) { impl_->InterruptAll(what); }

void Runtime::MemoryIsUsed(const char* what) {
  impl_->NoteUnseen();
  impl_->InterruptAll(what);
}

void Runtime::MemoryIsUsedOn(const StreamKey& stream, const char* what) {
  // Once the stream has a session, the others are told of waits for it.
  Session* const session = impl_->SessionFor(stream);
  if (session == nullptr || impl_->writes().several()) {
    MemoryIsUsed(what);
    return;
  }
  impl_->NoteUnknownWrites();
  (void)session->Interrupt(what);
}

void Runtime::NoteUnwatchedWork() { impl_->unwatched().Add(); }

UnwatchedWork& Runtime::unwatched() { return impl_->unwatched(); }

namespace {

// Another runtime does not know what was waited for before.
void Renew(HostWait& wait, const Runtime* runtime) {
  if (wait.runtime == runtime) return;
  wait = {.runtime = runtime, .unwatched = wait.runtime != nullptr};
}

}  // namespace

void Runtime::NoteWait(const StreamKey& stream, HostWait& wait) const {
  const UnwatchedWork& unwatched = impl_->unwatched();
  Renew(wait, this);
  wait.what = HostWait::For::kStream;
  wait.stream = stream;
  wait.began = unwatched.Now();
  wait.unwatched |= unwatched.MayBeOn(stream);
}

void Runtime::NoteWaitForEvent(const void* event, HostWait& wait) const {
  const UnwatchedWork& unwatched = impl_->unwatched();
  Renew(wait, this);
  wait.what = HostWait::For::kEvent;
  wait.began = unwatched.Now();
  wait.unwatched |= unwatched.MayBeBehind(event);
}

void Runtime::NoteWaitForDevice(int device, HostWait& wait) const {
  const UnwatchedWork& unwatched = impl_->unwatched();
  Renew(wait, this);
  wait.what = HostWait::For::kDevice;
  wait.stream.device = device;
  wait.began = unwatched.Now();
  wait.unwatched |= unwatched.any();
}

void Runtime::BeforeWait(const StreamKey& stream, const char* what,
                         HostWait& wait) {
  NoteWait(stream, wait);
  wait.number = 0;
  if (impl_->unseen()) {
    impl_->InterruptAll(what);
    return;
  }
  Session* const session = impl_->Find(stream);
  if (wait.unwatched) {
    impl_->InterruptAll(what);
  } else if (session != nullptr) {
    (void)session->Interrupt(what);
  }
  // Also where it has none: events may have led there from others.
  wait.number = impl_->writes().BeforeWait(session);
}

void Runtime::BeforeWaitForEvent(const void* event, HostWait& wait) {
  NoteWaitForEvent(event, wait);
  if (impl_->unseen() || wait.unwatched) {
    impl_->InterruptAll("the host waits for an event");
  } else {
    (void)impl_->writes().BeforeWait(nullptr);
  }
}

void Runtime::AfterWait(const HostWait& noted) {
  using For = HostWait::For;
  UnwatchedWork& unwatched = impl_->unwatched();
  const HostWait wait = noted.runtime == this ? noted : HostWait{};
  // Such work may have come during the wait.
  const bool may_be_unwatched =
      wait.unwatched ||
      (unwatched.any() && (wait.what == For::kUnknown ||
                           wait.began.additions != unwatched.Now().additions));
  if (impl_->unseen() || may_be_unwatched) {
    impl_->InterruptAll("the host has waited");
  }
  if (!impl_->unseen()) impl_->writes().AfterWait(wait.number);
  if (wait.what == For::kStream) {
    unwatched.HasWaitedFor(wait.stream, wait.began);
  } else if (wait.what == For::kDevice) {
    unwatched.HasWaitedForDevice(wait.stream.device, wait.began);
  }
}

bool Runtime::tells_of_waits() const {
  return impl_->unseen() || impl_->unwatched().any() ||
         impl_->writes().several();
}

void Runtime::BeforeUnknownWrites(Session* session, const uint64_t* at) {
  constexpr char kWhat[] = "an op may write any memory";
  impl_->NoteUnknownWrites();
  if (session == nullptr || impl_->writes().several()) {
    impl_->InterruptOthers(session, kWhat);
  }
  if (session != nullptr && at != nullptr) {
    session->InterruptUnlessAt(at, kWhat);
  }
}

void Runtime::NoteUnseen() { impl_->NoteUnseen(); }

void Runtime::BeforeOp(Session* session, const engine::OpView& op,
                       bool may_wait, HostWait& wait) {
  if (!impl_->writes().several()) return;
  if (may_wait) {
    const UnwatchedWork& unwatched = impl_->unwatched();
    wait = {.runtime = this, .what = HostWait::For::kOp};
    wait.began = unwatched.Now();
    if (unwatched.any()) {
      const std::optional<StreamKey> stream = impl_->KeyOf(session);
      wait.unwatched = !stream.has_value() || unwatched.MayBeOn(*stream);
    }
    if (impl_->unseen() || wait.unwatched) {
      impl_->InterruptOthers(session, "the host waits for another stream");
    }
  }
  impl_->writes().BeforeOp(session, op, may_wait);
}

bool Runtime::has_several_streams() const { return impl_->writes().several(); }

bool Runtime::may_have_opened() const { return impl_->may_have_opened(); }

const Skipping& Runtime::asleep() const { return impl_->asleep(); }

void Runtime::PassOver(uint64_t ops) { impl_->PassOver(ops); }

void Runtime::ForbidRecording() { impl_->ForbidRecording(); }

void Runtime::AllowRecording() { impl_->AllowRecording(); }

void Runtime::Reset() {
  Wait(std::nullopt);
  for (StreamSession* session : impl_->Sessions()) session->Reset();
  impl_->ForgetEvictions();
}

Stats Runtime::stats() const {
  Stats sum;
  for (StreamSession* session : impl_->ServedSessions()) {
    session->Inspect(
        [&sum](const Journal& journal, const std::vector<const TraceEntry*>&,
               const engine::Frontend&) { Add(sum, journal.stats); });
  }
  const PlanCache::Stats plans = impl_->plans().stats();
  sum.plans =
      impl_->plans().CountIf([](const PlanKey& key) { return key.is_plan(); });
  sum.plan_bytes = plans.charge_bytes;
  sum.evictions = plans.evictions - impl_->evictions_before_reset();
  return sum;
}

std::string Runtime::ExplainJson() const {
  return ReportJson(impl_->kind() == DeviceKind::kCuda ? "cuda" : "host",
                    stats(), impl_->ServedSessions());
}

std::string Runtime::PlanJson(const std::string& signature) const {
  for (StreamSession* session : impl_->Sessions()) {
    if (const auto program = session->FindProgram(signature)) {
      return ProgramJson(*program);
    }
  }
  return {};
}

void Runtime::AddPlaces(Timeline::Excerpt& excerpt) const {
  impl_->AddPlaces(excerpt);
}

const base::Options& Runtime::options() const { return impl_->options(); }

#ifdef REPRISE_MEASURE
void Runtime::SkipLaunches(bool skip) { impl_->SkipLaunches(skip); }
#endif

uint64_t Runtime::ReleaseMemory(int device, Shortage shortage) {
  return impl_->ReleaseMemory(device, shortage);
}

void Runtime::BeforeMemoryGoes(int device) { impl_->BeforeMemoryGoes(device); }

}  // namespace reprise::scheduler
