#include "bindings/torch/observe/python_observers.h"

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/core/StorageImpl.h>
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

// What a function that Python calls uses without an op.
enum class Use : int64_t {
  kTensor = 0,    // memory of the Python tensor that is its first parameter
  kStorage = 1,   // memory of the Python storage that is its first parameter
  kMemory = 2,    // memory, whatever its parameters are
  kStreams = 3,   // streams of CUDA
  kLaunches = 4,  // as kMemory, and what ops it runs meanwhile belong to it
  kGraph = 5,     // as kStreams, and it launches a graph of the program's
  kSeeds = 6,     // none: it sets a random generator
  kScripts = 7,   // as kStreams: what TorchScript has compiled may be fused
  kWaits = 8,     // none: it waits for streams, as torch's tracer tells before
  kKernels = 9,   // as kMemory, and it may register kernels of operators
  kLibraries = 12,     // the same, by what loads a library
  kSavedTensors = 10,  // none: hooks of one that autograd has saved
  kNoHooks = 11,       // none: it disables hooks of saved tensors
  kModes = 13,         // none: a dispatch mode begins
  kPlans = 14,  // as kStreams, and it frees what a library has for its plans
  // None: it asks the Python tensor that is its first parameter for what its
  // form does not tell (TapeRecorder::Asked).
  kOffset = 15,
  kOrigin = 16,
  kHistory = 17,
  // None: it takes, or sets, the state of the random generator that is its
  // first parameter. The state is what it returns, or its second one.
  kTakesState = 18,
  kSetsState = 19,
};

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

// Asks nothing of a tensor that Python might answer, as a subclass may.
bool UsesMemoryOf(scheduler::DeviceKind kind, Use use, const void* first) {
  const bool cuda = kind == scheduler::DeviceKind::kCuda;
  switch (use) {
    case Use::kTensor: {
      const void* held = static_cast<const PythonObject*>(first)->held;
      return held != nullptr &&
             static_cast<const c10::TensorImpl*>(held)->key_set().has_backend(
                 cuda ? c10::BackendComponent::CUDABit
                      : c10::BackendComponent::CPUBit);
    }
    case Use::kStorage: {
      const void* held = static_cast<const PythonObject*>(first)->held;
      return held != nullptr &&
             static_cast<const c10::StorageImpl*>(held)->device_type() ==
                 (cuda ? c10::kCUDA : c10::kCPU);
    }
    case Use::kStreams:
    case Use::kGraph:
    case Use::kScripts:
    case Use::kPlans:
      return cuda;
    case Use::kSeeds:
    case Use::kWaits:
    case Use::kSavedTensors:
    case Use::kNoHooks:
    case Use::kModes:
    case Use::kOffset:
    case Use::kOrigin:
    case Use::kHistory:
    case Use::kTakesState:
    case Use::kSetsState:
      return false;
    case Use::kMemory:
    case Use::kLaunches:
    case Use::kKernels:
    case Use::kLibraries:
      break;
  }
  return true;
}

// What it gives away, or launches, may be written by whom no session sees.
bool MayWriteUnseen(Use use) {
  switch (use) {
    case Use::kTensor:
    case Use::kStorage:
    case Use::kMemory:
    case Use::kLaunches:
    case Use::kGraph:
    case Use::kScripts:
      return true;
    default:
      return false;
  }
}

// Why a region in which it is used is none.
const char* ReasonOf(Use use) {
  switch (use) {
    case Use::kSeeds:
    case Use::kSetsState:
      return "a random generator is set";
    case Use::kScripts:
      return "a function of TorchScript is called, which may be fused";
    case Use::kSavedTensors:
      return "hooks are set on what autograd has saved";
    case Use::kModes:
      return "a dispatch mode begins inside, whose Python no replay runs";
    case Use::kStreams:
    case Use::kGraph:
    case Use::kWaits:
      return "streams or graphs of CUDA are used";
    case Use::kKernels:
    case Use::kLibraries:
      return "kernels of operators are registered";
    case Use::kPlans:
      return "a library's plans are freed";
    default:
      return "memory is used without an op (data_ptr, numpy, tolist)";
  }
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
