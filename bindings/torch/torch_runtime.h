// The one Runtime that torch's hooks serve, and the switch in front of it.

#ifndef REPRISE_BINDINGS_TORCH_TORCH_RUNTIME_H_
#define REPRISE_BINDINGS_TORCH_TORCH_RUNTIME_H_

#include <c10/core/Device.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "engine/base/options.h"
#include "engine/base/status.h"
#include "scheduler/runtime.h"
#include "scheduler/session.h"

namespace reprise::bindings {

// Nobody watches: hooks test this first and do nothing else while it is on. An
// op that races with enable or disable may be seen or not.
extern scheduler::Skipping g_unwatched;

// Changes whenever TorchRuntime::Active() does, so that a Session* which a
// thread has cached beside this number may be used while they are equal. Such a
// pointer never dangles: sessions live for the whole process.
extern std::atomic<uint64_t> g_runtime_epoch;

// Counts the changes of TorchRuntime::Active() alone. The epoch changes with
// it, and behind it.
extern std::atomic<uint64_t> g_activations;

// Devices and a set of options, with the scheduler that serves them.
//
// All instances are made by Enable, kept by a list that is deliberately leaked,
// and never destroyed, as hooks on any thread may hold their sessions; enabling
// again with devices and options that were used before brings the same instance
// back, with its plans. At most one is active. Thread-safe.
class TorchRuntime {
 public:
  // Null before the first Enable, after Activate(null) and in a forked child.
  // Read with acquire order: what Enable wrote to the instance is visible.
  static TorchRuntime* Active();

  // This is a forked child, where nothing of Reprise may run: other threads'
  // locks may stay locked.
  static bool Forked();
  // From now on Forked is told. Enable does so, too.
  static void WatchForks();

  // The instance that was active last, active or not; null before the first
  // Enable. What stats and reports are read from.
  static TorchRuntime* Latest();

  // Registers the hooks (the first time), makes an instance or finds the one
  // with these devices and options, and lets hooks see ops. kUnavailable, in
  // one sentence, where the devices cannot be served here; what was active
  // before then stays so.
  static base::Status Enable(scheduler::Devices devices,
                             const base::Options& options);

  // Makes `runtime` the active one; with null, hooks stop doing anything and
  // plans stay. Ends what a session was following, so that the program's next
  // ops find eager's state.
  static base::Status Activate(TorchRuntime* runtime);

  // The instance of that id; null if there is none.
  static TorchRuntime* Find(int id);

  // Until balanced by ResumeRecording nothing is recorded, and CUPTI is given
  // back, which is what a profiler needs; plans go on. Nests.
  static void PauseRecording();
  static void ResumeRecording();

  // What all instances do is told from now on, until as many stops. Returns
  // where that begins, for TimelineJson.
  static int64_t StartTimeline();
  static void StopTimeline();
  // Before the stop: what has been told since (scheduler::TimelineJson).
  static std::string TimelineJson(int64_t begin);

  // The program is about to look into memory, or to write it, in a way that no
  // hook sees: what was run ahead is taken back first. Does nothing inside an
  // op.
  static void Interrupt();

  TorchRuntime(const TorchRuntime&) = delete;
  TorchRuntime& operator=(const TorchRuntime&) = delete;

  int id() const { return id_; }  // counts the instances from 0
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
  TorchRuntime(int id, scheduler::Devices devices, const base::Options& options,
               std::unique_ptr<scheduler::Runtime> scheduler);

  // Gives back what plans of every instance, active or not, hold on a GPU (see
  // scheduler::Runtime::ReleaseMemory, which says what it may wait for).
  static uint64_t ReleaseMemory(int device, scheduler::Shortage shortage);
  // Of the active instance, which alone has passes under way.
  static void BeforeMemoryGoes(int device);

  struct Switches;
  static Switches& switches();

  const int id_;
  const scheduler::Devices devices_;
  const base::Options options_;
  const std::unique_ptr<scheduler::Runtime> scheduler_;
  TorchRuntime* made_before_ = nullptr;  // set before others see this one
};

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_TORCH_RUNTIME_H_
