// torch.ops.reprise: what the Python package calls. Failures come back as
// [code, sentence] and become Python's exceptions there.
//
// A runtime is named by its id; -1 names the one that was active last.

#include <torch/library.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "bindings/torch/hook/kernel_watch.h"
#include "bindings/torch/hook/register_hooks.h"
#include "bindings/torch/observe/gpu_trace.h"
#include "bindings/torch/observe/python_observers.h"
#include "bindings/torch/runtime/op_policy.h"
#include "bindings/torch/runtime/op_table.h"
#include "bindings/torch/runtime/torch_runtime.h"
#include "bindings/torch/runtime_registry.h"
#include "engine/base/options.h"
#include "scheduler/build_queue.h"
#include "scheduler/stats.h"

namespace reprise::bindings {
namespace {

using Texts = std::vector<std::string>;

const char* NameOf(base::Code code) {
  switch (code) {
    case base::Code::kInvalidArgument:
      return "invalid_argument";
    case base::Code::kFailedPrecondition:
      return "failed_precondition";
    case base::Code::kUnavailable:
      return "unavailable";
    case base::Code::kResourceExhausted:
      return "resource_exhausted";
    case base::Code::kInternal:
      break;
  }
  return "internal";
}

// Empty, or the code and the sentence.
Texts Report(const base::Status& status) {
  if (status) return {};
  return {NameOf(status.error().code()), status.error().message()};
}

// "cpu", "cuda" for all GPUs, or "cuda:<index>".
base::Result<scheduler::Devices> DevicesNamed(const std::string& name) {
  if (name == "cpu") return scheduler::Devices{scheduler::DeviceKind::kHost};
  scheduler::Devices gpus{scheduler::DeviceKind::kCuda};
  if (name == "cuda") return gpus;
  constexpr std::string_view kOne = "cuda:";
  int index = 0;
  const char* const end = name.data() + name.size();
  if (name.starts_with(kOne)) {
    const auto [read_to, error] =
        std::from_chars(name.data() + kOne.size(), end, index);
    if (error == std::errc() && read_to == end && index >= 0) {
      gpus.index = index;
      return gpus;
    }
  }
  return base::Fail(base::Code::kInvalidArgument,
                    "option 'device' does not accept '" + name +
                        "': give cpu, cuda, cuda:<index> or None");
}

base::Status TryEnable(const std::string& device,
                       const c10::Dict<std::string, std::string>& given) {
  REPRISE_ASSIGN_OR_RETURN(const scheduler::Devices devices,
                           DevicesNamed(device));
  REPRISE_ASSIGN_OR_RETURN(base::Options options,
                           base::Options::FromEnvironment());
  for (const auto& entry : given) {
    REPRISE_RETURN_IF_ERROR(options.Set(entry.key(), entry.value()));
  }
  if (!options.enabled) return {};
  return EnableRuntime(devices, options);
}

// Options as Options::Set takes them, on top of the environment's.
Texts Enable(const std::string& device,
             const c10::Dict<std::string, std::string>& options) {
  return Report(TryEnable(device, options));
}

// The id of the active runtime; -1 when none is.
int64_t Active() {
  TorchRuntime* active = TorchRuntime::Active();
  return active != nullptr ? active->id() : -1;
}

TorchRuntime* Named(int64_t id) {
  return id < 0 ? TorchRuntime::Latest() : FindRuntime(static_cast<int>(id));
}

// -1 switches off.
Texts Activate(int64_t id) {
  return Report(
      ActivateRuntime(id < 0 ? nullptr : FindRuntime(static_cast<int>(id))));
}

// See scheduler::Runtime::Prepare.
void Prepare() {
  if (TorchRuntime* runtime = TorchRuntime::Active()) {
    runtime->scheduler().Prepare();
  }
}

// False if `timeout_s` passed first. Does not hold the GIL, but cannot be
// interrupted: callers wait in slices.
bool Wait(int64_t id, double timeout_s) {
  TorchRuntime* runtime = Named(id);
  if (runtime == nullptr) return true;
  return runtime->scheduler().Wait(std::chrono::milliseconds(
      static_cast<int64_t>(std::max(0.0, timeout_s) * 1e3)));
}

// Builds since the runtime was made: how many have ended, and all.
std::vector<int64_t> Builds(int64_t id) {
  TorchRuntime* runtime = Named(id);
  if (runtime == nullptr) return {0, 0};
  const auto counts = runtime->scheduler().builds().counts();
  return {static_cast<int64_t>(counts.ended),
          static_cast<int64_t>(counts.posted)};
}

void Reset(int64_t id) {
  if (TorchRuntime* runtime = Named(id)) runtime->scheduler().Reset();
}

// In the order of scheduler::Stats; zeros before the first enable.
c10::Dict<std::string, int64_t> Stats(int64_t id) {
  scheduler::Stats stats;
  if (TorchRuntime* runtime = Named(id)) stats = runtime->scheduler().stats();
  c10::Dict<std::string, int64_t> fields;
#define REPRISE_INSERT(name, meaning) \
  fields.insert(#name, static_cast<int64_t>(stats.name));
  REPRISE_STATS(REPRISE_INSERT)
#undef REPRISE_INSERT
  return fields;
}

// Empty before the first enable.
std::string ExplainJson(int64_t id) {
  TorchRuntime* runtime = Named(id);
  return runtime != nullptr ? runtime->scheduler().ExplainJson() : "";
}

// Empty: there is no such plan.
std::string PlanJson(int64_t id, const std::string& signature) {
  TorchRuntime* runtime = Named(id);
  return runtime != nullptr ? runtime->scheduler().PlanJson(signature) : "";
}

// Five texts an option: name, variable, default, accepted values, meaning.
std::vector<Texts> OptionTable() {
  std::vector<Texts> rows;
  for (const base::OptionRow& row : base::OptionTable()) {
    rows.push_back({std::string(row.name), std::string(row.variable),
                    std::string(row.default_value), std::string(row.accepted),
                    std::string(row.doc)});
  }
  return rows;
}

// For tests, eight texts a hooked operator: name, why it is a cut (or ""), bits
// of the arguments that its schema says are written, bits of those that are
// written in secret, the argument that must be true for that (or -1), whether
// it may use a generator, whether it is a factory, whether it goes by storages.
std::vector<Texts> HookTable() {
  (void)RegisterHooksOnce();
  std::vector<Texts> rows;
  for (const OpInfo* op : HookedOps()) {
    rows.push_back({op->name, op->cut != nullptr ? op->cut : "",
                    std::to_string(op->written.by_schema),
                    std::to_string(op->written.hidden),
                    std::to_string(op->written.training_argument),
                    op->effects.may_use_generator ? "1" : "0",
                    op->factory ? "1" : "0", op->by_storages ? "1" : "0"});
  }
  return rows;
}

// For tests.
Texts WritingPastOperators() {
  const auto names = NamesThatWritePastOperators();
  return {names.begin(), names.end()};
}

// Of the kernel that is registered now.
bool TakeForTorchs(const std::string& name, const std::string& overload,
                   const std::string& backend) {
  return TakeKernelForTorchs({name, overload}, c10::parseDispatchKey(backend));
}

#ifdef REPRISE_MEASURE
// While true, replays launch nothing and compute nothing.
void SkipLaunches(bool skip) {
  if (TorchRuntime* runtime = TorchRuntime::Latest()) {
    runtime->scheduler().SkipLaunches(skip);
  }
}
#endif

}  // namespace
}  // namespace reprise::bindings

TORCH_LIBRARY(reprise, library) {
  namespace b = reprise::bindings;
  library.def("enable(str device, Dict(str, str) options) -> str[]",
              &b::Enable);
  library.def("active() -> int", &b::Active);
  library.def("activate(int id) -> str[]", &b::Activate);
  library.def("prepare() -> ()", &b::Prepare);
  library.def("wait(int id, float timeout_s) -> bool", &b::Wait);
  library.def("builds(int id) -> int[]", &b::Builds);
  library.def("reset(int id) -> ()", &b::Reset);
  library.def("stats(int id) -> Dict(str, int)", &b::Stats);
  library.def("explain_json(int id) -> str", &b::ExplainJson);
  library.def("plan_json(int id, str signature) -> str", &b::PlanJson);
  library.def("start_timeline() -> int", &b::StartTimeline);
  library.def("stop_timeline() -> ()", &b::StopTimeline);
  library.def("timeline_json(int begin) -> str", &b::TimelineJson);
  library.def("option_table() -> str[][]", &b::OptionTable);
  library.def("hook_table() -> str[][]", &b::HookTable);
  library.def("writing_past_operators() -> str[]", &b::WritingPastOperators);
  library.def(
      "take_kernel_for_torchs(str name, str overload, str backend) -> bool",
      &b::TakeForTorchs);
  library.def("pause_recording() -> ()", &b::PauseRecording);
  library.def("resume_recording() -> ()", &b::ResumeRecording);
  library.def("plain_functions() -> int[]", &b::PlainFunctions);
  library.def("pass_gpu_trace_on() -> ()", &b::PassGpuTraceOn);
#ifdef REPRISE_MEASURE
  library.def("skip_launches(bool skip) -> ()", &b::SkipLaunches);
#endif
}
