#include "bindings/torch/hook/late_operators.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <iterator>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "bindings/torch/base/changes.h"
#include "bindings/torch/hook/hook_registrar.h"
#include "bindings/torch/hook/kernel_watch.h"
#include "bindings/torch/runtime/op_policy.h"
#include "bindings/torch/runtime/runtime_epoch.h"

namespace reprise::bindings {
namespace {

// Operators that came after RegisterHooksOnce.
class LateOperators final : public c10::OpRegistrationListener {
 public:
  // From now on.
  void Listen() {
    // Never undone: the handle that would undo it is leaked.
    new c10::RegistrationHandleRAII(
        c10::Dispatcher::singleton().addRegistrationListener(
            std::unique_ptr<c10::OpRegistrationListener>(this)));
    // Told of all that there was: what has no kernel yet is waited for.
    {
      const std::lock_guard lock(mutex_);
      for (Operator& known : waiting_) known.tries = kMostTries;
    }
    HookAll();
  }

  void onOperatorRegistered(const c10::OperatorHandle& op) override {
    const std::lock_guard lock(mutex_);
    waiting_.push_back({op.operator_name(), 0});
    registered_.Note();
    g_runtime_epoch.fetch_add(1, std::memory_order_release);
  }
  void onOperatorDeregistered(const c10::OperatorHandle& op) override {
    HookRegistrar::Forget(op.operator_name());
  }

  // An operator that has no kernel yet, as its library is still being loaded,
  // is tried again before each of so many ops, and later when others come.
  void HookAll() {
    if (!registered_.Due()) return;
    const std::lock_guard hooking(hooking_);
    if (!registered_.Due()) return;
    std::vector<Operator> waiting;
    uint64_t noted = 0;
    {
      const std::lock_guard lock(mutex_);
      waiting = std::exchange(waiting_, {});
      noted = registered_.noted();
    }
    // Not under our lock: the dispatcher's comes first.
    std::vector<Operator> left;
    bool soon = false;
    for (Operator& late : waiting) {
      const auto op = c10::Dispatcher::singleton().findSchema(late.name);
      if (!op.has_value()) continue;
      if (HasKernel(*op)) {
        HookRegistrar().AddBoxed(*op);
      } else {
        soon |= ++late.tries < kMostTries;
        left.push_back(std::move(late));
      }
    }
    if (left.empty()) {
      registered_.LookedAt(noted);
      return;
    }
    const std::lock_guard lock(mutex_);
    std::ranges::move(left, std::back_inserter(waiting_));
    if (soon) g_runtime_epoch.fetch_add(1, std::memory_order_release);
  }

 private:
  static constexpr int kMostTries = 64;

  struct Operator {
    c10::OperatorName name;
    int tries = 0;
  };

  std::mutex hooking_;  // before the dispatcher's, which is before mutex_
  std::mutex mutex_;
  std::vector<Operator> waiting_;  // guarded by mutex_
  Changes registered_;             // looked at: hooked
};

LateOperators& Late() {
  static auto* const late = new LateOperators;  // the dispatcher's, for ever
  return *late;
}

}  // namespace

void ListenForLateOperators() { Late().Listen(); }

void HookLateOperators() {
  Late().HookAll();
  LookAtKernels();
}

}  // namespace reprise::bindings
