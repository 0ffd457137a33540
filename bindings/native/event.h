// Points of streams.

#ifndef REPRISE_BINDINGS_NATIVE_EVENT_H_
#define REPRISE_BINDINGS_NATIVE_EVENT_H_

#include <chrono>
#include <memory>

#include "bindings/native/common.h"
#include "bindings/native/timing.h"

namespace reprise {

namespace native {
class EventCore;
}

// A point in a stream: made by Stream::Record or Batch::Record. Copies name the
// same point. Keeps its device alive, not its runtime. Thread-safe. Streams
// wait for it with Stream::Wait and Batch::Wait. What asks about the point of a
// batch that was not submitted yet gives kFailedPrecondition; one of a plan is
// that of its latest launch.
class Event {
 public:
  // A move copies, so that no handle is ever empty.
  Event(const Event&) = default;
  Event& operator=(const Event&) = default;

  REPRISE_EXPORT explicit Event(std::shared_ptr<native::EventCore> core);

  // All work before it is done. Never waits; tells of errors of the device.
  REPRISE_EXPORT Result<bool> Passed() const;
  // The host waits for it.
  REPRISE_EXPORT Status Synchronize() const;
  // How long after `earlier` it passed, by the device's clock, of whose ticks
  // one takes about half a microsecond; negative if it passed before. Both are
  // of one runtime and Timing::kTimed (kInvalidArgument if not), and have
  // passed (kFailedPrecondition if not).
  REPRISE_EXPORT Result<std::chrono::nanoseconds> Since(
      const Event& earlier) const;

  const std::shared_ptr<native::EventCore>& core() const { return core_; }

 private:
  std::shared_ptr<native::EventCore> core_;
};

}  // namespace reprise

#endif  // REPRISE_BINDINGS_NATIVE_EVENT_H_
