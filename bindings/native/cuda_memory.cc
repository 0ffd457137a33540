#include "bindings/native/cuda_memory.h"

#include <algorithm>
#include <string>
#include <vector>

#include "engine/device/context_scope.h"
#include "engine/device/exiting.h"
#include "engine/device/relaxed_capture.h"

namespace reprise::native {

Result<void*> CudaMemory::Allocate(size_t bytes) {
  Result<void*> memory = AllocateNow(bytes);
  if (!memory && memory.error().code() == Code::kResourceExhausted) {
    {
      const base::MutexLock lock(giving_mutex_);
      FreeNow(holds_.GiveUp());
    }
    memory = AllocateNow(bytes);
  }
  if (memory) holds_.Note(*memory);
  return memory;
}

Result<void*> CudaMemory::AllocateNow(size_t bytes) {
  if (pool_ != nullptr) {
    REPRISE_ASSIGN_OR_RETURN(const CUdeviceptr memory, pool_->Allocate(bytes));
    return reinterpret_cast<void*>(memory);
  }
  CUdeviceptr memory = 0;
  const CUresult result =
      driver_.cuMemAlloc(&memory, std::max<size_t>(bytes, 1));
  if (result == CUDA_ERROR_OUT_OF_MEMORY) {
    return base::Fail(
        Code::kResourceExhausted,
        "the device has no " + std::to_string(bytes) + " bytes left");
  }
  REPRISE_RETURN_IF_ERROR(device::Check(driver_, result, "cuMemAlloc"));
  return reinterpret_cast<void*>(memory);
}

void CudaMemory::Free(void* memory) {
  if (!holds_.Keep(memory)) FreeNow({&memory, 1});
}

void CudaMemory::EndHold(MemoryHolds::Hold hold) {
  const base::MutexLock lock(giving_mutex_);
  const std::vector<void*> memory = holds_.End(hold);
  if (device::Exiting() || memory.empty()) return;
  const device::ContextScope scope(driver_, context_);
  FreeNow(memory);
}

void CudaMemory::FreeNow(std::span<void* const> memory) {
  for (void* const piece : memory) {
    const auto address = reinterpret_cast<CUdeviceptr>(piece);
    if (pool_ != nullptr) {
      pool_->Free(address);
    } else {
      const device::RelaxedCapture relaxed(driver_);
      driver_.cuMemFree(address);  // waits for the device
    }
  }
}

}  // namespace reprise::native
