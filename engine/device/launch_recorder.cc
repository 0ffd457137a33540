#include "engine/device/launch_recorder.h"

#include <atomic>
#include <chrono>
#include <exception>
#include <thread>
#include <utility>

#include "engine/base/log.h"
#include "engine/device/call_parameters.h"
#include "engine/device/cupti.h"
#include "engine/device/cupti_attachment.h"
#include "engine/device/cupti_gate.h"
#include "engine/device/driver_call.h"
#include "engine/device/exiting.h"
#include "engine/device/forked_streams.h"
#include "engine/device/launch_decoder.h"

namespace reprise::device {
namespace {

using base::Code;
using base::Fail;
using base::Status;

// An op between BeginOp and EndOp; belongs to the thread that opened it.
struct OpenOp {
  uint64_t session = 0;
  std::unique_ptr<LaunchDecoder> decoder;
  std::vector<Launch> launches;
  std::optional<ForkedStreams> forks;  // if it may have some
  // Why and by which call it is refused; literals of ours and of CUPTI.
  const char* refused_call = nullptr;
  const char* refusal = nullptr;

  void Refuse(const char* call, const char* reason) {
    if (refusal != nullptr) return;
    refused_call = call;
    refusal = reason;
  }
};

// What callbacks share. It lives for the whole process, so that a callback that
// is still running on another thread when its recorder stops touches nothing
// that is gone; a value of the wrong session that it may then write is a cut
// too many, no more. Relaxed throughout: an op is opened on the thread whose
// calls it records, and `stream` is written before CUPTI is told to call.
struct Watch {
  std::atomic<const void*> owner{nullptr};
  std::atomic<uint64_t> session{0};
  std::atomic<uint64_t> unloads{0};
  std::atomic<CUstream> stream{nullptr};
  std::atomic<CUcontext> context{nullptr};
  std::atomic<const char*> foreign_call{nullptr};
};
constinit Watch watch;

struct ThreadState {
  int hidden = 0;
  bool in_graph_of_program = false;
  bool asks = false;   // the next call is of HearsThisThread
  bool heard = false;  // it came back
  OpenOp* op = nullptr;
};
constinit thread_local ThreadState thread_state;

// Hidden without the gate, for which a callback must not wait.
class HiddenInCallback {
 public:
  HiddenInCallback() { ++thread_state.hidden; }
  ~HiddenInCallback() { --thread_state.hidden; }
  HiddenInCallback(const HiddenInCallback&) = delete;
  HiddenInCallback& operator=(const HiddenInCallback&) = delete;
};

constexpr auto kRelaxed = std::memory_order_relaxed;

// For a tool that is about to need CUPTI.
constexpr std::chrono::seconds kPatience(2);
// For a head that detaches CUPTI, which takes it as long.
constexpr std::chrono::milliseconds kPatienceOfAHead(2);

bool InWatchedContext(const CUpti_CallbackData& data) {
  const CUcontext context = watch.context.load(kRelaxed);
  return context == nullptr || context == data.context;
}

bool TouchesWatched(const DriverCall& call, const CUpti_CallbackData& data) {
  return InWatchedContext(data) &&
         TouchesStream(call, data.functionParams, watch.stream.load(kRelaxed));
}

void Record(OpenOp& op, const DriverCall& call, CUpti_CallbackId id,
            const CUpti_CallbackData& data) {
  if (op.refusal != nullptr) return;
  const auto refuse = [&](const char* why) {
    if (why != nullptr) op.Refuse(data.functionName, why);
    return why != nullptr;
  };
  const bool may_fork = op.forks.has_value() && InWatchedContext(data);
  if (call.use != DriverCall::Use::kLaunch) {
    const auto event =
        may_fork ? EventCallOf(id, data.functionParams) : std::nullopt;
    if (!event.has_value()) {
      op.Refuse(data.functionName, call.reason);
      return;
    }
    const CUstream stream = StreamOf(call, data.functionParams);
    refuse(event->wait ? op.forks->Wait(stream, event->event)
                       : op.forks->Record(stream, event->event));
    return;
  }
  if (!may_fork && !TouchesWatched(call, data)) {
    op.Refuse(data.functionName, "work on another stream");
    return;
  }
  op.decoder->SetGeneration(watch.unloads.load(kRelaxed));
  // What the decoder asks the driver comes back here as callbacks.
  const HiddenInCallback hidden;
  DecodedCall decoded =
      op.decoder->Decode(id, data.functionParams, data.symbolName);
  if (refuse(decoded.refusal) || !decoded.launch.has_value()) return;
  Launch& launch = *decoded.launch;
  if (may_fork && refuse(op.forks->Launch(StreamOf(call, data.functionParams),
                                          launch.behind))) {
    return;
  }
  op.launches.push_back(std::move(launch));
}

void CUPTIAPI OnDriverCall(void*, CUpti_CallbackDomain domain,
                           CUpti_CallbackId id, const void* raw) {
  if (domain != CUPTI_CB_DOMAIN_DRIVER_API || thread_state.hidden != 0) return;
  const CuptiAttachment::InCallback under_way;
  const auto& data = *static_cast<const CUpti_CallbackData*>(raw);
  // Of a thread that it forgot, CUPTI goes on to tell exits.
  if (data.callbackSite != CUPTI_API_ENTER) return;
  if (thread_state.asks) {
    thread_state.heard = true;
    return;
  }
  const bool launches_graph = id == CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch ||
                              id == CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch_ptsz;
  if (launches_graph && !thread_state.in_graph_of_program) {
    CuptiAttachment::NoteGraphOfProgram();
  }
  const DriverCall& call = ClassifyDriverCall(id);
  if (call.use == DriverCall::Use::kIgnored) return;
  if (call.use == DriverCall::Use::kUnloads) {
    watch.unloads.fetch_add(1, kRelaxed);
    return;
  }
  if (OpenOp* op = thread_state.op) {
    try {
      Record(*op, call, id, data);
    } catch (const std::exception&) {
      op->Refuse(data.functionName, "out of memory while recording");
    }
    return;
  }
  if (call.use != DriverCall::Use::kOpOnly && TouchesWatched(call, data)) {
    const char* none = nullptr;
    watch.foreign_call.compare_exchange_strong(none, data.functionName,
                                               kRelaxed);
  }
}

class CuptiLaunchRecorder final : public LaunchRecorder {
 public:
  CuptiLaunchRecorder(const Driver& driver, const Cupti& cupti)
      : driver_(driver), cupti_(driver, cupti, OnDriverCall) {}

