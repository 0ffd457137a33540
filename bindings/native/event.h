// Points of streams.

#ifndef REPRISE_BINDINGS_NATIVE_EVENT_H_
#define REPRISE_BINDINGS_NATIVE_EVENT_H_

#include <memory>

namespace reprise {

namespace native {
class EventCore;
}

// A point in a stream: made by Stream::Record or Batch::Record. Copies name the
// same point. Keeps its device alive, not its runtime. Thread-safe.
class Event {
 public:
  explicit Event(std::shared_ptr<native::EventCore> core);
  const std::shared_ptr<native::EventCore>& core() const { return core_; }

 private:
  std::shared_ptr<native::EventCore> core_;
};

}  // namespace reprise

#endif  // REPRISE_BINDINGS_NATIVE_EVENT_H_
