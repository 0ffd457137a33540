#include "bindings/native/memory_pool.h"

#include <algorithm>
#include <string>

#include "engine/device/exiting.h"
#include "engine/device/relaxed_capture.h"

namespace reprise::native {
namespace {

Result<device::UniqueStream> MakeStream(const device::Driver& driver) {
  CUstream stream = nullptr;
  REPRISE_CU(driver, cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  return device::UniqueStream(driver, stream);
}

}  // namespace

Result<std::unique_ptr<MemoryPool>> MemoryPool::Create(
    const device::Driver& driver, CUdevice device, uint64_t kept_bytes) {
  int supported = 0;
  REPRISE_CU(driver, cuDeviceGetAttribute(
                         &supported, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED,
                         device));
  if (supported == 0) return nullptr;
  std::unique_ptr<MemoryPool> made(new MemoryPool(driver));
  REPRISE_ASSIGN_OR_RETURN(made->allocations_, MakeStream(driver));
  REPRISE_ASSIGN_OR_RETURN(made->frees_, MakeStream(driver));
  CUmemPoolProps props{};
  props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  props.location.id = device;
  REPRISE_CU(driver, cuMemPoolCreate(&made->pool_, &props));
  cuuint64_t kept = kept_bytes;
  REPRISE_CU(driver,
             cuMemPoolSetAttribute(made->pool_,
                                   CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &kept));
  // An allocation would wait for the free of what it is given.
  int dependencies = 0;
  REPRISE_CU(driver,
             cuMemPoolSetAttribute(
                 made->pool_, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES,
                 &dependencies));
  return made;
}

MemoryPool::~MemoryPool() {
  if (device::Exiting()) return;
  if (frees_) driver_.cuStreamSynchronize(frees_.get());
  if (pool_ != nullptr) driver_.cuMemPoolDestroy(pool_);
}

Result<CUdeviceptr> MemoryPool::Allocate(size_t bytes) {
  const device::RelaxedCapture relaxed(driver_);
  CUdeviceptr memory = 0;
  const auto allocate = [&] {
    return driver_.cuMemAllocFromPoolAsync(&memory, std::max<size_t>(bytes, 1),
                                           pool_, allocations_.get());
  };
  CUresult result = allocate();
  if (result == CUDA_ERROR_OUT_OF_MEMORY) {
    // Some may be free, but for work in flight.
    REPRISE_CU(driver_, cuStreamSynchronize(frees_.get()));
    REPRISE_CU(driver_, cuMemPoolTrimTo(pool_, 0));
    result = allocate();
  }
  if (result == CUDA_ERROR_OUT_OF_MEMORY) {
    return base::Fail(
        Code::kResourceExhausted,
        "the device has no " + std::to_string(bytes) + " bytes left");
  }
  REPRISE_RETURN_IF_ERROR(
      device::Check(driver_, result, "cuMemAllocFromPoolAsync"));
  // Other streams may use it from now on.
  if (Status ready = device::Check(
          driver_, driver_.cuStreamSynchronize(allocations_.get()),
          "cuStreamSynchronize");
      !ready) {
    driver_.cuMemFreeAsync(memory, frees_.get());
    return tl::unexpected(ready.error());
  }
  return memory;
}

void MemoryPool::WaitFor(CUstream stream) {
  const device::RelaxedCapture relaxed(driver_);
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  // Work that nobody waits for is worse than a call that fails.
  if (stream != nullptr &&
      driver_.cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS &&
      status != CU_STREAM_CAPTURE_STATUS_NONE) {
    return;  // the program's graph, and the program's to know
  }
  CUevent event = nullptr;
  if (driver_.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS) {
    driver_.cuStreamSynchronize(stream);
    return;
  }
  if (driver_.cuEventRecord(event, stream) != CUDA_SUCCESS ||
      driver_.cuStreamWaitEvent(frees_.get(), event, 0) != CUDA_SUCCESS) {
    driver_.cuStreamSynchronize(stream);
  }
  driver_.cuEventDestroy(event);
}

void MemoryPool::Free(CUdeviceptr memory) {
  const device::RelaxedCapture relaxed(driver_);
  driver_.cuMemFreeAsync(memory, frees_.get());
}

}  // namespace reprise::native