  ~CuptiLaunchRecorder() override {
    if (!Exiting()) {
      Stop();
      GiveUp();
    }
    delete idle_decoder_.load(kRelaxed);
  }

  Status Start(CUstream stream, CUcontext context) override {
    const void* owner = Own(this);
    if (owner != nullptr) {
      return Fail(Code::kUnavailable, owner == this
                                          ? "this recorder is already recording"
                                          : "another recorder is recording");
    }
    watch.stream.store(stream, kRelaxed);
    watch.context.store(context, kRelaxed);
    watch.foreign_call.store(nullptr, kRelaxed);
    watch.session.fetch_add(1, kRelaxed);
    // Functions may have been unloaded while nobody watched.
    watch.unloads.fetch_add(1, kRelaxed);
    const Hidden hidden;
    Status started = cupti_.Subscribe();
    if (started) started = cupti_.Enable();
    if (!started) watch.owner.store(nullptr);
    return started;
  }

  void Stop() override {
    if (!active()) return;
    const Hidden hidden;
    // Before: an op that ends in between may have been told of in part.
    watch.session.fetch_add(1);
    cupti_.Disable();
    watch.owner.store(nullptr);
  }

  Status Attach() override {
    if (CuptiAttachment::attached()) return {};
    if (Own(&watch) != nullptr) return {};  // it is recording
    const Hidden hidden;
    Status subscribed = cupti_.Subscribe();
    (void)cupti_.GiveUp({});
    watch.owner.store(nullptr);
    return subscribed;
  }

  void GiveUp() override {
    if (Own(&watch) != nullptr) return;  // whoever records needs it
    const Hidden hidden;
    if (!cupti_.GiveUp(kPatience)) {
      base::Log(base::LogLevel::kWarning,
                "CUPTI could not be given up to other tools: other threads are "
                "within it and do not run");
    }
    watch.owner.store(nullptr);
  }

  void Resting(uint32_t nodes) override {
    if (!CuptiAttachment::attached()) return;
    const bool detach = CuptiAttachment::Launched(nodes);
    if (!detach && !CuptiAttachment::Idle()) return;
    const void* nobody = nullptr;
    if (!watch.owner.compare_exchange_strong(nobody, &watch)) return;
    const Hidden hidden;
    if (detach) {
      cupti_.Detach(/*tries=*/1, kPatienceOfAHead);
    } else {
      (void)cupti_.GiveUp({});
    }
    watch.owner.store(nullptr);
  }

  bool active() const override { return watch.owner.load() == this; }

