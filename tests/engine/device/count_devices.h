// Whether there are the GPUs that a test needs.

#ifndef REPRISE_TESTS_ENGINE_DEVICE_COUNT_DEVICES_H_
#define REPRISE_TESTS_ENGINE_DEVICE_COUNT_DEVICES_H_

#include <cuda.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <string>

namespace reprise::device {

struct DeviceCount {
  int devices = 0;
  std::string failure;  // why nobody knows
};

// Asks the driver itself, past the code under test, whose errors must not look
// like a machine without a GPU.
inline DeviceCount CountDevices() {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == nullptr) return {};
  const auto init =
      reinterpret_cast<decltype(&cuInit)>(dlsym(driver, "cuInit"));
  const auto count = reinterpret_cast<decltype(&cuDeviceGetCount)>(
      dlsym(driver, "cuDeviceGetCount"));
  if (init == nullptr || count == nullptr) {
    return {.failure = "libcuda.so.1 has no cuInit or no cuDeviceGetCount"};
  }
  DeviceCount counted;
  CUresult result = init(0);
  // A stub stands for a driver where there is none.
  if (result == CUDA_ERROR_NO_DEVICE || result == CUDA_ERROR_STUB_LIBRARY) {
    return {};
  }
  if (result == CUDA_SUCCESS) result = count(&counted.devices);
  if (result != CUDA_SUCCESS) {
    counted.failure = "the driver fails with error " + std::to_string(result);
  }
  return counted;
}

// In a test or its SetUp: skips it where there are fewer devices, and only
// there.
#define REPRISE_NEEDS_DEVICES(number)                               \
  do {                                                              \
    const auto counted = ::reprise::device::CountDevices();         \
    ASSERT_EQ(counted.failure, "");                                 \
    if (counted.devices < (number)) {                               \
      GTEST_SKIP() << "needs " << (number) << " CUDA devices, has " \
                   << counted.devices;                              \
    }                                                               \
  } while (false)

}  // namespace reprise::device

#endif  // REPRISE_TESTS_ENGINE_DEVICE_COUNT_DEVICES_H_
