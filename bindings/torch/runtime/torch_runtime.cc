#include "bindings/torch/runtime/torch_runtime.h"

#include <pthread.h>

#include <atomic>
#include <utility>

#include "bindings/torch/runtime/runtime_epoch.h"

namespace reprise::bindings {
namespace {

// Release and acquire: who reads the pointer sees the runtime as the registry
// made it.
constinit std::atomic<TorchRuntime*> g_active{nullptr};
constinit std::atomic<TorchRuntime*> g_latest{nullptr};
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

}  // namespace

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

void TorchRuntime::PublishActive(TorchRuntime* active) {
  g_active.store(active, std::memory_order_release);
  g_activations.fetch_add(1, std::memory_order_release);
  g_runtime_epoch.fetch_add(1, std::memory_order_release);
}

void TorchRuntime::PublishLatest(TorchRuntime* latest) {
  g_latest.store(latest, std::memory_order_release);
}

TorchRuntime::TorchRuntime(int id, scheduler::Devices devices,
                           const base::Options& options,
                           std::unique_ptr<scheduler::Runtime> scheduler)
    : id_(id),
      devices_(devices),
      options_(options),
      scheduler_(std::move(scheduler)) {}

}  // namespace reprise::bindings
