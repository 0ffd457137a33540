// All runtimes of this process, and which of them is active.

#ifndef REPRISE_BINDINGS_TORCH_RUNTIME_REGISTRY_H_
#define REPRISE_BINDINGS_TORCH_RUNTIME_REGISTRY_H_

#include <cstdint>
#include <string>

#include "bindings/torch/runtime/torch_runtime.h"
#include "engine/base/options.h"
#include "engine/base/status.h"
#include "scheduler/runtime.h"

namespace reprise::bindings {

// The registry makes all runtimes and never destroys one, as hooks on any
// thread may hold their sessions. In a forked child nothing is done. All
// functions are thread-safe.

// Registers the hooks (the first time), makes a runtime or finds the one with
// these devices and options, with its plans, and lets hooks see ops.
// kUnavailable, in one sentence, where the devices cannot be served here; what
// was active before then stays so.
base::Status EnableRuntime(scheduler::Devices devices,
                           const base::Options& options);

// Makes `runtime` the active one; with null, hooks stop doing anything and
// plans stay. Ends what a session was following, so that the program's next ops
// find eager's state.
base::Status ActivateRuntime(TorchRuntime* runtime);

// The runtime of that id; null if there is none.
TorchRuntime* FindRuntime(int id);

// Until balanced by ResumeRecording nothing is recorded, and CUPTI is given
// back, which is what a profiler needs; plans go on. Nests.
void PauseRecording();
void ResumeRecording();

// What all runtimes do is told from now on, until as many stops. Returns where
// that begins, for TimelineJson.
int64_t StartTimeline();
void StopTimeline();
// Before the stop: what has been told since (scheduler::TimelineJson).
std::string TimelineJson(int64_t begin);

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_RUNTIME_REGISTRY_H_
