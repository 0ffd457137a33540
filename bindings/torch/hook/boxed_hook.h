// The hook of operators that have none for their signature.

#ifndef REPRISE_BINDINGS_TORCH_HOOK_BOXED_HOOK_H_
#define REPRISE_BINDINGS_TORCH_HOOK_BOXED_HOOK_H_

#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "bindings/torch/hook/watched_op.h"
#include "bindings/torch/runtime/op_info.h"

namespace reprise::bindings {

// As Hook, on a stack of boxed values, and of an operator that its library may
// take back and another one define anew, in other words or with other kernels:
//
//   defined ─Forget─► forgotten ─Define─► defined
//
// Calls of a forgotten operator interrupt: nobody knows what they do. Never
// destroyed. Calls are thread-safe; Define and Forget are called one at a time.
class BoxedHook final : public c10::OperatorKernel {
 public:
  explicit BoxedHook(const OpInfo* info) { Define(info); }

  // Null: its calls are nobody's business. An operator that is defined again
  // and again stays forgotten in the end.
  void Define(const OpInfo* info);
  void Forget() { form_.store(nullptr, std::memory_order_release); }
  bool forgotten() const {
    return form_.load(std::memory_order_acquire) == nullptr;
  }

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                  torch::jit::Stack* stack);

 private:
  // What the operator is defined as. Calls under way may have one that is of
  // old, so none is ever destroyed.
  struct Form {
    explicit Form(const OpInfo* info);

    const OpInfo* const info;
    size_t arguments = 0;
    // For each return, which argument it is; -1 for those that are results.
    std::vector<int> returns;
    size_t results = 0;
  };
  static constexpr size_t kMostForms = 64;

  static void Watch(const Form& form, ThreadState& thread,
                    c10::DispatchKeySet below, torch::jit::Stack* stack);
  static void Observe(const Form& form, WatchedOp& op,
                      c10::DispatchKeySet below, torch::jit::Stack* stack);
  static void Follow(const Form& form, WatchedOp& op, torch::jit::Stack* stack);

  std::vector<std::unique_ptr<const Form>> forms_;
  // Released when its form is complete; null: forgotten.
  std::atomic<const Form*> form_{nullptr};
};

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_HOOK_BOXED_HOOK_H_
