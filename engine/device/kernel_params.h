// What the driver knows of a kernel's parameters.

#ifndef REPRISE_ENGINE_DEVICE_KERNEL_PARAMS_H_
#define REPRISE_ENGINE_DEVICE_KERNEL_PARAMS_H_

#include <cuda.h>

#include <vector>

#include "engine/device/driver.h"
#include "engine/device/launch.h"

namespace reprise::device {

// Of a CUfunction, or a CUkernel in its place. kInvalidArgument if the handle
// is neither. Needs a current context.
base::Result<std::vector<ParamSpan>> ParamsOf(const Driver& driver,
                                              CUfunction handle);

}  // namespace reprise::device

#endif  // REPRISE_ENGINE_DEVICE_KERNEL_PARAMS_H_
