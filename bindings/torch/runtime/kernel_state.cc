#include "bindings/torch/runtime/kernel_state.h"

#include <mutex>
#include <utility>

#include "bindings/torch/runtime/runtime_epoch.h"

namespace reprise::bindings {

constinit std::atomic<uint64_t> g_kernel_state{0};

namespace {

struct Replaced {
  Changes changes{1};  // nobody has looked yet
  std::mutex mutex;
  std::unordered_set<c10::OperatorName> operators;  // guarded by mutex
};

Replaced& AllReplaced() {
  static auto* const replaced = new Replaced;  // hooks outlive everything
  return *replaced;
}

}  // namespace

bool RunsProgramsKernel(const c10::OperatorName& name) {
  if (KernelState() == 0) return false;
  Replaced& all = AllReplaced();
  const std::lock_guard lock(all.mutex);
  return all.operators.contains(name);
}

void KernelsMayHaveChanged() {
  KernelChanges().Note();
  g_runtime_epoch.fetch_add(1, std::memory_order_release);
}

Changes& KernelChanges() { return AllReplaced().changes; }

void SetKernelState(uint64_t state,
                    std::unordered_set<c10::OperatorName> replaced) {
  Replaced& all = AllReplaced();
  {
    const std::lock_guard lock(all.mutex);
    all.operators = std::move(replaced);
  }
  g_kernel_state.store(state, std::memory_order_relaxed);
}

}  // namespace reprise::bindings
