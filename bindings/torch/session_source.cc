#include "bindings/torch/session_source.h"

#include "bindings/torch/torch_runtime.h"

namespace reprise::bindings {

std::optional<Watched> WatchedNow() {
  TorchRuntime* runtime = TorchRuntime::Active();
  if (runtime == nullptr) return std::nullopt;
  return Watched{runtime->kind(), &runtime->scheduler().asleep()};
}

void PassOver(uint64_t ops) {
  if (TorchRuntime* runtime = TorchRuntime::Active()) {
    runtime->scheduler().PassOver(ops);
  }
}

scheduler::Session* SessionFor(c10::Device device, void* stream) {
  TorchRuntime* runtime = TorchRuntime::Active();
  return runtime == nullptr ? nullptr : runtime->SessionFor(device, stream);
}

void BeforeOp(scheduler::Session* session, const engine::OpView& op,
              bool may_wait) {
  if (TorchRuntime* runtime = TorchRuntime::Active()) {
    runtime->scheduler().BeforeOp(session, op, may_wait);
  }
}

bool OthersAreTold() {
  TorchRuntime* runtime = TorchRuntime::Active();
  return runtime != nullptr && runtime->scheduler().has_several_streams();
}

void InterruptSession(c10::Device device, void* stream, const char* what) {
  if (TorchRuntime* runtime = TorchRuntime::Active()) {
    runtime->scheduler().MemoryIsUsedOn(
        {runtime->kind(), device.has_index() ? device.index() : 0, stream},
        what);
  }
}

void InterruptSessions(const char* what) {
  if (TorchRuntime* runtime = TorchRuntime::Active()) {
    runtime->scheduler().MemoryIsUsed(what);
  }
}

}  // namespace reprise::bindings
