#include "bindings/torch/torch_runtime.h"

#include <pthread.h>

#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "bindings/torch/gpu_trace.h"
#include "bindings/torch/out_of_memory.h"
#include "bindings/torch/register_hooks.h"
#include "bindings/torch/thread_state.h"
#include "bindings/torch/torch_frontend.h"
#include "engine/base/asymmetric_fence.h"
#include "engine/base/log.h"
#include "engine/base/mutex.h"
#include "engine/trace/op.h"

namespace reprise::bindings {

constinit scheduler::Skipping g_unwatched(/*on=*/true);
constinit std::atomic<uint64_t> g_runtime_epoch{0};
constinit std::atomic<uint64_t> g_activations{0};

namespace {

// Written under Switches::mutex. Release and acquire: who reads the pointer
// sees the instance as Enable made it.
constinit std::atomic<TorchRuntime*> g_active{nullptr};
constinit std::atomic<TorchRuntime*> g_latest{nullptr};
// The head of a list of all instances, for a reader that may take no lock.
constinit std::atomic<TorchRuntime*> g_made_last{nullptr};
constinit std::atomic<bool> g_forked{false};

// In the child there are no build threads, no CUDA context and maybe locks that
// nobody will ever release: nothing of ours may run, for good.
void OnForkedChild() {
  g_unwatched.Begin();
  g_active.store(nullptr, std::memory_order_relaxed);
  // No thread goes on with a session that it has kept.
  g_activations.fetch_add(1, std::memory_order_relaxed);
  g_runtime_epoch.fetch_add(1, std::memory_order_relaxed);
  g_latest.store(nullptr, std::memory_order_relaxed);
  g_forked.store(true, std::memory_order_relaxed);
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

}  // namespace

// What Enable, Activate and the pauses change. The mutex is held while a
// runtime is made, so that two enables never make it twice.
struct TorchRuntime::Switches {
  base::Mutex mutex;
  std::vector<TorchRuntime*> made REPRISE_GUARDED_BY(mutex);
  int pauses REPRISE_GUARDED_BY(mutex) = 0;
  scheduler::Timeline timeline;  // of all instances

  // Hooks watch until the sessions are paused: an op that they let pass before
  // would find what was run ahead, and have its own writes taken back with it.
  // And no session begins a replay until hooks watch, and each op that they let
  // pass before is in the book of ops.
  base::Status Activate(TorchRuntime* next) REPRISE_REQUIRES(mutex) {
    TorchRuntime* const before = Active();
    if (next == before) return {};
    if (before != nullptr) before->scheduler_->Pause();
    Publish(next);
    if (next == nullptr) {
      g_unwatched.Begin();
      return {};
    }
    const bool ordered = g_unwatched.on() ? g_unwatched.End() : OrderSkips();
    if (!ordered) {
      Publish(nullptr);
      g_unwatched.Begin();
      return base::Fail(base::Code::kUnavailable,
                        "the system call membarrier, allowed when Reprise was "
                        "enabled first, is refused now: enable Reprise before "
                        "the process confines itself (seccomp)");
    }
    base::SetLogLevel(next->options_.log);
    g_latest.store(next, std::memory_order_release);
    next->scheduler_->Resume();
    return {};
  }

 private:
  static void Publish(TorchRuntime* active) {
    g_active.store(active, std::memory_order_release);
    g_activations.fetch_add(1, std::memory_order_release);
    g_runtime_epoch.fetch_add(1, std::memory_order_release);
  }

