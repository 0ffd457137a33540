// Looks at the kernels that torch's operators have now.

#ifndef REPRISE_BINDINGS_TORCH_HOOK_KERNEL_WATCH_H_
#define REPRISE_BINDINGS_TORCH_HOOK_KERNEL_WATCH_H_

#include <ATen/core/operator_name.h>
#include <c10/core/DispatchKey.h>

namespace reprise::bindings {

// Looks at all operators' kernels if they may have changed since it last did,
// and brings what kernel_state.h tells up to date. Thread-safe; takes 0.6 ms
// where they may have.
void LookAtKernels();

// That operator's kernel for that backend is torch's own, though Python has
// registered it: what it launches depends on the forms of its arguments alone.
// Holds for the kernel that is registered now. False: there is no such operator
// or kernel. Thread-safe.
bool TakeKernelForTorchs(const c10::OperatorName& name,
                         c10::DispatchKey backend);

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_HOOK_KERNEL_WATCH_H_
