#include "engine/device/cupti_attachment.h"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "engine/base/backoff.h"
#include "engine/base/thread_progress.h"
#include "engine/device/cupti_gate.h"
#include "engine/device/relaxed_capture.h"

namespace reprise::device {
namespace {

using base::Code;
using base::Fail;
using base::Status;

using Clock = std::chrono::steady_clock;

constexpr auto kRelaxed = std::memory_order_relaxed;

// 0.2 us a node make the 20 ms that detaching and attaching again cost: whoever
// waits that long before he pays, never pays more than twice the best.
constexpr uint64_t kNodesBeforeDetaching = 100'000;
// For programs that launch graphs of their own, which nobody counts; and for
// others, whose graphs nobody may see.
constexpr Clock::duration kRestBesideGraphs = std::chrono::seconds(1);
constexpr Clock::duration kRest = std::chrono::seconds(10);
// A subscription that is off costs nothing. Where the next recording comes
// before that, it need not be ended, for which all threads are looked at.
constexpr Clock::duration kKept = std::chrono::milliseconds(50);
// Where threads cannot be looked at: by then most that were about to call back
// when callbacks were switched off have done so.
constexpr Clock::duration kGrace = std::chrono::milliseconds(2);
// Such a thread is done after less than a microsecond in which it runs.
constexpr std::chrono::milliseconds kWalk(1);
// Who attaches or detaches CUPTI waits for it so long.
constexpr Clock::duration kPatience = std::chrono::milliseconds(10);
constexpr std::chrono::microseconds kBetweenLooks(100);
// In milliseconds.
constexpr base::Backoff::Schedule kTriesToEnd = {.longest = 1000};
// A replay takes microseconds; who builds is longer inside.
constexpr int kTriesToClose = 1000;

// What CUPTI 13.0 knows of a subscription's parameters.
constexpr size_t kFirstParamsBytes =
    offsetof(CUpti_SubscriberParams, oldSubscriberSize) + sizeof(size_t);

constinit std::atomic<bool> g_attached{false};
// Nodes launched since the last use of CUPTI, and when that was.
constinit std::atomic<uint64_t> g_launched{0};
constinit std::atomic<Clock::rep> g_last_use{0};
// When callbacks were last on.
constinit std::atomic<Clock::rep> g_last_enabled{0};
// Who has the subscription.
constinit std::atomic<CuptiAttachment*> g_holder{nullptr};
// Callbacks under way; and, in units of kBegun, how many there were.
constexpr uint64_t kBegun = uint64_t{1} << 32;
constinit std::atomic<uint64_t> g_callbacks{0};
// A subscription that could not be ended is tried again from then on.
constinit std::atomic<Clock::rep> g_next_end{0};

// A thread, by the address of something of its own.
constinit thread_local char t_mark = 0;
// There are graphs of the program's.
constinit std::atomic<bool> g_graphs{false};
// Who launches such graphs outside the gate, and whether more than one thread
// does.
constinit std::atomic<const char*> g_graphs_of{nullptr};
constinit std::atomic<bool> g_graphs_of_several{false};

void NoteUse() {
  g_launched.store(0, kRelaxed);
  g_last_use.store(Clock::now().time_since_epoch().count(), kRelaxed);
}

Clock::duration Since(const std::atomic<Clock::rep>& time) {
  return Clock::duration(Clock::now().time_since_epoch().count() -
                         time.load(kRelaxed));
}

bool OthersLaunchGraphs() {
  const char* thread = g_graphs_of.load(kRelaxed);
  return g_graphs_of_several.load(kRelaxed) ||
         (thread != nullptr && thread != &t_mark);
}

// Nobody else is at work with graphs while one lives that is `alone`.
class Alone {
 public:
  explicit Alone(int tries) {
    if (OthersLaunchGraphs()) return;
    while (!(alone_ = CuptiGate::TryClose()) && --tries > 0) {
      std::this_thread::yield();
    }
  }
  ~Alone() {
    if (alone_) CuptiGate::Open();
  }
  Alone(const Alone&) = delete;
  Alone& operator=(const Alone&) = delete;

  bool alone() const { return alone_; }

 private:
  bool alone_ = false;
};

// What other threads do since a moment at which callbacks were off.
class CallbacksOff {
 public:
  // No thread calls back any more, nor is about to.
  bool AreOver() {
    const uint64_t callbacks = g_callbacks.load(std::memory_order_acquire);
    // One has begun or ended since, or the moment is not known.
    if (callbacks != callbacks_ || others_.failed()) {
      *this = CallbacksOff();
      return false;
    }
    if (callbacks % kBegun > 0) return false;
    const bool out = others_.known() ? others_.AllRanFor(kWalk)
                                     : Clock::now() - since_ >= kGrace;
    return out && g_callbacks.load(std::memory_order_acquire) == callbacks_;
  }

