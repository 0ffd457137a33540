// Global switches of torch that change which kernels an operator runs.

#ifndef REPRISE_BINDINGS_TORCH_RUNTIME_SWITCHES_H_
#define REPRISE_BINDINGS_TORCH_RUNTIME_SWITCHES_H_

#include <cstdint>

#include "bindings/torch/base/inline_buffer.h"
#include "bindings/torch/runtime/op_info.h"
#include "scheduler/runtime.h"

namespace reprise::bindings {

// Those that any kernel may read: default dtype, deterministic algorithms; and
// on the host all that kernels are chosen by, or obey. About 5 ns (host: 30).
uint64_t CommonSwitches(scheduler::DeviceKind kind);

// Autograd counts what an op of this thread writes inside: a result that a
// composite writes in place has a version. Not so below autograd's own kernels.
bool CountsWrites();

// Appends those of the operator's classes.
void AddSwitches(uint8_t classes, scheduler::DeviceKind kind,
                 WordBuffer& words);

// Appends all of them, of each kind of device that torch has.
void AddAllSwitches(WordBuffer& words);

// An operator of these classes may try out kernels now, and keep the fastest.
bool MayTryKernels(uint8_t classes, scheduler::DeviceKind kind);

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_RUNTIME_SWITCHES_H_
