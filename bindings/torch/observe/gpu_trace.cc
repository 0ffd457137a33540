#include "bindings/torch/observe/gpu_trace.h"

#include <c10/core/impl/GPUTrace.h>
#include <c10/core/impl/PyInterpreter.h>
#include <c10/core/impl/PyInterpreterHooks.h>
#include <c10/cuda/CUDAFunctions.h>

#include <atomic>
#include <mutex>

#include "bindings/torch/observe/no_interpreter.h"
#include "bindings/torch/region/tape_recorder.h"
#include "bindings/torch/runtime/runtime_epoch.h"
#include "bindings/torch/runtime/thread_state.h"
#include "bindings/torch/runtime/torch_runtime.h"
#include "scheduler/interrupts.h"

namespace reprise::bindings {
namespace {

using c10::impl::PyInterpreter;
using scheduler::UnwatchedWork;
using Handle = uintptr_t;

// The active runtime, if it serves GPUs.
TorchRuntime* ActiveOfGpus() {
  TorchRuntime* active = TorchRuntime::Active();
  return active != nullptr && active->kind() == scheduler::DeviceKind::kCuda
             ? active
             : nullptr;
}

// The runtime to tell; null where what happens is part of an op, or of Reprise.
TorchRuntime* Listener() {
  if (g_unwatched.on() || t_thread_state.depth > 0) {
    return nullptr;
  }
  return ActiveOfGpus();
}

// The stream is one of the current device's, as torch sees to.
scheduler::StreamKey KeyOf(Handle stream) {
  return {scheduler::DeviceKind::kCuda, c10::cuda::current_device(),
          reinterpret_cast<void*>(stream)};
}

const void* EventOf(Handle event) {
  return reinterpret_cast<const void*>(event);
}

// Who is told of all events, also of those inside of ops.
UnwatchedWork* Unwatched(c10::DeviceType type) {
  TorchRuntime* const active = type == c10::kCUDA ? ActiveOfGpus() : nullptr;
  return active == nullptr ? nullptr : &active->scheduler().unwatched();
}

// What a graph is captured of, no stream has to do yet.
bool IsCaptured(Handle stream) {
  auto status = cudaStreamCaptureStatusNone;
  const auto asked =
      cudaStreamIsCapturing(reinterpret_cast<cudaStream_t>(stream), &status);
  // The default stream, while another one is captured: no error of torch's.
  if (asked != cudaSuccess) (void)cudaGetLastError();
  return asked != cudaSuccess || status != cudaStreamCaptureStatusNone;
}

void NoteRecord(c10::DeviceType type, Handle event, Handle stream) {
  UnwatchedWork* const unwatched = Unwatched(type);
  if (unwatched == nullptr || !unwatched->any()) return;
  if (IsCaptured(stream)) {
    unwatched->Forget(EventOf(event));
  } else {
    unwatched->Records(EventOf(event), KeyOf(stream));
  }
}

bool Interrupt(Handle stream, const char* what) {
  TapeRecorder::NoteOutside(what);
  TorchRuntime* runtime = Listener();
  return runtime != nullptr &&
         runtime->scheduler().Interrupt(KeyOf(stream), what);
}

// The host is about to wait. Inside of an op the runtime that is returned must
// be told what for, and WatchedOp tells it of the rest; null: there is none.
TorchRuntime* NoteWait(const char* what) {
  TapeRecorder::NoteOutside(what);
  TapeRecorder::NoteWait();
  if (t_thread_state.depth == 0) return nullptr;
  t_thread_state.op.waited_inside = true;
  return ActiveOfGpus();
}

// The part of an interpreter that GPUTrace asks for.
class GpuTrace final : public NoInterpreter {
 public:
  // The next in line; null: none. Any thread.
  std::atomic<const PyInterpreter*> next{nullptr};

