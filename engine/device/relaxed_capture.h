// Keeps this thread's driver calls from disturbing a stream capture.

#ifndef REPRISE_ENGINE_DEVICE_RELAXED_CAPTURE_H_
#define REPRISE_ENGINE_DEVICE_RELAXED_CAPTURE_H_

#include <cuda.h>

#include "engine/device/driver.h"

namespace reprise::device {

// While one lives, this thread may allocate, free and instantiate although a
// stream is being captured, by this thread or another one. `driver` must
// outlive it. Nests.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const Driver& driver) : driver_(driver) {
    driver_.cuThreadExchangeStreamCaptureMode(&mode_);
  }
  ~RelaxedCapture() { driver_.cuThreadExchangeStreamCaptureMode(&mode_); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  const Driver& driver_;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

}  // namespace reprise::device

#endif  // REPRISE_ENGINE_DEVICE_RELAXED_CAPTURE_H_
