#include "engine/verdict_flag.h"

#include "engine/device/exiting.h"
#include "engine/device/relaxed_capture.h"

namespace reprise::engine {

base::Result<std::unique_ptr<VerdictFlag>> VerdictFlag::Create(
    const device::Driver& driver) {
  std::unique_ptr<VerdictFlag> flag(new VerdictFlag(driver));
  REPRISE_CU(driver, cuMemAlloc(&flag->device_word_, sizeof(uint32_t)));
  void* host = nullptr;
  REPRISE_CU(driver, cuMemHostAlloc(&host, sizeof(uint32_t), 0));
  flag->host_word_ = static_cast<uint32_t*>(host);
  REPRISE_CU(driver, cuEventCreate(&flag->event_, CU_EVENT_DISABLE_TIMING));
  return flag;
}

VerdictFlag::~VerdictFlag() {
  if (device::Exiting()) return;
  // The program may be capturing, here or on another thread.
  const device::RelaxedCapture relaxed(driver_);
  if (event_ != nullptr) driver_.cuEventDestroy(event_);
  if (host_word_ != nullptr) driver_.cuMemFreeHost(host_word_);
  if (device_word_ != 0) driver_.cuMemFree(device_word_);
}

base::Status VerdictFlag::Clear(CUstream stream) {
  REPRISE_CU(driver_, cuMemsetD32Async(device_word_, 0, 1, stream));
  return {};
}

base::Status VerdictFlag::Read(CUstream stream) {
  REPRISE_CU(driver_, cuMemcpyDtoHAsync(host_word_, device_word_,
                                        sizeof(uint32_t), stream));
  REPRISE_CU(driver_, cuEventRecord(event_, stream));
  return {};
}

base::Result<std::optional<Verdict>> VerdictFlag::Poll(
    Executor::Patience patience) {
  const device::RelaxedCapture relaxed(driver_);
  if (patience == Executor::Patience::kWait) {
    REPRISE_CU(driver_, cuEventSynchronize(event_));
  } else {
    const CUresult state = driver_.cuEventQuery(event_);
    if (state == CUDA_ERROR_NOT_READY) return std::nullopt;
    REPRISE_RETURN_IF_ERROR(device::Check(driver_, state, "cuEventQuery"));
  }
  const uint32_t word = *host_word_;
  return Verdict{word == 0, word == 0 ? 0 : word - 1};
}

}  // namespace reprise::engine
