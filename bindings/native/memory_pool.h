// Device memory in stream order.

#ifndef REPRISE_BINDINGS_NATIVE_MEMORY_POOL_H_
#define REPRISE_BINDINGS_NATIVE_MEMORY_POOL_H_

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "bindings/native/common.h"
#include "engine/device/driver.h"
#include "engine/device/unique_handle.h"

namespace reprise::native {

// A pool of the driver's for one device. What is freed is used again behind the
// work of streams that WaitFor named before; no call waits for that work, but
// an Allocate that finds no memory. Thread-safe. Needs a current context of the
// device; everything is to be freed before it ends.
class MemoryPool {
 public:
  // Keeps up to `kept_bytes` of free memory; the rest goes back to the device
  // at the next synchronisation. Null where the device has no pools.
  static Result<std::unique_ptr<MemoryPool>> Create(
      const device::Driver& driver, CUdevice device, uint64_t kept_bytes);
  ~MemoryPool();
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  // For any stream, at once. kResourceExhausted if there is none left.
  Result<CUdeviceptr> Allocate(size_t bytes);
  // What is freed from now on waits for the work that `stream` has now.
  void WaitFor(CUstream stream);
  void Free(CUdeviceptr memory);

 private:
  explicit MemoryPool(const device::Driver& driver) : driver_(driver) {}

  const device::Driver& driver_;
  CUmemoryPool pool_ = nullptr;
  // Apart, so that allocating never waits behind what a free waits for.
  device::UniqueStream allocations_;
  device::UniqueStream frees_;
};

}  // namespace reprise::native

#endif  // REPRISE_BINDINGS_NATIVE_MEMORY_POOL_H_
