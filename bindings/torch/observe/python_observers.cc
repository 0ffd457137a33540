#include "bindings/torch/observe/python_observers.h"

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <c10/core/TensorImpl.h>
#include <c10/util/intrusive_ptr.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <optional>
#include <utility>

#include "bindings/torch/base/cufft_plans.h"
#include "bindings/torch/base/python_api.h"
#include "bindings/torch/base/python_lock.h"
#include "bindings/torch/hook/kernel_watch.h"
#include "bindings/torch/observe/use.h"
#include "bindings/torch/region/tape_recorder.h"
#include "bindings/torch/runtime/kernel_state.h"
#include "bindings/torch/runtime/runtime_epoch.h"
#include "bindings/torch/runtime/session_source.h"
#include "bindings/torch/runtime/thread_state.h"
#include "bindings/torch/runtime/torch_runtime.h"
#include "bindings/torch/runtime/unseen_use.h"
#include "engine/device/launch_recorder.h"
#include "scheduler/interrupts.h"

namespace reprise::bindings {
namespace {

// Such a function, whatever it takes: at most five words. Those that it does
// not take are passed all the same, in registers that it does not look at
// (x86-64). What it returns is one word or less.
using Function = void* (*)(void*, void*, void*, void*, void*);

struct Observed {
  Function function = nullptr;
  Use use = Use::kMemory;
};

constexpr size_t kMostObserved = 1024;
// Written once each, under Python's lock, before anybody calls the observer.
constinit std::array<Observed, kMostObserved> g_observed;
constinit size_t g_observed_count = 0;

template <typename Held>
c10::intrusive_ptr<Held> HeldBy(const PythonObject* object) {
  return c10::intrusive_ptr<Held>::reclaim_copy(
      static_cast<Held*>(object->held));
}

void InterruptIfUsed(Use use, const void* first) {
  if (g_unwatched.on()) return;
  TorchRuntime* const active = TorchRuntime::Active();
  if (active == nullptr || !UsesMemoryOf(active->kind(), use, first) ||
      t_thread_state.depth > 0) {
    return;
  }
  const bool unseen = MayWriteUnseen(use);
  // What is freed is used by passes that a thread may be about to open.
  if (!active->scheduler().interrupts().may_have_opened() &&
      use != Use::kPlans) {
    if (unseen) active->scheduler().interrupts().NoteUnseen();
    return;
  }
  // Whoever is inside a session may wait for Python's lock.
  const PythonLockGivenUp python;
  if (unseen) {
    BeforeUnseenUse();
  } else {
    active->scheduler().interrupts().All(ReasonOf(use));
  }
}

// What was waited for or written is done, or is said to be. A replay that
// another thread has begun meanwhile may have read what was written until then.
void HaveReturned(Use use, const void* first) {
  if (use != Use::kWaits) return InterruptIfUsed(use, first);
  TorchRuntime* const active = TorchRuntime::Active();
  if (g_unwatched.on() || active == nullptr || t_thread_state.depth > 0) {
    t_thread_state.wait = {};
    return;
  }
  // A device may have written memory of the host.
  if (active->kind() == scheduler::DeviceKind::kHost &&
      active->scheduler().interrupts().may_have_opened()) {
    const PythonLockGivenUp python;
    return active->scheduler().interrupts().All(
        "the host has waited for a device");
  }
  HostHasWaited(std::exchange(t_thread_state.wait, {}));
}

// Python asks a tensor for something; none: it is no use of this kind.
std::optional<TapeRecorder::Asked> AskedBy(Use use) {
  switch (use) {
    case Use::kOffset:
      return TapeRecorder::Asked::kOffset;
    case Use::kOrigin:
      return TapeRecorder::Asked::kMemory;
    case Use::kHistory:
      return TapeRecorder::Asked::kHistory;
    default:
      return std::nullopt;
  }
}

// Whoever writes down what runs is told of the use.
void TellRecorder(Use use, const void* first) {
  if (const auto asked = AskedBy(use)) {
    const void* const held = static_cast<const PythonObject*>(first)->held;
    if (held != nullptr) {
      TapeRecorder::NoteAsked(*static_cast<const c10::TensorImpl*>(held),
                              *asked);
    }
  } else if (use == Use::kNoHooks) {
    TapeRecorder::NoteHooksDisabled();
  } else if (use != Use::kLibraries && use != Use::kKernels &&
             use != Use::kTakesState && use != Use::kSetsState) {
    TapeRecorder::NoteOutside(ReasonOf(use));
  }
}

// What takes the state of a random generator, or has set it.
template <typename Run>
void* RunOfState(Use use, const void* first, const void* second,
                 const Run& run) {
  void* const result = run();
  if (!TapeRecorder::RecordsHere()) return result;
  if (result == nullptr) {  // it has raised an error
    TapeRecorder::NoteOutside(ReasonOf(use));
    return result;
  }
  const at::Generator generator(
      HeldBy<c10::GeneratorImpl>(static_cast<const PythonObject*>(first)));
  const at::Tensor state(
      HeldBy<c10::TensorImpl>(static_cast<const PythonObject*>(
          use == Use::kTakesState ? result : second)));
  if (use == Use::kTakesState) {
    TapeRecorder::NoteStateTaken(generator, state);
  } else {
    TapeRecorder::NoteStateSet(generator, state);
  }
  return result;
}

// Runs what uses memory or waits, between interruptions before and after it.
template <typename Run>
void* RunUse(Use use, const void* first, const Run& run) {
  InterruptIfUsed(use, first);
  t_thread_state.wait = {};  // of earlier ones
  void* const result = run();
  // It raised: nobody has waited.
  if (result == nullptr) t_thread_state.wait = {};
  HaveReturned(use, first);
  return result;
}

// Runs what gives an address away. From then on ops that read there wait for
// the program.
template <typename Run>
void* RunGiving(Use use, const void* first, void* second, void* third,
                const Run& run) {
  void* const result = RunUse(use, first, run);
  if (result == nullptr) return result;  // it has raised an error
  NoteGiven(use, first, second, third);
  return result;
}

// Runs what may register kernels of operators.
template <typename Run>
void* RunRegistering(Use use, const Run& run) {
  // What changed before is not of this call.
  if (TapeRecorder::RecordsHere()) LookAtKernels();
  const uint64_t before = KernelState();
  void* const result = run();
  KernelsMayHaveChanged();
  // Modules of torch's own register what replaces no kernel.
  if (TapeRecorder::RecordsHere()) {
    LookAtKernels();
    if (KernelState() != before) TapeRecorder::NoteOutside(ReasonOf(use));
  }
  return result;
}

// Runs what may write any memory until it returns.
template <typename Run>
void* RunUnseen(Use use, const void* first, const Run& run) {
  // Before passes are interrupted: none begins anew with what is freed.
  std::optional<engine::LibraryFrees::Freeing> freeing;
  if (use == Use::kPlans) {
    const PythonLockGivenUp python;
    freeing.emplace(CufftFrees());
  }
  const AnythingUnderWay noted;
  InterruptIfUsed(use, first);
  if (use == Use::kGraph) {
    const device::LaunchRecorder::GraphOfProgram launching;
    return run();
  }
  if (use == Use::kLaunches) {
    const DepthGuard inside;
    return run();
  }
  return use == Use::kPlans ? run() : RunRegistering(use, run);
}

void* RunObserved(void* first, void* b, void* c, void* d, void* e,
                  const Observed& observed) {
  const auto run = [&] { return observed.function(first, b, c, d, e); };
  TellRecorder(observed.use, first);
  switch (observed.use) {
    case Use::kSeeds:
    case Use::kSavedTensors:
    case Use::kNoHooks:
    case Use::kModes:
    case Use::kOffset:
    case Use::kOrigin:
    case Use::kHistory:
      return run();
    case Use::kTakesState:
    case Use::kSetsState:
      return RunOfState(observed.use, first, b, run);
    case Use::kScripts:
      InterruptIfUsed(observed.use, first);
      return run();
    case Use::kTensorsAddress:
    case Use::kStoragesAddress:
    case Use::kExports:
    case Use::kExportsFast:
      return RunGiving(observed.use, first, b, c, run);
    case Use::kTensor:
    case Use::kStorage:
    case Use::kMemory:
    case Use::kStreams:
    case Use::kWaits:
      return RunUse(observed.use, first, run);
    case Use::kLaunches:
    case Use::kGraph:
    case Use::kKernels:
    case Use::kLibraries:
    case Use::kPlans:
      break;
  }
  return RunUnseen(observed.use, first, run);
}

template <size_t kIndex>
void* Observer(void* first, void* b, void* c, void* d, void* e) {
  return RunObserved(first, b, c, d, e, g_observed[kIndex]);
}

template <size_t... kIndices>
constexpr std::array<Function, sizeof...(kIndices)> Observers(
    std::index_sequence<kIndices...>) {
  return {&Observer<kIndices>...};
}

// The address of a function that interrupts before it does what the one at
// `function` does. Under Python's lock. 0: there are too many.
int64_t ObserverOf(int64_t function, int64_t use) {
  static constexpr auto kObservers =
      Observers(std::make_index_sequence<kMostObserved>());
  if (g_observed_count == kMostObserved) return 0;
  g_observed[g_observed_count] = {reinterpret_cast<Function>(function),
                                  static_cast<Use>(use)};
  return reinterpret_cast<int64_t>(kObservers[g_observed_count++]);
}

// Around what launches without ops (see Use). They nest.
void EnterLaunches() {
  TapeRecorder::NoteOutside("code launches kernels of its own");
  ThreadState& thread = t_thread_state;
  if (thread.depth == 0 && !thread.under_way()) {
    thread.noted_launches = true;
    thread.Slot().BeginAnything();
  }
  BeforeUnseenUse();
  ++thread.depth;
}
void LeaveLaunches() {
  ThreadState& thread = t_thread_state;
  if (--thread.depth > 0 || !thread.noted_launches) return;
  thread.noted_launches = false;
  thread.EndUnderWay();
}

}  // namespace

std::vector<int64_t> PlainFunctions() {
  return {reinterpret_cast<int64_t>(&ObserverOf),
          reinterpret_cast<int64_t>(&BeforeUnseenUse),
          reinterpret_cast<int64_t>(&EnterLaunches),
          reinterpret_cast<int64_t>(&LeaveLaunches)};
}

}  // namespace reprise::bindings
