#include "bindings/torch/runtime_registry.h"

#include <atomic>
#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "bindings/torch/hook/register_hooks.h"
#include "bindings/torch/observe/gpu_trace.h"
#include "bindings/torch/runtime/op_table.h"
#include "bindings/torch/runtime/out_of_memory.h"
#include "bindings/torch/runtime/runtime_epoch.h"
#include "bindings/torch/runtime/thread_state.h"
#include "bindings/torch/runtime/torch_frontend.h"
#include "engine/base/asymmetric_fence.h"
#include "engine/base/log.h"
#include "engine/base/mutex.h"

namespace reprise::bindings {
namespace {

// All runtimes are a list that grows under Switches::mutex, and that a reader
// goes through without a lock. Never destroyed.
struct Made {
  TorchRuntime* runtime = nullptr;
  const Made* before = nullptr;
};
constinit std::atomic<const Made*> g_made_last{nullptr};

// Calls `each` with every runtime; the one that was made last comes first.
template <typename Each>
void ForRuntimes(Each each) {
  for (const Made* at = g_made_last.load(std::memory_order_acquire);
       at != nullptr; at = at->before) {
    each(*at->runtime);
  }
}

base::Status RegisterHooks() {
  try {
    RegisterHooksOnce();
    return {};
  } catch (const std::exception& error) {
    const std::string text = error.what();
    return base::Fail(base::Code::kUnavailable,
                      "torch's operators cannot be hooked: " +
                          text.substr(0, text.find('\n')));
  }
}

// What EnableRuntime, ActivateRuntime and the pauses change. The mutex is held
// while a runtime is made, so that two enables never make it twice.
struct Switches {
  base::Mutex mutex;
  int pauses REPRISE_GUARDED_BY(mutex) = 0;
  scheduler::Timeline timeline;  // of all instances

  // Hooks watch until the sessions are paused: an op that they let pass before
  // would find what was run ahead, and have its own writes taken back with it.
  // And no session begins a replay until hooks watch, and each op that they let
  // pass before is in the book of ops.
  base::Status Activate(TorchRuntime* next) REPRISE_REQUIRES(mutex) {
    TorchRuntime* const before = TorchRuntime::Active();
    if (next == before) return {};
    if (before != nullptr) before->scheduler().Pause();
    TorchRuntime::PublishActive(next);
    if (next == nullptr) {
      g_unwatched.Begin();
      return {};
    }
    const bool ordered = g_unwatched.on() ? g_unwatched.End() : OrderSkips();
    if (!ordered) {
      TorchRuntime::PublishActive(nullptr);
      g_unwatched.Begin();
      return base::Fail(base::Code::kUnavailable,
                        "the system call membarrier, allowed when Reprise was "
                        "enabled first, is refused now: enable Reprise before "
                        "the process confines itself (seccomp)");
    }
    base::SetLogLevel(next->options().log);
    TorchRuntime::PublishLatest(next);
    next->scheduler().Resume();
    return {};
  }

