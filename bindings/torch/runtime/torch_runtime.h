// The one Runtime that torch's hooks serve.

#ifndef REPRISE_BINDINGS_TORCH_RUNTIME_TORCH_RUNTIME_H_
#define REPRISE_BINDINGS_TORCH_RUNTIME_TORCH_RUNTIME_H_

#include <c10/core/Device.h>

#include <memory>

#include "engine/base/options.h"
#include "scheduler/runtime.h"
#include "scheduler/session.h"

namespace reprise::bindings {

// Devices and a set of options, with the scheduler that serves them.
//
// Made and kept by the registry (runtime_registry.h), which never destroys one.
// At most one is active. Thread-safe.
class TorchRuntime {
 public:
  // Null before the first one is enabled, while none is active and in a forked
  // child. Read with acquire order: what the registry wrote to it is visible.
  static TorchRuntime* Active();

  // This is a forked child, where nothing of Reprise may run: other threads'
  // locks may stay locked.
  static bool Forked();
  // From now on Forked is told. EnableRuntime does so, too.
  static void WatchForks();

  // The one that was active last, active or not; null before the first one.
  // What stats and reports are read from.
  static TorchRuntime* Latest();

  // Of the registry, under its lock. All threads find that this one is active
  // (null: none); and that it was the last one.
  static void PublishActive(TorchRuntime* active);
  static void PublishLatest(TorchRuntime* latest);

  TorchRuntime(int id, scheduler::Devices devices, const base::Options& options,
               std::unique_ptr<scheduler::Runtime> scheduler);
  TorchRuntime(const TorchRuntime&) = delete;
  TorchRuntime& operator=(const TorchRuntime&) = delete;

  int id() const { return id_; }  // counts them from 0
  const scheduler::Devices& devices() const { return devices_; }
  scheduler::DeviceKind kind() const { return devices_.kind; }

  // The session of a stream (CUstream; null on the host), made on first use.
  // Null where none can be had. Takes a lock: callers keep what they get while
  // g_runtime_epoch stands.
  scheduler::Session* SessionFor(c10::Device device, void* stream) {
    return scheduler_->SessionFor(
        {kind(), device.has_index() ? device.index() : 0, stream});
  }

  scheduler::Runtime& scheduler() { return *scheduler_; }
  const base::Options& options() const { return options_; }

 private:
  const int id_;
  const scheduler::Devices devices_;
  const base::Options options_;
  const std::unique_ptr<scheduler::Runtime> scheduler_;
};

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_RUNTIME_TORCH_RUNTIME_H_
