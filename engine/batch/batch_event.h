// Points of streams, as batches name them.

#ifndef REPRISE_ENGINE_BATCH_BATCH_EVENT_H_
#define REPRISE_ENGINE_BATCH_BATCH_EVENT_H_

#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <cstring>
#include <memory>

#include "engine/base/status.h"

namespace reprise::engine {

// An event of the driver's, recorded once, or by each launch of the plan that
// it is a point of. Who derives from it ends the event. Owned by its handles,
// by the batch that is to record it or waits for it, by builds, and by the
// graph that names it: the driver could give its handle to another one
// otherwise. Thread-safe.
class BatchEvent : public std::enable_shared_from_this<BatchEvent> {
 public:
  virtual ~BatchEvent() = default;
  BatchEvent(const BatchEvent&) = delete;
  BatchEvent& operator=(const BatchEvent&) = delete;

  // That of a node whose argument it is.
  static BatchEvent& In(const std::byte* image) {
    BatchEvent* event = nullptr;
    std::memcpy(&event, image, sizeof event);
    return *event;
  }

  CUevent event() const { return event_; }

  // Waiting for it means something. Acquire and release: who sees that it was
  // recorded waits for that recording.
  bool recorded() const { return recorded_.load(std::memory_order_acquire); }
  base::Status CheckRecorded() const {
    if (recorded()) return {};
    return base::Fail(base::Code::kFailedPrecondition,
                      "the event is a point of a batch that was not submitted "
                      "yet");
  }
  void set_recorded() { recorded_.store(true, std::memory_order_release); }

 protected:
  BatchEvent(CUevent event, bool recorded)
      : event_(event), recorded_(recorded) {}

 private:
  const CUevent event_;
  std::atomic<bool> recorded_;
};

}  // namespace reprise::engine

#endif  // REPRISE_ENGINE_BATCH_BATCH_EVENT_H_
