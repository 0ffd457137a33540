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

// An operator that is hooked. Made once at registration from its schema and by
// the lists in op_policy.cc, then immutable, but for `replaced_bits`, and never
// destroyed.
struct OpInfo {
  static constexpr size_t kMaxReferences = 8;

  engine::OpId id = 0;
  std::string name;  // "aten::add.Tensor"
  c10::OperatorHandle handle;

  // Bit i: argument i is written. `hidden_writes` are those that the schema
  // keeps quiet about; they happen when the bool argument `training_argument`
  // is true, or always where that is -1.
  uint64_t written_arguments = 0;
  uint64_t hidden_writes = 0;
  // Bit i: argument i holds indices, where its elements are integers. Such a
  // call may trap (OpView); others always may.
  uint64_t index_arguments = 0;
  bool may_trap = false;
  int training_argument = -1;
  // Bit i: what argument i holds does not matter (engine::Operand::unread); of
  // `unread_if_zero`, where the number `zero_argument` is 0.
  uint64_t unread_arguments = 0;
  uint64_t unread_if_zero = 0;
  int zero_argument = 0;
  // Bit i: argument i is the seed or the offset with which the double
  // `dropout_argument` drew. Where that is 0, nobody has written them.
  uint64_t seed_arguments = 0;
  int dropout_argument = 0;
  // Where it is true, the host does not wait for the copy; -1: there is none.
  int non_blocking_argument = -1;

  // Why no call of it can be part of a trace; null if some can.
  const char* cut = nullptr;
  // What a call writes is not known by its schema.
  bool writes_unknown = false;
  bool may_use_generator = false;
  bool forks_streams = false;     // see OpView
  bool leaves_unwritten = false;  // see OpView
  bool may_use_cufft = false;     // see MayUseCufft
  // Of a tensor of the host it makes one of the device: see OpView::by_eager.
  bool copies_from_host = false;
  bool factory = false;  // makes tensors by options: the host is its default
  // Its kernels take its numbers as OpView::scalars says, and its attributes of
  // type double, too.
  bool numbers_by_value = false;
  bool doubles_by_value = false;
  engine::Decides numbers_decide = engine::Decides::kKernels;
  uint8_t switches = kNoSwitches;
  // How large the storages of its operands are, and where in them the operands
  // begin, decides what its results are. Both are words of its calls.
  bool by_storages = false;
  // Some of these is so: hidden_writes, unread_arguments, unread_if_zero,
  // seed_arguments, may_use_cufft, by_storages.
  bool completed = false;

  // The r-th result that is a reference is this one of the arguments of type
  // Tensor&, counted among them.
  std::array<uint8_t, kMaxReferences> references{};

  // The program has put a kernel of its own in the place of torch's
  // (kernel_state.h), for any backend. Relaxed: the thread that did so sees it.
  bool replaced() const { return replaced_kernels() != 0; }
  // The same of a call that goes to these keys: for a backend of theirs, or any
  // where they have none.
  bool replaced(c10::DispatchKeySet below) const {
    const uint8_t kernels = replaced_kernels();
    if (kernels == 0) [[likely]]
      return false;
    uint8_t backends = 0;
    if (below.has_backend(c10::BackendComponent::CPUBit)) backends |= kOnCpu;
    if (below.has_backend(c10::BackendComponent::CUDABit)) backends |= kOnCuda;
    return backends == 0 || (kernels & backends) != 0;
  }
  static constexpr uint8_t kOnCpu = 1;
  static constexpr uint8_t kOnCuda = 2;
  uint8_t replaced_kernels() const {
    return std::atomic_ref(replaced_bits).load(std::memory_order_relaxed);
  }
  mutable uint8_t replaced_bits = 0;
  // Only then is it a session's business: torch's own kernel is none.
  bool shown_if_replaced = false;
  bool Shown(c10::DispatchKeySet below) const {
    return !shown_if_replaced || replaced(below);
  }
};

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_RUNTIME_OP_INFO_H_