  // Of the runtime before, whose stream may be asleep.
  static bool OrderSkips() {
    return !base::AllowsHeavyFence() || base::HeavyFence();
  }
};

TorchRuntime::Switches& TorchRuntime::switches() {
  static auto* leaked = new Switches;
  return *leaked;
}

bool TorchRuntime::Forked() { return g_forked.load(std::memory_order_relaxed); }

void TorchRuntime::WatchForks() {
  static const int once = pthread_atfork(nullptr, nullptr, &OnForkedChild);
  (void)once;
}

TorchRuntime* TorchRuntime::Active() {
  return g_active.load(std::memory_order_acquire);
}

TorchRuntime* TorchRuntime::Latest() {
  return g_latest.load(std::memory_order_acquire);
}

base::Status TorchRuntime::Enable(scheduler::Devices devices,
                                  const base::Options& options) {
  if (Forked()) {
    base::Log(base::LogLevel::kWarning,
              "enable() does nothing in a forked process: start it by spawn");
    return {};
  }
  Switches& all = switches();
  base::MutexLock lock(all.mutex);
  TorchRuntime* found = nullptr;
  for (TorchRuntime* made : all.made) {
    if (made->devices_ == devices && made->options_ == options) found = made;
  }
  if (found == nullptr) {
    const scheduler::DeviceKind kind = devices.kind;
    REPRISE_RETURN_IF_ERROR(PrepareFrontends(kind));
    if (kind == scheduler::DeviceKind::kCuda) {
      REPRISE_RETURN_IF_ERROR(
          ReleaseWhenOutOfMemory(&ReleaseMemory, &BeforeMemoryGoes));
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
    if (all.made.empty()) {
      REPRISE_RETURN_IF_ERROR(RegisterHooks());
      WatchForks();
    }
    found = new TorchRuntime(static_cast<int>(all.made.size()), devices,
                             options, std::move(scheduler));
    all.made.push_back(found);
    found->made_before_ = g_made_last.load(std::memory_order_relaxed);
    g_made_last.store(found, std::memory_order_release);
    if (all.pauses > 0) found->scheduler_->ForbidRecording();
  }
  return all.Activate(found);
}

base::Status TorchRuntime::Activate(TorchRuntime* runtime) {
  if (Forked()) return {};
  Switches& all = switches();
  base::MutexLock lock(all.mutex);
  return all.Activate(runtime);
}

TorchRuntime* TorchRuntime::Find(int id) {
  if (Forked()) return nullptr;
  Switches& all = switches();
  base::MutexLock lock(all.mutex);
  const auto index = static_cast<size_t>(id);
  return index < all.made.size() ? all.made[index] : nullptr;
}

void TorchRuntime::PauseRecording() {
  if (Forked()) return;
  Switches& all = switches();
  base::MutexLock lock(all.mutex);
  if (++all.pauses > 1) return;
  for (TorchRuntime* made : all.made) made->scheduler_->ForbidRecording();
}

void TorchRuntime::ResumeRecording() {
  if (Forked()) return;
  Switches& all = switches();
  base::MutexLock lock(all.mutex);
  if (all.pauses == 0 || --all.pauses > 0) return;
  for (TorchRuntime* made : all.made) made->scheduler_->AllowRecording();
}

int64_t TorchRuntime::StartTimeline() {
  if (Forked()) return 0;
  return static_cast<int64_t>(switches().timeline.Start());
}

void TorchRuntime::StopTimeline() {
  if (!Forked()) switches().timeline.Stop();
}

std::string TorchRuntime::TimelineJson(int64_t begin) {
  using Timeline = scheduler::Timeline;
  if (Forked()) return scheduler::TimelineJson({});
  Switches& all = switches();
  Timeline::Excerpt excerpt =
      all.timeline.Since(static_cast<Timeline::Position>(begin));
  for (TorchRuntime* made = g_made_last.load(std::memory_order_acquire);
       made != nullptr; made = made->made_before_) {
    made->scheduler_->AddPlaces(excerpt);
  }
  return scheduler::TimelineJson(excerpt);
}

uint64_t TorchRuntime::ReleaseMemory(int device, scheduler::Shortage shortage) {
  if (Forked()) return 0;
  uint64_t bytes = 0;
  for (TorchRuntime* made = g_made_last.load(std::memory_order_acquire);
       made != nullptr; made = made->made_before_) {
    if (made->kind() != scheduler::DeviceKind::kCuda) continue;
    bytes += made->scheduler_->ReleaseMemory(device, shortage);
  }
  return bytes;
}

void TorchRuntime::BeforeMemoryGoes(int device) {
  TorchRuntime* active = Active();
  if (active == nullptr || active->kind() != scheduler::DeviceKind::kCuda)
    return;
  active->scheduler_->BeforeMemoryGoes(device);
}

void TorchRuntime::Interrupt() {
  TorchRuntime* active = Active();
  if (active == nullptr || g_unwatched.on() || t_thread_state.depth > 0) {
    return;
  }
  active->scheduler_->MemoryIsUsed(
      "memory is used without an op (data_ptr, numpy, a graph of its own)");
}

TorchRuntime::TorchRuntime(int id, scheduler::Devices devices,
                           const base::Options& options,
                           std::unique_ptr<scheduler::Runtime> scheduler)
    : id_(id),
      devices_(devices),
      options_(options),
      scheduler_(std::move(scheduler)) {}

}  // namespace reprise::bindings
