// Operators that are registered when the others have their hooks already.

#ifndef REPRISE_BINDINGS_TORCH_HOOK_LATE_OPERATORS_H_
#define REPRISE_BINDINGS_TORCH_HOOK_LATE_OPERATORS_H_

namespace reprise::bindings {

// Once: from now on HookLateOperators knows of operators that are registered.
void ListenForLateOperators();

// Hooks operators that were registered since, and looks at kernels that the
// program may have replaced (kernel_watch.h): the dispatcher holds a lock while
// it tells of operators. g_runtime_epoch changes with each, so that each thread
// calls this before it shows its next op. Thread-safe.
void HookLateOperators();

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_HOOK_LATE_OPERATORS_H_
