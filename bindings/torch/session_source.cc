#include "bindings/torch/session_source.h"

#include "bindings/torch/torch_runtime.h"

namespace reprise::bindings {

std::optional<scheduler::DeviceKind> WatchedKind() {
  TorchRuntime* runtime = TorchRuntime::Active();
  if (runtime == nullptr) return std::nullopt;
  return runtime->kind();
}

scheduler::Session* SessionFor(c10::Device device, void* stream) {
  TorchRuntime* runtime = TorchRuntime::Active();
  return runtime == nullptr ? nullptr : runtime->SessionFor(device, stream);
}

}  // namespace reprise::bindings
