// The hooks of all operators.

#ifndef REPRISE_BINDINGS_TORCH_HOOK_REGISTER_HOOKS_H_
#define REPRISE_BINDINGS_TORCH_HOOK_REGISTER_HOOKS_H_

#include <cstddef>

namespace reprise::bindings {

struct HookCounts {
  size_t unboxed = 0;  // hooks compiled for their operator's signature
  size_t boxed = 0;    // hooks for what is left
};

// Hooks every operator that can do work on a device, for the rest of the
// process: taking hooks away while another thread dispatches crashes. Does
// nothing the second time, but to say what was hooked. Operators that are
// registered later are left to HookLateOperators, which each thread calls
// (ThreadState::Refresh). Thread-safe. Raises c10::Error where torch is not the
// one this was built for.
//
// About 30 ms once. While nothing is watched a hook costs an op some 5 ns
// (boxed: 50), and a note in the book of ops with its fence.
HookCounts RegisterHooksOnce();

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_HOOK_REGISTER_HOOKS_H_
