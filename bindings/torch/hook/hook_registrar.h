// Registers hooks, one operator at a time.

#ifndef REPRISE_BINDINGS_TORCH_HOOK_HOOK_REGISTRAR_H_
#define REPRISE_BINDINGS_TORCH_HOOK_HOOK_REGISTRAR_H_

#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <memory>
#include <optional>

#include "bindings/torch/hook/hook.h"
#include "bindings/torch/runtime/op_info.h"

namespace reprise::bindings {

// What of a hook does not depend on the operator's signature. Single-thread,
// but for Forget.
class HookRegistrar {
 public:
  // Hooks an operator by its struct in at::_ops, unless this torch does not
  // have it or something else sits on its BackendSelect key.
  template <typename Op>
  void Add() {
    AddUnboxed<HookKind::kPlain, Op>();
  }
  // The same for one that torch itself gives a kernel for BackendSelect.
  template <typename Op>
  void AddFactory() {
    AddUnboxed<HookKind::kFactory, Op>();
  }

  // Hooks an operator that has no struct in at::_ops, or that is too rare for
  // a hook of its own; see boxed_hook.h.
  void AddBoxed(const c10::OperatorHandle& op);

  // Hooks an operator that is a session's business only while the program has
  // replaced its kernel: one that is made of others, or a view. Null where
  // something else sits on its BackendSelect key.
  const OpInfo* AddIfReplaced(const c10::OperatorHandle& op);

  // The operator is defined no more. Its hook stays, for what may come in its
  // place. Thread-safe.
  static void Forget(const c10::OperatorName& name);

  size_t unboxed() const { return unboxed_; }
  size_t boxed() const { return boxed_; }

 private:
  template <HookKind kKind, typename Op>
  void AddUnboxed() {
    const OpInfo* info =
        Claim(Op::name, Op::overload_name, kKind == HookKind::kFactory);
    if (info == nullptr) return;
    using Kernel = Hook<kKind, typename Op::schema>;
    ++unboxed_;
    Register(*info,
             c10::KernelFunction::makeFromUnboxedFunctor<false, Kernel>(
                 std::make_unique<Kernel>(info, &Op::redispatch)),
             c10::impl::CppSignature::make<typename Op::schema>());
  }

  // The operator's entry in the table, or null if it cannot be hooked.
  static const OpInfo* Claim(const char* name, const char* overload,
                             bool factory);
  static void RegisterBoxed(const OpInfo* info);
  static void Register(const OpInfo& info, c10::KernelFunction kernel,
                       std::optional<c10::impl::CppSignature> signature);

  size_t unboxed_ = 0;
  size_t boxed_ = 0;
};

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_HOOK_HOOK_REGISTRAR_H_
