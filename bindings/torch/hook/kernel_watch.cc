#include "bindings/torch/hook/kernel_watch.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "bindings/torch/base/private_member.h"
#include "bindings/torch/hook/hook_registrar.h"
#include "bindings/torch/runtime/kernel_state.h"
#include "bindings/torch/runtime/op_info.h"
#include "bindings/torch/runtime/op_table.h"

namespace reprise::bindings {

// Of an operator: its definition, and where each of its kernels was registered.
// What torch offers in words (dumpState) takes 50 us an operator.
struct DefinitionOf {
  friend auto Member(DefinitionOf);
};
struct KernelTableOf {
  friend auto Member(KernelTableOf);
};
template struct Reveal<DefinitionOf, &c10::OperatorHandle::operatorDef_>;
template struct Reveal<KernelTableOf, &c10::impl::OperatorEntry::kernels_>;

// What a kernel calls. Kernels in Python are all called by one function of
// torch's, so only their functors tell them apart.
struct BoxedKernelOf {
  friend auto Member(BoxedKernelOf);
};
struct FunctorOf {
  friend auto Member(FunctorOf);
};
template struct Reveal<BoxedKernelOf, &c10::KernelFunction::boxed_kernel_func_>;
template struct Reveal<FunctorOf, &c10::BoxedKernel::functor_>;

namespace {

using c10::DispatchKey;

const c10::impl::OperatorEntry& EntryOf(const c10::OperatorHandle& op) {
  return (op.*Member(DefinitionOf()))->op;
}

bool IsSame(const c10::KernelFunction& a, const c10::KernelFunction& b) {
  const auto functor = [](const c10::KernelFunction& kernel) {
    return ((kernel.*Member(BoxedKernelOf())).*Member(FunctorOf())).get();
  };
  return a._equalsBoxedAndUnboxed(b) && functor(a) == functor(b);
}

constexpr std::array kBackends = {DispatchKey::CPU, DispatchKey::CUDA};
constexpr std::array kBits = {ReplacedKernels::kOnCpu,
                              ReplacedKernels::kOnCuda};

// Kernels that stand for a backend which has none of its own, the first of them
// that there is.
constexpr std::array kForAllBackends = {
    DispatchKey::CompositeExplicitAutogradNonFunctional,
    DispatchKey::CompositeExplicitAutograd,
    DispatchKey::CompositeImplicitAutograd};

// The kernel that runs for a backend, with where it was registered. Null: it is
// that of a fallback, or there is none.
const c10::impl::AnnotatedKernel* KernelFor(
    const c10::impl::OperatorEntry& entry, DispatchKey backend) {
  const auto& kernels = entry.*Member(KernelTableOf());
  auto found = kernels.find(backend);
  for (const DispatchKey key : kForAllBackends) {
    if (found == kernels.end()) found = kernels.find(key);
  }
  return found == kernels.end() ? nullptr : &found->second.front();
}

constexpr std::string_view kRegisteredAt = "registered at ";

// The folder of the sources that torch was built from; empty: not known.
std::string FindTorchsFolder() {
  constexpr std::string_view kSchemas = "build/aten/src/ATen/RegisterSchema";
  const auto op =
      c10::Dispatcher::singleton().findSchema({"aten::add", "Tensor"});
  if (!op.has_value()) return {};
  const std::string& debug = op->debug();
  const size_t end = debug.find(kSchemas);
  if (!debug.starts_with(kRegisteredAt) || end == std::string::npos) return {};
  return debug.substr(0, end);
}

// Python's kernels, and others for boxed values, have no types.
bool IsTorchs(const c10::impl::AnnotatedKernel* kernel,
              std::string_view folder) {
  if (kernel == nullptr) return false;
  return folder.empty() ? kernel->inferred_function_schema != nullptr
                        : kernel->debug.starts_with(folder);
}

class ProgramsKernels {
 public:
  bool Take(const c10::OperatorName& name, DispatchKey backend) {
    const auto op = c10::Dispatcher::singleton().findSchema(name);
    if (!op.has_value()) return false;
    const c10::impl::OperatorEntry& entry = EntryOf(*op);
    if (!entry.hasComputedKernelForDispatchKey(backend)) return false;
    const std::lock_guard lock(mutex_);
    taken_.push_back({.name = name,
                      .backend = backend,
                      .kernel = entry.lookup(c10::DispatchKeySet(backend))});
    return true;
  }

