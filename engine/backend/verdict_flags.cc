#include "engine/backend/verdict_flags.h"

#include "engine/device/exiting.h"
#include "engine/device/relaxed_capture.h"

namespace reprise::engine {

base::Result<std::unique_ptr<VerdictFlags>> VerdictFlags::Create(
    const device::Driver& driver, uint32_t tags) {
  std::unique_ptr<VerdictFlags> flags(new VerdictFlags(driver, tags));
  const size_t size_bytes = flags->words() * sizeof(uint32_t);
  REPRISE_CU(driver, cuMemAlloc(&flags->device_words_, size_bytes));
  void* host = nullptr;
  REPRISE_CU(driver, cuMemHostAlloc(&host, size_bytes, 0));
  flags->host_words_ = static_cast<uint32_t*>(host);
  REPRISE_CU(driver, cuEventCreate(&flags->event_, CU_EVENT_DISABLE_TIMING));
  return flags;
}

VerdictFlags::~VerdictFlags() {
  if (device::Exiting()) return;
  // The program may be capturing, here or on another thread.
  const device::RelaxedCapture relaxed(driver_);
  if (event_ != nullptr) driver_.cuEventDestroy(event_);
  if (host_words_ != nullptr) driver_.cuMemFreeHost(host_words_);
  if (device_words_ != 0) driver_.cuMemFree(device_words_);
}

base::Status VerdictFlags::Clear(CUstream stream) {
  REPRISE_CU(driver_, cuMemsetD32Async(device_words_, 0, words(), stream));
  return {};
}

base::Status VerdictFlags::Touch(CUstream stream) {
  REPRISE_CU(driver_, cuMemsetD32Async(device_words_, 0, 1, stream));
  return {};
}

base::Status VerdictFlags::Read(CUstream stream) {
  REPRISE_CU(driver_, cuMemcpyDtoHAsync(host_words_, device_words_,
                                        words() * sizeof(uint32_t), stream));
  REPRISE_CU(driver_, cuEventRecord(event_, stream));
  return {};
}

base::Result<std::optional<Verdict>> VerdictFlags::Poll(
    Executor::Patience patience) {
  const device::RelaxedCapture relaxed(driver_);
  if (patience == Executor::Patience::kWait) {
    REPRISE_CU(driver_, cuEventSynchronize(event_));
  } else {
    const CUresult state = driver_.cuEventQuery(event_);
    if (state == CUDA_ERROR_NOT_READY) return std::nullopt;
    REPRISE_RETURN_IF_ERROR(device::Check(driver_, state, "cuEventQuery"));
  }
  Verdict verdict;
  for (uint32_t tag = 0; tag < tags_; ++tag) {
    if (host_words_[1 + tag] != 0) verdict.differing.push_back(tag);
  }
  return verdict;
}

}  // namespace reprise::engine