  void trace_gpu_event_record(c10::DeviceType type, Handle event,
                              Handle stream) const override {
    NoteRecord(type, event, stream);
    if (type == c10::kCUDA && Interrupt(stream, "an event is recorded")) {
      // Torch has recorded it already and will report what that call said.
      (void)cudaEventRecord(reinterpret_cast<cudaEvent_t>(event),
                            reinterpret_cast<cudaStream_t>(stream));
      NoteRecord(type, event, stream);
    }
    if (auto* n = Next()) (*n)->trace_gpu_event_record(type, event, stream);
  }
  void trace_gpu_event_wait(c10::DeviceType type, Handle event,
                            Handle stream) const override {
    if (type == c10::kCUDA) Interrupt(stream, "the stream waits for an event");
    UnwatchedWork* const unwatched = Unwatched(type);
    if (unwatched != nullptr && unwatched->any()) {
      unwatched->WaitsFor(IsCaptured(stream) ? nullptr : EventOf(event),
                          KeyOf(stream));
    }
    if (auto* n = Next()) (*n)->trace_gpu_event_wait(type, event, stream);
  }
  void trace_gpu_stream_synchronization(c10::DeviceType type,
                                        Handle stream) const override {
    constexpr char kWaits[] = "the host waits for the stream";
    TorchRuntime* runtime = type == c10::kCUDA ? Listener() : nullptr;
    scheduler::HostWait wait;
    if (type == c10::kCUDA) {
      if (TorchRuntime* const within = NoteWait(kWaits)) {
        within->scheduler().interrupts().NoteWait(KeyOf(stream),
                                                  t_thread_state.wait);
      }
    }
    if (runtime != nullptr) {
      runtime->scheduler().interrupts().BeforeWait(KeyOf(stream), kWaits, wait);
    }
    if (auto* n = Next()) (*n)->trace_gpu_stream_synchronization(type, stream);
    // Behind what the next one did, which may have waited itself.
    if (runtime != nullptr) t_thread_state.wait = wait;
  }
  void trace_gpu_device_synchronization(c10::DeviceType type) const override {
    constexpr char kWaits[] = "the host waits for the device";
    TorchRuntime* runtime = type == c10::kCUDA ? Listener() : nullptr;
    TorchRuntime* told = runtime;
    if (type == c10::kCUDA) {
      if (TorchRuntime* const within = NoteWait(kWaits)) told = within;
    }
    if (runtime != nullptr) runtime->scheduler().interrupts().All(kWaits);
    if (auto* n = Next()) (*n)->trace_gpu_device_synchronization(type);
    if (told != nullptr) {
      told->scheduler().interrupts().NoteWaitForDevice(
          c10::cuda::current_device(), t_thread_state.wait);
    }
  }

  void trace_gpu_event_creation(c10::DeviceType type,
                                Handle event) const override {
    if (auto* n = Next()) (*n)->trace_gpu_event_creation(type, event);
  }
  void trace_gpu_event_deletion(c10::DeviceType type,
                                Handle event) const override {
    if (UnwatchedWork* const unwatched = Unwatched(type)) {
      unwatched->Forget(EventOf(event));
    }
    if (auto* n = Next()) (*n)->trace_gpu_event_deletion(type, event);
  }
  void trace_gpu_memory_allocation(c10::DeviceType type,
                                   Handle memory) const override {
    if (auto* n = Next()) (*n)->trace_gpu_memory_allocation(type, memory);
  }
  void trace_gpu_memory_deallocation(c10::DeviceType type,
                                     Handle memory) const override {
    if (auto* n = Next()) (*n)->trace_gpu_memory_deallocation(type, memory);
  }
  void trace_gpu_stream_creation(c10::DeviceType type,
                                 Handle stream) const override {
    if (auto* n = Next()) (*n)->trace_gpu_stream_creation(type, stream);
  }
  void trace_gpu_event_synchronization(c10::DeviceType type,
                                       Handle event) const override {
    TorchRuntime* runtime = type == c10::kCUDA ? Listener() : nullptr;
    scheduler::HostWait wait;
    if (type == c10::kCUDA) {
      if (TorchRuntime* const within =
              NoteWait("the host waits for an event")) {
        within->scheduler().interrupts().NoteWaitForEvent(EventOf(event),
                                                          t_thread_state.wait);
      }
    }
    if (runtime != nullptr) {
      runtime->scheduler().interrupts().BeforeWaitForEvent(EventOf(event),
                                                           wait);
    }
    if (auto* n = Next()) (*n)->trace_gpu_event_synchronization(type, event);
    if (runtime != nullptr) t_thread_state.wait = wait;
  }

  std::string name() const override { return "reprise"; }

 private:
  const PyInterpreter* Next() const {
    return next.load(std::memory_order_acquire);
  }
};

GpuTrace& Tracer() {
  static auto* const leaked = new GpuTrace;  // torch may call it at any time
  return *leaked;
}

}  // namespace

void WatchGpuTrace() {
  static std::once_flag once;
  std::call_once(once, [] {
    using c10::impl::GPUTrace;
    static const auto* const leaked = new PyInterpreter(&Tracer());
    Tracer().next.store(GPUTrace::get_trace(), std::memory_order_release);
    GPUTrace::set_trace(leaked);  // does nothing where there has been another
    GPUTrace::gpuTraceState.store(leaked, std::memory_order_release);
  });
}

void PassGpuTraceOn() {
  Tracer().next.store(c10::impl::getGlobalPyInterpreter(),
                      std::memory_order_release);
}

}  // namespace reprise::bindings
