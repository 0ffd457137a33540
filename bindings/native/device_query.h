// What devices say of themselves.

#ifndef REPRISE_BINDINGS_NATIVE_DEVICE_QUERY_H_
#define REPRISE_BINDINGS_NATIVE_DEVICE_QUERY_H_

#include <cuda.h>

#include <vector>

#include "bindings/native/common.h"
#include "bindings/native/device_info.h"
#include "engine/device/driver.h"

namespace reprise::native {

// Of a device of the driver's, of all of them, and of a host device.
Result<DeviceInfo> InfoOf(const device::Driver& driver, CUdevice device);
Result<std::vector<DeviceInfo>> CudaDevices();
DeviceInfo HostInfo();

}  // namespace reprise::native

#endif  // REPRISE_BINDINGS_NATIVE_DEVICE_QUERY_H_
