// What the handles of one event share.

#ifndef REPRISE_BINDINGS_NATIVE_EVENT_CORE_H_
#define REPRISE_BINDINGS_NATIVE_EVENT_CORE_H_

#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <cstring>
#include <memory>
#include <utility>

#include "bindings/native/device.h"
#include "bindings/native/event.h"
#include "bindings/native/runtime_core.h"

namespace reprise::native {

// An event of the device's, recorded once, or by each launch
// of the plan that it is a point of. Owned by its handles, by the batch that is
// to record it or waits for it, by builds, and by the graph that names it: the
// driver could give its handle to another one otherwise. Keeps the device: a
// build may be the last that holds it, and the runtime's end waits for builds.
// Thread-safe.
class EventCore : public std::enable_shared_from_this<EventCore> {
 public:
  EventCore(std::shared_ptr<Device> device, CUevent event, Timing timing,
            bool recorded)
      : device_(std::move(device)),
        event_(event),
        timing_(timing),
        recorded_(recorded) {}
  ~EventCore() { device_->EndEvent(event_); }
  EventCore(const EventCore&) = delete;
  EventCore& operator=(const EventCore&) = delete;

  // That of a node whose argument it is.
  static EventCore& In(const std::byte* image) {
    EventCore* event = nullptr;
    std::memcpy(&event, image, sizeof event);
    return *event;
  }

  // One of that runtime.
  bool IsOf(const RuntimeCore& runtime) const {
    return device_ == runtime.shared_device();
  }
  Device& device() const { return *device_; }
  CUevent event() const { return event_; }
  Timing timing() const { return timing_; }

  // Waiting for it means something. Acquire and release: who sees that it was
  // recorded waits for that recording.
  bool recorded() const { return recorded_.load(std::memory_order_acquire); }
  Status CheckRecorded() const {
    if (recorded()) return {};
    return base::Fail(Code::kFailedPrecondition,
                      "the event is a point of a batch that was not submitted "
                      "yet");
  }
  void set_recorded() { recorded_.store(true, std::memory_order_release); }

 private:
  const std::shared_ptr<Device> device_;
  const CUevent event_;
  const Timing timing_;
  std::atomic<bool> recorded_;
};

}  // namespace reprise::native

#endif  // REPRISE_BINDINGS_NATIVE_EVENT_CORE_H_
