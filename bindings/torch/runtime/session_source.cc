#include "bindings/torch/runtime/session_source.h"

#include "bindings/torch/base/python_lock.h"
#include "bindings/torch/runtime/torch_runtime.h"
#include "scheduler/interrupts.h"

namespace reprise::bindings {

namespace {

// Another one may have become active since the caller knew of what kind it is.
bool Serves(const TorchRuntime* runtime, c10::Device device) {
  return runtime != nullptr &&
         device.is_cuda() == (runtime->kind() == scheduler::DeviceKind::kCuda);
}

}  // namespace

std::optional<Watched> WatchedNow() {
  TorchRuntime* runtime = TorchRuntime::Active();
  if (runtime == nullptr) return std::nullopt;
  return Watched{runtime->kind(), &runtime->scheduler().asleep()};
}

void PassOver(uint64_t ops) {
  if (TorchRuntime* runtime = TorchRuntime::Active()) {
    const PythonLockGivenUp python;
    runtime->scheduler().PassOver(ops);
  }
}

scheduler::Session* SessionFor(c10::Device device, void* stream) {
  TorchRuntime* runtime = TorchRuntime::Active();
  return Serves(runtime, device) ? runtime->SessionFor(device, stream)
                                 : nullptr;
}

void BeforeOp(scheduler::Session* session, const engine::OpView& op,
              bool may_wait, scheduler::HostWait& wait) {
  TorchRuntime* runtime = TorchRuntime::Active();
  if (runtime == nullptr ||
      !runtime->scheduler().interrupts().has_several_streams())
    return;
  const PythonLockGivenUp python;
  runtime->scheduler().interrupts().BeforeOp(session, op, may_wait, wait);
}

bool OthersAreTold() {
  TorchRuntime* runtime = TorchRuntime::Active();
  return runtime != nullptr &&
         runtime->scheduler().interrupts().has_several_streams();
}

void HostHasWaited(const scheduler::HostWait& wait) {
  TorchRuntime* runtime = TorchRuntime::Active();
  if (runtime == nullptr || !runtime->scheduler().interrupts().tells_of_waits())
    return;
  const PythonLockGivenUp python;
  runtime->scheduler().interrupts().AfterWait(wait);
}

void BeforeUnknownWrites(scheduler::Session* session, const uint64_t* at) {
  if (TorchRuntime* runtime = TorchRuntime::Active()) {
    const PythonLockGivenUp python;
    runtime->scheduler().interrupts().BeforeUnknownWrites(session, at);
  }
}

void InterruptSession(c10::Device device, void* stream, const char* what) {
  TorchRuntime* runtime = TorchRuntime::Active();
  if (!Serves(runtime, device)) return InterruptSessions(what);
  const PythonLockGivenUp python;
  runtime->scheduler().MemoryIsUsedOn(
      {runtime->kind(), device.has_index() ? device.index() : 0, stream}, what);
}

void InterruptAnyReplay(const char* what) {
  if (TorchRuntime* runtime = TorchRuntime::Active()) {
    const PythonLockGivenUp python;
    runtime->scheduler().interrupts().All(what);
  }
}

void NoteUnwatchedWork() {
  if (TorchRuntime* runtime = TorchRuntime::Active()) {
    runtime->scheduler().unwatched().Add();
  }
}

void InterruptSessions(const char* what) {
  if (TorchRuntime* runtime = TorchRuntime::Active()) {
    const PythonLockGivenUp python;
    runtime->scheduler().interrupts().MemoryIsUsed(what);
  }
}

}  // namespace reprise::bindings
