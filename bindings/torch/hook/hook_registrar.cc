#include "bindings/torch/hook/hook_registrar.h"

#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "bindings/torch/hook/boxed_hook.h"
#include "bindings/torch/runtime/op_policy.h"
#include "bindings/torch/runtime/op_table.h"

namespace reprise::bindings {
namespace {

struct BoxedHooks {
  std::mutex mutex;
  // Guarded by mutex, also what they point to is defined and forgotten.
  std::unordered_map<c10::OperatorName, BoxedHook*> hooks;
};

BoxedHooks& Boxed() {
  static auto* const all = new BoxedHooks;  // hooks outlive everything
  return *all;
}

}  // namespace

const OpInfo* HookRegistrar::Claim(const char* name, const char* overload,
                                   bool factory) {
  const auto op = c10::Dispatcher::singleton().findSchema(
      c10::OperatorName(name, overload));
  if (!op.has_value() || !MayBeHooked(*op)) return nullptr;
  if (op->hasKernelForDispatchKey(c10::DispatchKey::BackendSelect) != factory) {
    return nullptr;
  }
  return AddToOpTable(DescribeOp(*op, factory));
}

void HookRegistrar::Register(const OpInfo& info, c10::KernelFunction kernel,
                             std::optional<c10::impl::CppSignature> signature) {
  // Never undone: the handle that would undo it is leaked.
  new c10::RegistrationHandleRAII(c10::Dispatcher::singleton().registerImpl(
      info.handle.operator_name(), c10::DispatchKey::BackendSelect,
      std::move(kernel), signature, nullptr, "reprise"));
}

void HookRegistrar::RegisterBoxed(const OpInfo* info) {
  auto hook = std::make_unique<BoxedHook>(info);
  {
    BoxedHooks& all = Boxed();
    const std::lock_guard lock(all.mutex);
    all.hooks.emplace(info->handle.operator_name(), hook.get());
  }
  Register(*info, c10::KernelFunction::makeFromBoxedFunctor(std::move(hook)),
           std::nullopt);
}

void HookRegistrar::AddBoxed(const c10::OperatorHandle& op) {
  BoxedHooks& all = Boxed();
  const bool wanted = MayBeHooked(op);
  BoxedHook* known = nullptr;
  {
    const std::lock_guard lock(all.mutex);
    const auto found = all.hooks.find(op.operator_name());
    if (found != all.hooks.end()) known = found->second;
    if (known != nullptr && !known->forgotten()) return;
  }
  if (known == nullptr && (!wanted || op.hasKernelForDispatchKey(
                                          c10::DispatchKey::BackendSelect))) {
    return;
  }
  // Never what it was before: its kernels may be others.
  const OpInfo* info =
      wanted ? AddToOpTable(DescribeOp(op, /*factory=*/false)) : nullptr;
  if (known != nullptr) {
    const std::lock_guard lock(all.mutex);
    known->Define(info);
    return;
  }
  ++boxed_;
  RegisterBoxed(info);
}

const OpInfo* HookRegistrar::AddIfReplaced(const c10::OperatorHandle& op) {
  if (op.hasKernelForDispatchKey(c10::DispatchKey::BackendSelect)) {
    return nullptr;
  }
  OpInfo described = DescribeOp(op, /*factory=*/false);
  described.shown_if_replaced = true;
  const OpInfo* info = AddToOpTable(std::move(described));
  RegisterBoxed(info);
  return info;
}

void HookRegistrar::Forget(const c10::OperatorName& name) {
  BoxedHooks& all = Boxed();
  const std::lock_guard lock(all.mutex);
  const auto hook = all.hooks.find(name);
  if (hook != all.hooks.end()) hook->second->Forget();
}

}  // namespace reprise::bindings
