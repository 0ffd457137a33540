#include "bindings/torch/hook/register_hooks.h"

#include <c10/util/Exception.h>

#include <memory>
#include <mutex>
#include <optional>

#include "bindings/torch/hook/hook_registrar.h"
#include "bindings/torch/hook/hooked_ops/shards.h"
#include "bindings/torch/hook/kernel_watch.h"
#include "bindings/torch/hook/late_operators.h"
#include "bindings/torch/runtime/kernel_state.h"
#include "bindings/torch/runtime/op_policy.h"
#include "bindings/torch/runtime/runtime_epoch.h"
#include "bindings/torch/runtime/session_source.h"
#include "bindings/torch/runtime/thread_state.h"

namespace reprise::bindings {
namespace {

constexpr char kWritesPastOperators[] =
    "an operator that writes memory past the operators that it is made of";

// Torch warns, once a process, that its kernels for factories are replaced;
// with warnings set to "always" for a moment, that one warning comes to us and
// the next one still comes to the program.
class SilentOverrides {
 public:
  SilentOverrides() : always_(true), guard_(&silent_) {}

 private:
  class Silent final : public c10::WarningHandler {
   public:
    void process(const c10::Warning&) override {}
  };

  Silent silent_;
  c10::WarningUtils::WarnAlways always_;
  c10::WarningUtils::WarningHandlerGuard guard_;
};

// Stands before an operator that is made of others and writes memory past them:
// replays end before it, and all that it calls belongs to it.
class PastOperators final : public c10::OperatorKernel {
 public:
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet,
                  torch::jit::Stack* stack) {
    const AnythingUnderWay noted;
    if (t_thread_state.depth == 0 && !g_unwatched.on()) {
      InterruptSessions(kWritesPastOperators);
    }
    const DepthGuard inside;
    op.callBoxedForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd,
                               *stack);
  }
};

// With autograd, torch runs what is made of other operators before any hook.
void HookComposite(const c10::OperatorHandle& op) {
  using c10::DispatchKey;
  for (const DispatchKey key :
       {DispatchKey::AutogradCPU, DispatchKey::AutogradCUDA,
        DispatchKey::BackendSelect}) {
    // Never undone: the handle that would undo it is leaked.
    new c10::RegistrationHandleRAII(c10::Dispatcher::singleton().registerImpl(
        op.operator_name(), key,
        c10::KernelFunction::makeFromBoxedFunctor(
            std::make_unique<PastOperators>()),
        std::nullopt, nullptr, "reprise"));
  }
}

HookCounts RegisterAll() {
  const SilentOverrides silent;
  HookRegistrar registrar;
  RegisterShards(registrar);
  for (const c10::OperatorName& name :
       c10::Dispatcher::singleton().getAllOpNames()) {
    const auto op = c10::Dispatcher::singleton().findSchema(name);
    if (!op.has_value()) continue;
    if (WritesPastOperators(*op)) {
      HookComposite(*op);
    } else {
      registrar.AddBoxed(*op);
    }
  }
  ListenForLateOperators();
  LookAtKernels();
  return HookCounts{registrar.unboxed(), registrar.boxed()};
}

}  // namespace

HookCounts RegisterHooksOnce() {
  static std::once_flag once;
  static HookCounts counts;
  std::call_once(once, [] {
    CallAtEachEpoch(&HookLateOperators);
    counts = RegisterAll();
    // Kernels were looked at while all warnings came, to nobody.
    KernelsMayHaveChanged();
  });
  return counts;
}

}  // namespace reprise::bindings