 private:
  // Of the runtime before, whose stream may be asleep.
  static bool OrderSkips() {
    return !base::AllowsHeavyFence() || base::HeavyFence();
  }
};

Switches& AllSwitches() {
  static auto* leaked = new Switches;
  return *leaked;
}

// Gives back what plans of every runtime, active or not, hold on a GPU (see
// scheduler::Runtime::ReleaseMemory, which says what it may wait for).
uint64_t ReleaseMemoryOfAll(int device, scheduler::Shortage shortage) {
  if (TorchRuntime::Forked()) return 0;
  uint64_t bytes = 0;
  ForRuntimes([&](TorchRuntime& made) {
    if (made.kind() != scheduler::DeviceKind::kCuda) return;
    bytes += made.scheduler().ReleaseMemory(device, shortage);
  });
  return bytes;
}

// Of the active runtime, which alone has passes under way.
void BeforeMemoryGoes(int device) {
  TorchRuntime* active = TorchRuntime::Active();
  if (active == nullptr || active->kind() != scheduler::DeviceKind::kCuda)
    return;
  active->scheduler().BeforeMemoryGoes(device);
}

}  // namespace

base::Status EnableRuntime(scheduler::Devices devices,
                           const base::Options& options) {
  if (TorchRuntime::Forked()) {
    base::Log(base::LogLevel::kWarning,
              "enable() does nothing in a forked process: start it by spawn");
    return {};
  }
  Switches& all = AllSwitches();
  base::MutexLock lock(all.mutex);
  TorchRuntime* found = nullptr;
  int count = 0;
  ForRuntimes([&](TorchRuntime& made) {
    ++count;
    if (made.devices() == devices && made.options() == options) found = &made;
  });
  if (found == nullptr) {
    const scheduler::DeviceKind kind = devices.kind;
    REPRISE_RETURN_IF_ERROR(PrepareFrontends(kind));
    if (kind == scheduler::DeviceKind::kCuda) {
      REPRISE_RETURN_IF_ERROR(
          ReleaseWhenOutOfMemory(&ReleaseMemoryOfAll, &BeforeMemoryGoes));
    }
    REPRISE_ASSIGN_OR_RETURN(auto scheduler,
                             scheduler::Runtime::Create(
                                 devices, options,
                                 [](const scheduler::StreamKey& key) {
                                   return MakeFrontend(key, &OpName);
                                 },
                                 &all.timeline, &BookOfOps()));
    scheduler->Pause();  // until it is active
    if (kind == scheduler::DeviceKind::kCuda) WatchGpuTrace();
    if (count == 0) {
      REPRISE_RETURN_IF_ERROR(RegisterHooks());
      TorchRuntime::WatchForks();
    }
    found = new TorchRuntime(count, devices, options, std::move(scheduler));
    g_made_last.store(
        new Made{found, g_made_last.load(std::memory_order_relaxed)},
        std::memory_order_release);
    if (all.pauses > 0) found->scheduler().ForbidRecording();
  }
  return all.Activate(found);
}

base::Status ActivateRuntime(TorchRuntime* runtime) {
  if (TorchRuntime::Forked()) return {};
  Switches& all = AllSwitches();
  base::MutexLock lock(all.mutex);
  return all.Activate(runtime);
}

TorchRuntime* FindRuntime(int id) {
  if (TorchRuntime::Forked()) return nullptr;
  TorchRuntime* found = nullptr;
  ForRuntimes([&](TorchRuntime& made) {
    if (made.id() == id) found = &made;
  });
  return found;
}

void PauseRecording() {
  if (TorchRuntime::Forked()) return;
  Switches& all = AllSwitches();
  base::MutexLock lock(all.mutex);
  if (++all.pauses > 1) return;
  ForRuntimes([](TorchRuntime& made) { made.scheduler().ForbidRecording(); });
}

void ResumeRecording() {
  if (TorchRuntime::Forked()) return;
  Switches& all = AllSwitches();
  base::MutexLock lock(all.mutex);
  if (all.pauses == 0 || --all.pauses > 0) return;
  ForRuntimes([](TorchRuntime& made) { made.scheduler().AllowRecording(); });
}

int64_t StartTimeline() {
  if (TorchRuntime::Forked()) return 0;
  return static_cast<int64_t>(AllSwitches().timeline.Start());
}

void StopTimeline() {
  if (!TorchRuntime::Forked()) AllSwitches().timeline.Stop();
}

std::string TimelineJson(int64_t begin) {
  using Timeline = scheduler::Timeline;
  if (TorchRuntime::Forked()) return scheduler::TimelineJson({});
  Switches& all = AllSwitches();
  Timeline::Excerpt excerpt =
      all.timeline.Since(static_cast<Timeline::Position>(begin));
  ForRuntimes([&](TorchRuntime& made) { made.scheduler().AddPlaces(excerpt); });
  return scheduler::TimelineJson(excerpt);
}

}  // namespace reprise::bindings
