// What the handles of one event share.

#ifndef REPRISE_BINDINGS_NATIVE_EVENT_CORE_H_
#define REPRISE_BINDINGS_NATIVE_EVENT_CORE_H_

#include <cuda.h>

#include <memory>
#include <utility>

#include "bindings/native/device.h"
#include "bindings/native/runtime_core.h"
#include "bindings/native/timing.h"
#include "engine/batch/batch_event.h"

namespace reprise::native {

// Keeps the device: a build may be the last that holds it, and the runtime's
// end waits for builds. Thread-safe.
class EventCore final : public engine::BatchEvent {
 public:
  EventCore(std::shared_ptr<Device> device, CUevent event, Timing timing,
            bool recorded)
      : BatchEvent(event, recorded),
        device_(std::move(device)),
        timing_(timing) {}
  ~EventCore() override { device_->EndEvent(event()); }

  // One of that runtime.
  bool IsOf(const RuntimeCore& runtime) const {
    return device_ == runtime.shared_device();
  }
  Device& device() const { return *device_; }
  Timing timing() const { return timing_; }

 private:
  const std::shared_ptr<Device> device_;
  const Timing timing_;
};

}  // namespace reprise::native

#endif  // REPRISE_BINDINGS_NATIVE_EVENT_CORE_H_
