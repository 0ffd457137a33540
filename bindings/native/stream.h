// An ordered line of work on a device.

#ifndef REPRISE_BINDINGS_NATIVE_STREAM_H_
#define REPRISE_BINDINGS_NATIVE_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "bindings/native/batch.h"
#include "bindings/native/common.h"
#include "bindings/native/event.h"
#include "bindings/native/patching.h"

namespace reprise {

namespace native {
class StreamCore;
}  // namespace native

// What became of the batches of a stream.
struct StreamStats {
  uint64_t batches = 0;
  uint64_t replayed = 0;  // as one graph
  uint64_t launches = 0;  // made by themselves
  uint64_t patched = 0;   // nodes of graphs whose arguments changed
  uint64_t built = 0;
  uint64_t taken_over = 0;  // graphs that became another batch's
  uint64_t refused = 0;     // builds that failed; Stream::plans says why
  uint64_t plans = 0;       // held
};

// Copies name the same stream, which lives as long as one of them, a batch or a
// plan of it does; its end waits for the work that it was given. Any thread may
// submit; what is submitted by one thread keeps its order.
class Stream {
 public:
  REPRISE_EXPORT explicit Stream(std::shared_ptr<native::StreamCore> core);

  REPRISE_EXPORT Batch BeginBatch() const;

  // A point behind all that was submitted so far, and the wait for another
  // stream's point, for all that is submitted from now on.
  REPRISE_EXPORT Result<Event> Record() const;
  REPRISE_EXPORT Status Wait(const Event& event) const;

  // Copies between the host and the device, in stream order. The host's memory
  // may be used again on return. kInvalidArgument for null pointers, unless
  // nothing is copied, and for more than a number of bytes can say.
  template <typename T>
  Status CopyToDevice(T* to, const T* from, size_t count) const {
    return CopyIn(to, from, count, sizeof(T));
  }
  template <typename T>
  Status CopyToHost(T* to, const T* from, size_t count) const {
    return CopyOut(to, from, count, sizeof(T));
  }

  // Waits for all that was submitted; tells of errors of the device.
  REPRISE_EXPORT Status Synchronize() const;
  // Waits for the builds that batches of this runtime have begun.
  REPRISE_EXPORT void WaitForBuilds() const;

  REPRISE_EXPORT StreamStats stats() const;
  // The graphs that it holds, the last used first, and why each is as it is;
  // among them batches whose graph could not be built (PlanReport::why_not).
  REPRISE_EXPORT std::vector<PlanReport> plans() const;
  // The CUstream; null on a host runtime.
  REPRISE_EXPORT void* handle() const;

 private:
  REPRISE_EXPORT Status CopyIn(void* to, const void* from, size_t count,
                               size_t element_bytes) const;
  REPRISE_EXPORT Status CopyOut(void* to, const void* from, size_t count,
                                size_t element_bytes) const;

  std::shared_ptr<native::StreamCore> core_;
};

}  // namespace reprise

#endif  // REPRISE_BINDINGS_NATIVE_STREAM_H_
