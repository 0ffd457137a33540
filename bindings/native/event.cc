#include "bindings/native/event.h"

#include <utility>

#include "bindings/native/event_core.h"

namespace reprise {

Event::Event(std::shared_ptr<native::EventCore> core)
    : core_(std::move(core)) {}

Result<bool> Event::Passed() const {
  REPRISE_RETURN_IF_ERROR(core_->CheckRecorded());
  return core_->device().Passed(core_->event());
}

Status Event::Synchronize() const {
  REPRISE_RETURN_IF_ERROR(core_->CheckRecorded());
  return core_->device().SynchronizeEvent(core_->event());
}

Result<std::chrono::nanoseconds> Event::Since(const Event& earlier) const {
  if (&core_->device() != &earlier.core_->device()) {
    return base::Fail(Code::kInvalidArgument,
                      "the events are of two runtimes, whose clocks have "
                      "nothing to do with each other");
  }
  for (const native::EventCore* core : {earlier.core_.get(), core_.get()}) {
    REPRISE_RETURN_IF_ERROR(core->CheckRecorded());
    if (core->timing() != Timing::kTimed) {
      return base::Fail(Code::kInvalidArgument,
                        "the event has no time: record it with Timing::kTimed");
    }
  }
  return core_->device().Elapsed(earlier.core_->event(), core_->event());
}

}  // namespace reprise
