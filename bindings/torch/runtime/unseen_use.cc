#include "bindings/torch/runtime/unseen_use.h"

#include "bindings/torch/runtime/runtime_epoch.h"
#include "bindings/torch/runtime/thread_state.h"
#include "bindings/torch/runtime/torch_runtime.h"
#include "scheduler/interrupts.h"

namespace reprise::bindings {

void BeforeUnseenUse() {
  TorchRuntime* active = TorchRuntime::Active();
  if (active == nullptr || g_unwatched.on() || t_thread_state.depth > 0) {
    return;
  }
  active->scheduler().interrupts().MemoryIsUsed(
      "memory is used without an op (data_ptr, numpy, a graph of its own)");
}

void BeforeContents() {
  const TorchRuntime* const active = TorchRuntime::Active();
  if (active != nullptr && active->kind() == scheduler::DeviceKind::kHost) {
    BeforeUnseenUse();
  }
}

}  // namespace reprise::bindings
