// How much dynamic shared memory the kernel of a launch may have.

#ifndef REPRISE_ENGINE_DEVICE_SHARED_MEMORY_H_
#define REPRISE_ENGINE_DEVICE_SHARED_MEMORY_H_

#include <cuda.h>

#include "engine/device/driver.h"
#include "engine/device/launch.h"

namespace reprise::device {

// That is a setting of its function. A library that launches it with other
// sizes sets what it needs each time, so a launch of before may ask for more
// than is allowed now. This allows the most that the device has: whoever sets
// less meanwhile does so for a launch of its own, and nobody who sets more
// finds less. False where the driver refuses.
bool AllowSharedMemory(const Driver& driver, const Launch& launch);

// The result of `call`, which gives the kernel's launch to the driver. It is
// called again, with more shared memory allowed, if that may be why it fails.
template <typename Call>
CUresult WithSharedMemory(const Driver& driver, const Launch& launch,
                          const Call& call) {
  constexpr int kTries = 4;  // another thread may set less in between
  CUresult result = call();
  for (int tries = 0; tries < kTries && result == CUDA_ERROR_INVALID_VALUE &&
                      launch.shared_bytes > 0;
       ++tries) {
    if (!AllowSharedMemory(driver, launch)) break;
    result = call();
  }
  return result;
}

}  // namespace reprise::device

#endif  // REPRISE_ENGINE_DEVICE_SHARED_MEMORY_H_
