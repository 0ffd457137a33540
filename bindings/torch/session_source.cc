#include "bindings/torch/session_source.h"

#include <utility>

#include "bindings/torch/python_lock.h"
#include "bindings/torch/thread_state.h"
#include "bindings/torch/torch_runtime.h"

namespace reprise::bindings {

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
  return runtime == nullptr ? nullptr : runtime->SessionFor(device, stream);
}

void BeforeOp(scheduler::Session* session, const engine::OpView& op,
              bool may_wait) {
  TorchRuntime* runtime = TorchRuntime::Active();
  if (runtime == nullptr || !runtime->scheduler().has_several_streams()) return;
  const PythonLockGivenUp python;
  runtime->scheduler().BeforeOp(session, op, may_wait);
}

bool OthersAreTold() {
  TorchRuntime* runtime = TorchRuntime::Active();
  return runtime != nullptr && runtime->scheduler().has_several_streams();
}

void HostHasWaited() {
  TorchRuntime* runtime = TorchRuntime::Active();
  if (runtime == nullptr || !runtime->scheduler().tells_of_waits()) return;
  const PythonLockGivenUp python;
  runtime->scheduler().AfterWait(std::exchange(t_thread_state.waited, 0));
}

void BeforeUnknownWrites(scheduler::Session* session, const uint64_t* at) {
  if (TorchRuntime* runtime = TorchRuntime::Active()) {
    const PythonLockGivenUp python;
    runtime->scheduler().BeforeUnknownWrites(session, at);
  }
}

void InterruptSession(c10::Device device, void* stream, const char* what) {
  if (TorchRuntime* runtime = TorchRuntime::Active()) {
    const PythonLockGivenUp python;
    runtime->scheduler().MemoryIsUsedOn(
        {runtime->kind(), device.has_index() ? device.index() : 0, stream},
        what);
  }
}

void InterruptSessions(const char* what) {
  if (TorchRuntime* runtime = TorchRuntime::Active()) {
    const PythonLockGivenUp python;
    runtime->scheduler().MemoryIsUsed(what);
  }
}

}  // namespace reprise::bindings
