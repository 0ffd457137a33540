#include "scheduler/runtime_devices.h"

#include <cstdint>

namespace reprise::scheduler {

base::Result<size_t> RuntimeDevices::MemoryBytes(Devices devices) {
  // The process may have less of the host's than there is.
  constexpr size_t kOfTheHost = size_t{16} << 30;
  if (devices.kind == DeviceKind::kHost) return kOfTheHost;
  REPRISE_ASSIGN_OR_RETURN(const device::Driver* const driver,
                           device::Driver::Load());
  CUdevice device = 0;
  REPRISE_CU(*driver, cuDeviceGet(&device, devices.index.value_or(0)));
  size_t bytes = 0;
  REPRISE_CU(*driver, cuDeviceTotalMem(&bytes, device));
  return bytes;
}

base::Status RuntimeDevices::Load() {
  if (is_host()) return {};
  REPRISE_ASSIGN_OR_RETURN(driver_, device::Driver::Load());
  REPRISE_ASSIGN_OR_RETURN(recorder_, device::LaunchRecorder::Create(*driver_));
  return {};
}

std::vector<int> RuntimeDevices::InUse() const {
  if (is_host()) return {0};
  std::vector<int> in_use;
  int count = 0;
  if (driver_->cuDeviceGetCount(&count) != CUDA_SUCCESS) count = 0;
  for (int i = 0; i < count; ++i) {
    CUdevice device = 0;
    unsigned flags = 0;
    int active = 1;
    if (driver_->cuDeviceGet(&device, i) != CUDA_SUCCESS ||
        driver_->cuDevicePrimaryCtxGetState(device, &flags, &active) !=
            CUDA_SUCCESS ||
        active != 0) {
      in_use.push_back(i);
    }
  }
  return in_use;
}

bool RuntimeDevices::MemoryIsShort() const {
  // Where less than this share is free, the next allocation may well be larger.
  constexpr size_t kFreeShare = 16;
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  return driver_->cuMemGetInfo(&free_bytes, &total_bytes) == CUDA_SUCCESS &&
         free_bytes < total_bytes / kFreeShare;
}

base::Result<engine::CudaContext> RuntimeDevices::ContextFor(
    const StreamKey& key) const {
  engine::CudaContext context;
  context.driver = driver_;
  context.recorder = recorder_.get();
  context.stream = static_cast<CUstream>(key.stream);
  CUdevice device = 0;
  REPRISE_CU(*driver_, cuDeviceGet(&device, key.device));
  REPRISE_CU(*driver_, cuDevicePrimaryCtxRetain(&context.context, device));
  return context;
}

void RuntimeDevices::Prepare(const StreamKey& key, bool may_attach,
                             base::TaskRunner& tasks) {
  if (recorder_ == nullptr || !Serves(key)) return;
  if (may_attach && !attached_once_.exchange(true, std::memory_order_relaxed) &&
      !recorder_->Attach()) {
    attached_once_.store(false, std::memory_order_relaxed);
  }
  compares_.Prepare(*driver_, key.device, tasks);
}

}  // namespace reprise::scheduler
