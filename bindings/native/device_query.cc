#include "bindings/native/device_query.h"

#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "bindings/native/runtime_options.h"
#include "engine/batch/launch_limits.h"

namespace reprise::native {

Result<DeviceInfo> InfoOf(const device::Driver& driver, CUdevice device) {
  DeviceInfo info{.number = device};
  std::array<char, 256> name{};
  REPRISE_CU(driver, cuDeviceGetName(name.data(), name.size(), device));
  info.name = name.data();
  size_t memory_bytes = 0;
  REPRISE_CU(driver, cuDeviceTotalMem(&memory_bytes, device));
  info.memory_bytes = memory_bytes;
  struct Row {
    int* value;
    CUdevice_attribute attribute;
  };
  const Row rows[] = {
      {&info.compute_major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR},
      {&info.compute_minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR},
      {&info.multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT},
      {&info.threads_per_block, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK},
      {&info.threads_per_multiprocessor,
       CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR},
      {&info.shared_bytes_per_block,
       CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN},
      {&info.shared_bytes_per_multiprocessor,
       CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR},
  };
  for (const Row& row : rows) {
    REPRISE_CU(driver, cuDeviceGetAttribute(row.value, row.attribute, device));
  }
  return info;
}

DeviceInfo HostInfo() {
  const engine::LaunchLimits limits = engine::LaunchLimits::OfHost();
  return {.number = RuntimeOptions::kHost,
          .name = "host",
          .compute_major = 9,
          .compute_minor = 0,
          .memory_bytes = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                          static_cast<uint64_t>(sysconf(_SC_PAGESIZE)),
          .multiprocessors = limits.multiprocessors,
          .threads_per_block = limits.threads,
          .threads_per_multiprocessor = engine::kHostThreads,
          .shared_bytes_per_block = limits.shared_bytes,
          .shared_bytes_per_multiprocessor = engine::kHostSharedBytes};
}

Result<std::vector<DeviceInfo>> CudaDevices() {
  REPRISE_ASSIGN_OR_RETURN(const device::Driver* driver,
                           device::Driver::Load());
  std::vector<DeviceInfo> devices;
  CUdevice device = 0;
  while (driver->cuDeviceGet(&device, static_cast<int>(devices.size())) ==
         CUDA_SUCCESS) {
    REPRISE_ASSIGN_OR_RETURN(devices.emplace_back(), InfoOf(*driver, device));
  }
  return devices;
}

}  // namespace reprise::native
