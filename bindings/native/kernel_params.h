// What the driver knows of a kernel's parameters.

#ifndef REPRISE_BINDINGS_NATIVE_KERNEL_PARAMS_H_
#define REPRISE_BINDINGS_NATIVE_KERNEL_PARAMS_H_

#include <cuda.h>

#include <vector>

#include "bindings/native/common.h"
#include "engine/device/driver.h"
#include "engine/device/launch.h"

namespace reprise::native {

// Of a CUfunction, or a CUkernel in its place. kInvalidArgument if the handle
// is neither. Needs a current context.
Result<std::vector<device::ParamSpan>> ParamsOf(const device::Driver& driver,
                                                CUfunction handle);

}  // namespace reprise::native

#endif  // REPRISE_BINDINGS_NATIVE_KERNEL_PARAMS_H_
