// The hook of operators that have none for their signature.

#ifndef REPRISE_BINDINGS_TORCH_BOXED_HOOK_H_
#define REPRISE_BINDINGS_TORCH_BOXED_HOOK_H_

#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <vector>

#include "bindings/torch/op_info.h"
#include "bindings/torch/watched_op.h"

namespace reprise::bindings {

// Arguments and results are of types that can be told apart when boxed, its
// kernels are compiled code, and nothing sits on its BackendSelect key. Takes
// operators that MayBeHooked.
bool MayBeHookedBoxed(const c10::OperatorHandle& op);

// As Hook, on a stack of boxed values. Immutable.
class BoxedHook final : public c10::OperatorKernel {
 public:
  explicit BoxedHook(const OpInfo* info);

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                  torch::jit::Stack* stack);

 private:
  void Watch(ThreadState& thread, c10::DispatchKeySet below,
             torch::jit::Stack* stack);
  void Observe(WatchedOp& op, c10::DispatchKeySet below,
               torch::jit::Stack* stack);
  void Follow(WatchedOp& op, torch::jit::Stack* stack);

  const OpInfo* const info_;
  const size_t arguments_;
  // For each return, which argument it is; -1 for those that are results.
  std::vector<int> returns_;
  size_t results_ = 0;
};

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_BOXED_HOOK_H_
