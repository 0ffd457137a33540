// Global switches of torch that change which kernels an operator runs.

#ifndef REPRISE_BINDINGS_TORCH_SWITCHES_H_
#define REPRISE_BINDINGS_TORCH_SWITCHES_H_

#include <cstdint>

#include "bindings/torch/inline_buffer.h"
#include "bindings/torch/op_info.h"
#include "scheduler/runtime.h"

namespace reprise::bindings {

// Those that any kernel may read: default dtype, deterministic algorithms, and
// on the host the number of threads. About 5 ns.
uint64_t CommonSwitches(scheduler::DeviceKind kind);

// Appends those of the operator's classes.
void AddSwitches(uint8_t classes, scheduler::DeviceKind kind,
                 WordBuffer& words);

// An operator of these classes may try out kernels now, and keep the fastest.
bool MayTryKernels(uint8_t classes, scheduler::DeviceKind kind);

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_SWITCHES_H_
