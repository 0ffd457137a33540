// The memory that a program allocates on a CUDA device.

#ifndef REPRISE_BINDINGS_NATIVE_CUDA_MEMORY_H_
#define REPRISE_BINDINGS_NATIVE_CUDA_MEMORY_H_

#include <cuda.h>

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include "bindings/native/common.h"
#include "bindings/native/memory_holds.h"
#include "bindings/native/memory_pool.h"
#include "engine/base/mutex.h"
#include "engine/device/driver.h"

namespace reprise::native {

// From a pool or, where the device has none, from the driver by each call. What
// is freed while somebody holds it (MemoryHolds) is freed later, or as soon as
// an allocation finds no other memory.
//
// Owns the pool. Thread-safe. Needs `context` to be current, also at its end.
class CudaMemory {
 public:
  // `pool` is null where the device has none.
  CudaMemory(const device::Driver& driver, CUcontext context,
             std::unique_ptr<MemoryPool> pool)
      : driver_(driver), context_(context), pool_(std::move(pool)) {}
  CudaMemory(const CudaMemory&) = delete;
  CudaMemory& operator=(const CudaMemory&) = delete;

  // kResourceExhausted if there is none left.
  Result<void*> Allocate(size_t bytes) REPRISE_EXCLUDES(giving_mutex_);
  void Free(void* memory);

  // WaitFor has an effect. Without a pool, each free waits for the device.
  bool waits_for_streams() const { return pool_ != nullptr; }
  // What is freed from now on waits for the work that `stream` has now. On the
  // thread that frees: on another one it would race with a capture that the
  // program begins.
  void WaitFor(CUstream stream) {
    if (pool_ != nullptr) pool_->WaitFor(stream);
  }

  // What is there now is freed no sooner than the hold has ended.
  MemoryHolds::Hold BeginHold() { return holds_.Begin(); }
  // Frees what nobody holds any more, unless the process is exiting. Makes the
  // context current if it must.
  void EndHold(MemoryHolds::Hold hold) REPRISE_EXCLUDES(giving_mutex_);

 private:
  Result<void*> AllocateNow(size_t bytes);
  // Touches no stream of the program's.
  void FreeNow(std::span<void* const> memory);

  const device::Driver& driver_;
  const CUcontext context_;
  const std::unique_ptr<MemoryPool> pool_;
  MemoryHolds holds_;
  // Held while memory that was held is freed: nobody else finds it neither held
  // nor free.
  base::Mutex giving_mutex_;
};

}  // namespace reprise::native

#endif  // REPRISE_BINDINGS_NATIVE_CUDA_MEMORY_H_