  Status BeginOp() override {
    delete std::exchange(thread_state.op, nullptr);
    if (!active()) {
      return Fail(Code::kFailedPrecondition, "nothing is being recorded");
    }
    auto op = std::make_unique<OpenOp>();
    REPRISE_RETURN_IF_ERROR(HearThisThread());
    op->session = watch.session.load(kRelaxed);
    op->decoder.reset(
        idle_decoder_.exchange(nullptr, std::memory_order_acquire));
    if (op->decoder == nullptr) {
      op->decoder = std::make_unique<LaunchDecoder>(driver_);
    }
    thread_state.op = op.release();
    return {};
  }

  void LetOpFork() override {
    if (thread_state.op == nullptr) return;
    thread_state.op->forks.emplace(Normalized(watch.stream.load(kRelaxed)));
  }

  RecordedLaunches EndOp() override {
    const std::unique_ptr<OpenOp> op(std::exchange(thread_state.op, nullptr));
    if (op == nullptr) return {{}, "EndOp: no op is open on this thread"};
    if (op->forks.has_value()) {
      if (const char* why = op->forks->End()) op->Refuse("EndOp", why);
    }
    if (op->session != watch.session.load(kRelaxed)) {
      op->Refuse("Stop", "recording stopped within the op");
    }
    RecordedLaunches recorded;
    recorded.launches = std::move(op->launches);
    if (op->refusal != nullptr) {
      recorded.refusal = std::string(op->refused_call) + ": " + op->refusal;
    }
    // Release pairs with the acquire in BeginOp, which may be another thread's.
    delete idle_decoder_.exchange(op->decoder.release(),
                                  std::memory_order_acq_rel);
    return recorded;
  }

  std::optional<std::string> TakeForeignWork() override {
    const char* call = watch.foreign_call.exchange(nullptr, kRelaxed);
    if (call == nullptr) return std::nullopt;
    return call;
  }

 private:
  base::Result<bool> HearsThisThread() const {
    thread_state.heard = false;
    thread_state.asks = true;
    CUcontext current = nullptr;
    const CUresult called = driver_.cuCtxGetCurrent(&current);
    thread_state.asks = false;
    REPRISE_RETURN_IF_ERROR(Check(driver_, called, "cuCtxGetCurrent"));
    return thread_state.heard;
  }
  Status HearThisThread() {
    REPRISE_ASSIGN_OR_RETURN(bool hears, HearsThisThread());
    if (hears) [[likely]]
      return {};
    {
      const Hidden hidden;
      // Nothing is told of meanwhile: ops that other threads have open are
      // refused.
      watch.session.fetch_add(1, kRelaxed);
      REPRISE_RETURN_IF_ERROR(cupti_.AttachAnew());
    }
    REPRISE_ASSIGN_OR_RETURN(hears, HearsThisThread());
    if (hears) return {};
    return Fail(Code::kUnavailable,
                "CUPTI does not tell of this thread's driver calls");
  }

  // Makes `owner` the owner, or says who is. Waits for whoever attaches or
  // detaches.
  static const void* Own(const void* owner) {
    const void* present = nullptr;
    while (!watch.owner.compare_exchange_weak(present, owner)) {
      if (present != nullptr && present != &watch) return present;
      present = nullptr;
      std::this_thread::yield();
    }
    return nullptr;
  }

  const Driver& driver_;
  CuptiAttachment cupti_;  // its owner's in `watch`
  // A decoder that no op is using, so that what it learnt about functions
  // serves the next op. Ops that are open at once each have their own.
  std::atomic<LaunchDecoder*> idle_decoder_{nullptr};
};

}  // namespace

base::Result<std::unique_ptr<LaunchRecorder>> LaunchRecorder::Create(
    const Driver& driver) {
  REPRISE_ASSIGN_OR_RETURN(const Cupti* cupti, Cupti::Load());
  return Create(driver, *cupti);
}

std::unique_ptr<LaunchRecorder> LaunchRecorder::Create(const Driver& driver,
                                                       const Cupti& cupti) {
  WatchForExit();
  return std::make_unique<CuptiLaunchRecorder>(driver, cupti);
}

void LaunchRecorder::DropOp() {
  delete std::exchange(thread_state.op, nullptr);
}

LaunchRecorder::GraphOfProgram::GraphOfProgram() {
  CuptiGate::Enter();
  CuptiAttachment::NoteGraph();
  outer_ = std::exchange(thread_state.in_graph_of_program, true);
}

LaunchRecorder::GraphOfProgram::~GraphOfProgram() {
  thread_state.in_graph_of_program = outer_;
  CuptiGate::Leave();
}

LaunchRecorder::Hidden::Hidden() {
  if (thread_state.hidden++ == 0) CuptiGate::Enter();
}

LaunchRecorder::Hidden::~Hidden() {
  if (--thread_state.hidden == 0) CuptiGate::Leave();
}

}  // namespace reprise::device
