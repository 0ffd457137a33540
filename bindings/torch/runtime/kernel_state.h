// Which operators' kernels the program has replaced by its own: what is known.

#ifndef REPRISE_BINDINGS_TORCH_RUNTIME_KERNEL_STATE_H_
#define REPRISE_BINDINGS_TORCH_RUNTIME_KERNEL_STATE_H_

#include <ATen/core/operator_name.h>

#include <atomic>
#include <cstdint>
#include <unordered_set>

#include "bindings/torch/base/changes.h"

namespace reprise::bindings {

// A program may register kernels for torch's own operators (torch.library,
// a library that it loads), at any time, and take them back. What a replay runs
// are the kernels of the recording. So
//
//   - a call that goes to the CPU or CUDA, where the operator's kernel is not
//     torch's, is a cut (OpInfo::replaced), and an op that makes one inside is
//     one, too;
//   - all ops have other words while other kernels are registered
//     (KernelState).
//     Plans recorded under one set of kernels are replayed under that set
//     alone.
//
// Kernels are looked at before the next op of each thread, once somebody has
// said that they may have changed: the package does so behind each registration
// by Python and behind each library that Python loads (python_observers.h). A
// program in C++ that registers kernels in another way, behind its start, is
// not noticed.
//
// Whether kernels warn each time of what they warn of once a process
// (torch.set_warn_always) goes with them: it is told in the same way, and what
// was recorded without is replayed without.

// A hash of the kernels that are not torch's, and of that; 0: there is neither.
extern std::atomic<uint64_t> g_kernel_state;
inline uint64_t KernelState() {
  // Relaxed: the thread that has looked at the kernels has written it.
  return g_kernel_state.load(std::memory_order_relaxed);
}

// The program's kernel runs where the operator is called on the CPU or CUDA.
// While another thread looks at the kernels, the answer is what it was before.
// Thread-safe; a lock, if there are such operators.
bool RunsProgramsKernel(const c10::OperatorName& name);

// Kernels may have been registered or taken back. Any thread.
void KernelsMayHaveChanged();

// For LookAtKernels (kernel_watch.h), which brings all this up to date: whether
// it has to, and what it found. Thread-safe.
Changes& KernelChanges();
void SetKernelState(uint64_t state,
                    std::unordered_set<c10::OperatorName> replaced);

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_RUNTIME_KERNEL_STATE_H_