  void Look() {
    if (!KernelChanges().Due()) return;
    const std::lock_guard lock(mutex_);
    if (!KernelChanges().Due()) return;
    const uint64_t noted = KernelChanges().noted();
    if (!folder_.has_value()) folder_ = FindTorchsFolder();
    NoteOperators();
    std::unordered_set<c10::OperatorName> replaced;
    uint64_t state = c10::WarningUtils::get_warnAlways() ? kWarnsAlways : 0;
    for (Known& known : known_) state ^= LookAt(known, replaced);
    SetKernelState(state, std::move(replaced));
    KernelChanges().LookedAt(noted);
  }

 private:
  struct Known {
    c10::OperatorName name;
    const OpInfo* info = nullptr;  // null: it is not hooked
    // Torch's own kernels by backend; invalid: none was seen.
    std::array<c10::KernelFunction, kBackends.size()> kernels{};
  };

  // Torch's own, by what TakeKernelForTorchs was told.
  struct Taken {
    c10::OperatorName name;
    DispatchKey backend{};
    c10::KernelFunction kernel;
  };

  bool IsTaken(const c10::OperatorName& name, DispatchKey backend,
               const c10::KernelFunction& kernel) const {
    return std::ranges::any_of(taken_, [&](const Taken& taken) {
      return taken.backend == backend && taken.name == name &&
             IsSame(taken.kernel, kernel);
    });
  }

  // Torch defines its operators as it is loaded. One that comes later is
  // hooked.
  void NoteOperators() {
    const std::vector<const OpInfo*> hooked = HookedOps();
    if (hooked.size() == hooked_) return;
    hooked_ = hooked.size();
    std::unordered_map<c10::OperatorName, const OpInfo*> infos;
    for (const OpInfo* info : hooked) {
      infos[info->handle.operator_name()] = info;
    }
    std::unordered_map<c10::OperatorName, Known*> before;
    for (Known& known : known_) before[known.name] = &known;
    std::vector<Known> now;
    for (const c10::OperatorName& name :
         c10::Dispatcher::singleton().getAllOpNames()) {
      if (!name.name.starts_with("aten::")) continue;
      const auto found = before.find(name);
      Known& known =
          now.emplace_back(found == before.end() ? Known{.name = name}
                                                 : std::move(*found->second));
      const auto info = infos.find(name);
      known.info = info == infos.end() ? nullptr : info->second;
    }
    known_ = std::move(now);
  }

  // What the kernels of an operator add to the state; adds it to `all_replaced`
  // if one is the program's.
  uint64_t LookAt(Known& known,
                  std::unordered_set<c10::OperatorName>& all_replaced) {
    const auto op = c10::Dispatcher::singleton().findSchema(known.name);
    if (!op.has_value()) return 0;
    const c10::impl::OperatorEntry& entry = EntryOf(*op);
    uint64_t hash = 0;
    uint8_t replaced = 0;
    for (size_t i = 0; i < kBackends.size(); ++i) {
      if (!entry.hasComputedKernelForDispatchKey(kBackends[i])) continue;
      const c10::KernelFunction& kernel =
          entry.lookup(c10::DispatchKeySet(kBackends[i]));
      if (known.kernels[i].isValid() && IsSame(kernel, known.kernels[i])) {
        continue;
      }
      const auto* const registered = KernelFor(entry, kBackends[i]);
      if (IsTorchs(registered, *folder_)) {
        known.kernels[i] = kernel;
        continue;
      }
      // One of torch's in Python may be switched off: what was recorded with it
      // is replayed with it alone.
      std::string what = known.name.name + "." + known.name.overload_name;
      if (registered != nullptr) what += registered->debug;
      what += c10::toString(kBackends[i]);
      hash ^= std::hash<std::string>()(what) | 1;
      if (IsTaken(known.name, kBackends[i], kernel)) continue;
      replaced |= kBits[i];
    }
    if (replaced != 0) all_replaced.insert(known.name);
    if (replaced != 0 && known.info == nullptr) {
      known.info = HookRegistrar().AddIfReplaced(*op);
    }
    if (known.info != nullptr) known.info->replaced.Set(replaced);
    return hash;
  }

  static constexpr uint64_t kWarnsAlways = 0x9e3779b97f4a7c15;

  std::mutex mutex_;  // guards what follows
  std::optional<std::string> folder_;
  size_t hooked_ = 0;
  std::vector<Known> known_;
  std::vector<Taken> taken_;
};

ProgramsKernels& All() {
  static auto* const kernels = new ProgramsKernels;  // hooks outlive everything
  return *kernels;
}

}  // namespace

void LookAtKernels() { All().Look(); }

bool TakeKernelForTorchs(const c10::OperatorName& name,
                         c10::DispatchKey backend) {
  if (!All().Take(name, backend)) return false;
  KernelsMayHaveChanged();
  return true;
}

}  // namespace reprise::bindings
