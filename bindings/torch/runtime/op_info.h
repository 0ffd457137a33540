// What is known of an operator before any call of it.

#ifndef REPRISE_BINDINGS_TORCH_RUNTIME_OP_INFO_H_
#define REPRISE_BINDINGS_TORCH_RUNTIME_OP_INFO_H_

#include <ATen/core/dispatch/Dispatcher.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <string>

#include "engine/trace/op.h"

namespace reprise::bindings {

// Groups of global switches that a class of operators reads (switches.h).
enum SwitchClass : uint8_t {
  kNoSwitches = 0,
  kMatmulSwitches = 1,
  kConvolutionSwitches = 2,
  kAttentionSwitches = 4,
  kRnnSwitches = 8,
  kLinalgSwitches = 16,
  kCudnnSwitches = 32,
};

// Each set of arguments below has bit i for argument i.

// Which arguments a call writes.
struct WrittenArguments {
  uint64_t by_schema = 0;
  // Those that the schema keeps quiet about. They happen when the bool argument
  // `training_argument` is true, or always where that is -1.
  uint64_t hidden = 0;
  int training_argument = -1;
};

// The arguments whose content does not matter (engine::Operand::unread).
struct UnreadArguments {
  uint64_t always = 0;
  uint64_t if_zero = 0;  // where the number `zero_argument` is 0
  int zero_argument = 0;

  bool any() const { return (always | if_zero) != 0; }
};

// The seed and the offset with which the double `dropout_argument` drew. Where
// that is 0, nobody has written them.
struct SeedArguments {
  uint64_t arguments = 0;
  int dropout_argument = 0;
};

// Whether a call may trap (engine::OpView).
struct Traps {
  bool always = false;
  uint64_t index_arguments = 0;  // if the elements of one of these are integers
};

// Of which of an operator's numbers another value makes no other op.
struct NumbersByValue {
  // Its kernels take its numbers as OpView::scalars says.
  bool scalars = false;
  bool doubles = false;  // and its attributes of type double, too
  engine::Decides decide = engine::Decides::kKernels;
};

// What a call may do beside writing its arguments, as OpView has it, but for
// `writes_unknown` and what the process says.
struct SideEffects {
  // What a call writes is not known by its schema.
  bool writes_unknown = false;
  bool may_use_generator = false;
  bool forks_streams = false;
  bool leaves_unwritten = false;
  bool may_use_cufft = false;  // see MayUseCufft
};

// The kernels that the program has put in the place of torch's, and for which
// backends (kernel_state.h). LookAtKernels writes it, and any thread reads it.
class ReplacedKernels {
 public:
  static constexpr uint8_t kOnCpu = 1;
  static constexpr uint8_t kOnCuda = 2;

  // Relaxed: the thread that replaced a kernel sees it.
  void Set(uint8_t backends) const {
    std::atomic_ref(backends_).store(backends, std::memory_order_relaxed);
  }
  uint8_t backends() const {
    return std::atomic_ref(backends_).load(std::memory_order_relaxed);
  }
  bool any() const { return backends() != 0; }
  // One that a call to these keys may go to: for a backend of theirs, or any
  // where they have none.
  bool any(c10::DispatchKeySet below) const {
    const uint8_t kernels = backends();
    if (kernels == 0) [[likely]]
      return false;
    uint8_t called = 0;
    if (below.has_backend(c10::BackendComponent::CPUBit)) called |= kOnCpu;
    if (below.has_backend(c10::BackendComponent::CUDABit)) called |= kOnCuda;
    return called == 0 || (kernels & called) != 0;
  }

 private:
  mutable uint8_t backends_ = 0;
};

// An operator that is hooked. Made once at registration from its schema and by
// the lists in op_policy.cc, then immutable, but for `replaced`, and never
// destroyed.
struct OpInfo {
  static constexpr size_t kMaxReferences = 8;

  engine::OpId id = 0;
  std::string name;  // "aten::add.Tensor"
  c10::OperatorHandle handle;

  WrittenArguments written = {};
  UnreadArguments unread = {};
  SeedArguments seeds = {};
  // Where it is true, the host does not wait for the copy; -1: there is none.
  int non_blocking_argument = -1;
  // The r-th result that is a reference is this one of the arguments of type
  // Tensor&, counted among them.
  std::array<uint8_t, kMaxReferences> references{};

  // Why no call of it can be part of a trace; null if some can.
  const char* cut = nullptr;
  SideEffects effects = {};
  Traps traps = {};
  NumbersByValue by_value = {};
  // Of a tensor of the host it makes one of the device: see OpView::by_eager.
  bool copies_from_host = false;
  bool factory = false;  // makes tensors by options: the host is its default
  // Its kernels ask which operands require gradients.
  bool asks_gradients = false;
  uint8_t switches = kNoSwitches;
  // How large the storages of its operands are, and where in them the operands
  // begin, decides what its results are. Both are words of its calls.
  bool by_storages = false;
  // Some of these is so: written.hidden, unread, seeds, effects.may_use_cufft,
  // by_storages.
  bool completed = false;

  ReplacedKernels replaced = {};
  // Only then is it a session's business: torch's own kernel is none.
  bool shown_if_replaced = false;
  bool Shown(c10::DispatchKeySet below) const {
    return !shown_if_replaced || replaced.any(below);
  }
};

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_RUNTIME_OP_INFO_H_
