#include "engine/device/shared_memory.h"

namespace reprise::device {

bool AllowSharedMemory(const Driver& driver, const Launch& launch) {
  CUfunction function = launch.function;
  int own_bytes = 0;
  const auto own = [&] {
    return driver.cuFuncGetAttribute(
        &own_bytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function);
  };
  if (own() != CUDA_SUCCESS) {  // a handle of a kernel, of whatever context
    if (driver.cuKernelGetFunction(
            &function, reinterpret_cast<CUkernel>(launch.function)) !=
            CUDA_SUCCESS ||
        own() != CUDA_SUCCESS) {
      return false;
    }
  }
  CUdevice device = 0;
  int most_bytes = 0;
  return driver.cuCtxGetDevice(&device) == CUDA_SUCCESS &&
         driver.cuDeviceGetAttribute(
             &most_bytes, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
             device) == CUDA_SUCCESS &&
         driver.cuFuncSetAttribute(
             function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
             most_bytes - own_bytes) == CUDA_SUCCESS;
}

}  // namespace reprise::device