 private:
  Clock::time_point since_ = Clock::now();
  uint64_t callbacks_ = g_callbacks.load(std::memory_order_acquire);
  base::ThreadProgress others_;
};

// Of all attachments. Of the thread that calls CUPTI.
struct LastCallbacks {
  bool were_on = false;             // since they were last known to be over
  std::optional<CallbacksOff> off;  // none: nobody has asked since

  static LastCallbacks& Get() {
    static auto* const last = new LastCallbacks;
    return *last;
  }

  bool AreOver(Clock::duration patience) {
    if (!were_on) return true;
    if (!off.has_value()) off.emplace();
    const Clock::time_point end = Clock::now() + patience;
    while (!off->AreOver()) {
      if (Clock::now() >= end) return false;
      std::this_thread::sleep_for(kBetweenLooks);
    }
    *this = {};
    return true;
  }
};

void NoteEnd(bool ended) {
  static auto* const tries = new base::Backoff(kTriesToEnd);
  const auto now = std::chrono::duration_cast<std::chrono::milliseconds>(
      Clock::now().time_since_epoch());
  if (ended) {
    tries->Succeed();
  } else {
    tries->Fail(static_cast<base::Backoff::Time>(now.count()));
  }
  const std::chrono::milliseconds next(tries->ready_at());
  g_next_end.store(std::chrono::duration_cast<Clock::duration>(next).count(),
                   kRelaxed);
}

}  // namespace

CuptiAttachment::~CuptiAttachment() {
  CuptiAttachment* self = this;
  g_holder.compare_exchange_strong(self, nullptr, kRelaxed);
}

bool CuptiAttachment::attached() { return g_attached.load(kRelaxed); }

Status CuptiAttachment::Subscribe() {
  if (subscriber_ != nullptr) return {};
  if (doubtful_ != nullptr) (void)End(doubtful_, kPatience);
  if (CuptiAttachment* other = g_holder.load(kRelaxed)) {
    (void)other->GiveUp(kPatience);
  }
  if (attached()) return SubscribeOnly();
  const Alone gate(kTriesToClose);
  if (!gate.alone()) {
    return Fail(Code::kUnavailable,
                "CUPTI cannot be attached while other threads work with CUDA "
                "graphs");
  }
  return SubscribeOnly();
}

// All calls of CUPTI's may allocate and free; a capture by this thread or
// another one goes on.
Status CuptiAttachment::SubscribeOnly() {
  const RelaxedCapture relaxed(driver_);
  char holder[CUPTI_OLD_SUBSCRIBER_NAME_MIN_LEN] = {};
  CUpti_SubscriberParams params{};
  params.structSize = CUpti_SubscriberParams_STRUCT_SIZE;
  params.subscriberName = "reprise";
  params.oldSubscriberName = holder;
  params.oldSubscriberSize = sizeof holder;
  CUpti_SubscriberHandle subscriber = nullptr;
  CUptiResult result =
      cupti_.cuptiSubscribe_v2(&subscriber, callback_, nullptr, &params);
  if (result == CUPTI_ERROR_INVALID_PARAMETER) {
    // One that is older than the headers does not know their last fields.
    params.structSize = kFirstParamsBytes;
    result = cupti_.cuptiSubscribe_v2(&subscriber, callback_, nullptr, &params);
  }
  if (result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED) {
    return Fail(Code::kUnavailable,
                "another tool holds CUPTI" +
                    (holder[0] == '\0' ? std::string()
                                       : " (" + std::string(holder) + ")"));
  }
  REPRISE_RETURN_IF_ERROR(Explain(result, "cuptiSubscribe_v2"));
  subscriber_ = subscriber;
  doubtful_ = nullptr;
  enabled_ = false;
  g_holder.store(this, kRelaxed);
  if (!g_attached.exchange(true, kRelaxed)) NoteUse();
  return {};
}

Status CuptiAttachment::Enable() {
  const RelaxedCapture relaxed(driver_);
  Status enabled = Explain(
      cupti_.cuptiEnableDomain(1, subscriber_, CUPTI_CB_DOMAIN_DRIVER_API),
      "cuptiEnableDomain");
  if (enabled) {
    enabled_ = true;
  } else {
    (void)GiveUp(kPatience);
    doubtful_ = std::exchange(subscriber_, nullptr);
  }
  return enabled;
}

void CuptiAttachment::Disable() {
  if (subscriber_ != nullptr) SwitchOff(subscriber_);
}

bool CuptiAttachment::GiveUp(Duration patience) {
  if (subscriber_ != nullptr && End(subscriber_, patience)) {
    g_holder.store(nullptr, kRelaxed);
  }
  if (doubtful_ != nullptr) (void)End(doubtful_, patience);
  return subscriber_ == nullptr;
}

void CuptiAttachment::SwitchOff(CUpti_SubscriberHandle subscriber) {
  const RelaxedCapture relaxed(driver_);
  enabled_ = cupti_.cuptiEnableDomain(
                 0, subscriber, CUPTI_CB_DOMAIN_DRIVER_API) != CUPTI_SUCCESS;
  NoteUse();
  g_last_enabled.store(g_last_use.load(kRelaxed), kRelaxed);
  LastCallbacks::Get() = {.were_on = true, .off = {}};
}

bool CuptiAttachment::End(CUpti_SubscriberHandle& subscriber,
                          Duration patience) {
  if (enabled_) SwitchOff(subscriber);
  const bool ended = !enabled_ && LastCallbacks::Get().AreOver(patience) &&
                     Unsubscribe(subscriber);
  NoteEnd(ended);
  return ended;
}

bool CuptiAttachment::Unsubscribe(CUpti_SubscriberHandle& subscriber) {
  const RelaxedCapture relaxed(driver_);
  if (cupti_.cuptiUnsubscribe(subscriber) != CUPTI_SUCCESS) return false;
  subscriber = nullptr;
  return true;
}

CuptiAttachment::InCallback::InCallback() {
  g_callbacks.fetch_add(kBegun + 1, kRelaxed);
}
CuptiAttachment::InCallback::~InCallback() {
  g_callbacks.fetch_sub(1, std::memory_order_release);
}

bool CuptiAttachment::Launched(uint32_t nodes) {
  const uint64_t before = g_launched.fetch_add(nodes, kRelaxed);
  return before + nodes >= kNodesBeforeDetaching ||
         Since(g_last_use) >=
             (g_graphs.load(kRelaxed) ? kRestBesideGraphs : kRest);
}

bool CuptiAttachment::Idle() {
  return g_holder.load(kRelaxed) != nullptr && Since(g_last_enabled) >= kKept &&
         Since(g_next_end) >= Clock::duration::zero();
}

// Who can subscribe is alone: another tool's subscription would be lost.
void CuptiAttachment::Detach(int tries, Duration patience) {
  const Alone gate(tries);
  if (!gate.alone()) {
    if (OthersLaunchGraphs()) NoteUse();  // for good: look again some day
    return;
  }
  if (Subscribe()) {
    const RelaxedCapture relaxed(driver_);
    (void)GiveUp(patience);
    const bool others_inside = enabled_ || LastCallbacks::Get().were_on;
    if (others_inside || cupti_.cuptiFinalize() != CUPTI_SUCCESS) {
      NoteUse();  // and try again as late as this time
      return;
    }
    subscriber_ = nullptr;
    g_holder.store(nullptr, kRelaxed);
  } else if (g_holder.load(kRelaxed) != nullptr || doubtful_ != nullptr) {
    NoteUse();  // it is no other tool that has subscribed, but one of ours
    return;
  }
  g_attached.store(false, kRelaxed);
}

Status CuptiAttachment::AttachAnew() {
  Detach(kTriesToClose, kPatience);
  REPRISE_RETURN_IF_ERROR(Subscribe());
  return Enable();
}

void CuptiAttachment::NoteGraph() {
  if (!g_graphs.load(kRelaxed)) g_graphs.store(true, kRelaxed);
}

void CuptiAttachment::NoteGraphOfProgram() {
  NoteGraph();
  const char* first = nullptr;
  if (!g_graphs_of.compare_exchange_strong(first, &t_mark, kRelaxed) &&
      first != &t_mark) {
    g_graphs_of_several.store(true, kRelaxed);
  }
}

Status CuptiAttachment::Explain(CUptiResult result, const char* call) const {
  if (result == CUPTI_SUCCESS) return {};
  const char* meaning = nullptr;
  cupti_.cuptiGetResultString(result, &meaning);
  return Fail(Code::kUnavailable,
              std::string(call) + " failed with " +
                  (meaning != nullptr ? meaning : std::to_string(result)));
}

}  // namespace reprise::device
