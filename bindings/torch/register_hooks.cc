#include "bindings/torch/register_hooks.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <iterator>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "bindings/torch/boxed_hook.h"
#include "bindings/torch/changes.h"
#include "bindings/torch/hook_registrar.h"
#include "bindings/torch/hooked_ops/shards.h"
#include "bindings/torch/kernel_watch.h"
#include "bindings/torch/op_policy.h"
#include "bindings/torch/session_source.h"
#include "bindings/torch/thread_state.h"
#include "bindings/torch/torch_runtime.h"

namespace reprise::bindings {
namespace {

constexpr char kWritesPastOperators[] =
    "an operator that writes memory past the operators that it is made of";

// Entries never change or move.
struct OpTable {
  std::mutex mutex;
  std::deque<OpInfo> ops;  // guarded by mutex while it grows
  // Guarded by mutex, also what they point to is defined and forgotten.
  std::unordered_map<c10::OperatorName, BoxedHook*> boxed;
};

OpTable& Table() {
  static OpTable* const table = new OpTable;  // hooks outlive everything
  return *table;
}

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

// Operators that came after RegisterAll.
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
  // Its hook stays, for what may come in its place.
  void onOperatorDeregistered(const c10::OperatorHandle& op) override {
    OpTable& table = Table();
    const std::lock_guard lock(table.mutex);
    const auto hook = table.boxed.find(op.operator_name());
    if (hook != table.boxed.end()) hook->second->Forget();
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
  Late().Listen();
  LookAtKernels();
  return HookCounts{registrar.unboxed(), registrar.boxed()};
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
  return AddToTable(*op, factory);
}

const OpInfo* HookRegistrar::AddToTable(const c10::OperatorHandle& op,
                                        bool factory) {
  OpTable& table = Table();
  OpInfo info = DescribeOp(op, factory);
  const std::lock_guard lock(table.mutex);
  info.id = static_cast<engine::OpId>(table.ops.size());
  return &table.ops.emplace_back(std::move(info));
}

void HookRegistrar::Register(const OpInfo& info, c10::KernelFunction kernel,
                             std::optional<c10::impl::CppSignature> signature) {
  // Never undone: the handle that would undo it is leaked.
  new c10::RegistrationHandleRAII(c10::Dispatcher::singleton().registerImpl(
      info.handle.operator_name(), c10::DispatchKey::BackendSelect,
      std::move(kernel), signature, nullptr, "reprise"));
}

void HookRegistrar::AddBoxed(const c10::OperatorHandle& op) {
  OpTable& table = Table();
  const bool wanted = MayBeHooked(op);
  BoxedHook* known = nullptr;
  {
    const std::lock_guard lock(table.mutex);
    const auto found = table.boxed.find(op.operator_name());
    if (found != table.boxed.end()) known = found->second;
    if (known != nullptr && !known->forgotten()) return;
  }
  if (known == nullptr && (!wanted || op.hasKernelForDispatchKey(
                                          c10::DispatchKey::BackendSelect))) {
    return;
  }
  // Never what it was before: its kernels may be others.
  const OpInfo* info = wanted ? AddToTable(op, /*factory=*/false) : nullptr;
  if (known != nullptr) {
    const std::lock_guard lock(table.mutex);
    known->Define(info);
    return;
  }
  auto hook = std::make_unique<BoxedHook>(info);
  {
    const std::lock_guard lock(table.mutex);
    table.boxed.emplace(op.operator_name(), hook.get());
  }
  ++boxed_;
  Register(*info, c10::KernelFunction::makeFromBoxedFunctor(std::move(hook)),
           std::nullopt);
}

const OpInfo* HookRegistrar::AddIfReplaced(const c10::OperatorHandle& op) {
  if (op.hasKernelForDispatchKey(c10::DispatchKey::BackendSelect)) {
    return nullptr;
  }
  OpTable& table = Table();
  OpInfo described = DescribeOp(op, /*factory=*/false);
  described.shown_if_replaced = true;
  const OpInfo* info = nullptr;
  std::unique_ptr<BoxedHook> hook;
  {
    const std::lock_guard lock(table.mutex);
    described.id = static_cast<engine::OpId>(table.ops.size());
    info = &table.ops.emplace_back(std::move(described));
    hook = std::make_unique<BoxedHook>(info);
    table.boxed.emplace(op.operator_name(), hook.get());
  }
  Register(*info, c10::KernelFunction::makeFromBoxedFunctor(std::move(hook)),
           std::nullopt);
  return info;
}

HookCounts RegisterHooksOnce() {
  static std::once_flag once;
  static HookCounts counts;
  std::call_once(once, [] {
    counts = RegisterAll();
    // Kernels were looked at while all warnings came, to nobody.
    KernelsMayHaveChanged();
  });
  return counts;
}

void HookLateOperators() {
  Late().HookAll();
  LookAtKernels();
}

std::string OpName(engine::OpId op) {
  OpTable& table = Table();
  const std::lock_guard lock(table.mutex);
  return op < table.ops.size() ? table.ops[op].name : std::string();
}

std::vector<const OpInfo*> HookedOps() {
  OpTable& table = Table();
  const std::lock_guard lock(table.mutex);
  std::vector<const OpInfo*> ops;
  ops.reserve(table.ops.size());
  for (const OpInfo& info : table.ops) ops.push_back(&info);
  return ops;
}

}  // namespace reprise::bindings
