// Which operators' kernels may stop the device, or reach past their memory, by
// what their data are.

#ifndef REPRISE_BINDINGS_TORCH_RUNTIME_TRAPPING_OPS_H_
#define REPRISE_BINDINGS_TORCH_RUNTIME_TRAPPING_OPS_H_

#include <ATen/core/function_schema.h>

namespace reprise::bindings {

// Whatever integers it is given. What kernels of other libraries check is not
// known, so theirs may. tests/python/test_device_assertions.py reads what all
// of torch's check.
bool MayTrap(const c10::FunctionSchema& schema);

// A kernel takes the argument's elements for places, or for how many there are.
// At one that is out of range it stops the device, or reaches past its memory.
bool HoldsIndices(const c10::Argument& argument);

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_RUNTIME_TRAPPING_OPS_H_
