// An ordered line of work on a device.

#ifndef REPRISE_BINDINGS_NATIVE_STREAM_H_
#define REPRISE_BINDINGS_NATIVE_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "bindings/native/batch.h"
#include "bindings/native/buffer.h"
#include "bindings/native/common.h"
#include "bindings/native/event.h"
#include "bindings/native/host_copy.h"
#include "bindings/native/timing.h"
#include "engine/batch/plan_report.h"
#include "engine/batch/stream_stats.h"

namespace reprise {

namespace native {
class StreamCore;
}  // namespace native

using engine::PlanReport;
using engine::StreamStats;

// Copies name the same stream, which lives as long as one of them, a batch or a
// plan of it does; its end waits for the work that it was given. Any thread may
// submit; what is submitted by one thread keeps its order.
class Stream {
 public:
  // A move copies, so that no handle is ever empty.
  Stream(const Stream&) = default;
  Stream& operator=(const Stream&) = default;

  REPRISE_EXPORT explicit Stream(std::shared_ptr<native::StreamCore> core);

  // The timeline and tools show a batch by `name`, or, without one, by its
  // kernels; it decides nothing else.
  REPRISE_EXPORT Batch BeginBatch(std::string_view name = {}) const;

  // A point behind all that was submitted so far, and the wait for another
  // stream's point, for all that is submitted from now on.
  REPRISE_EXPORT Result<Event> Record(Timing timing = Timing::kNone) const;
  REPRISE_EXPORT Status Wait(const Event& event) const;

  // Copies between the host and the device, in stream order: other streams wait
  // for a point behind them. The host's memory may be used again on return. To
  // the device they go through pinned memory and are not waited for, unless 64
  // MiB are on their way; to the host they are there on return.
  // kInvalidArgument for null pointers, unless nothing is copied, for more than
  // a number of bytes can say and for spans of two sizes; kFailedPrecondition
  // while the program captures the stream.
  template <typename T>
  Status CopyToDevice(T* to, const T* from, size_t count) const {
    return CopyIn(to, from, count, sizeof(T));
  }
  template <typename T>
  Status CopyToHost(T* to, const T* from, size_t count) const {
    return CopyOut(to, from, count, sizeof(T));
  }
  // The same with a Buffer, a part of its span() or a variable of a kernel on
  // the device, and an array, vector or span of the host.
  template <typename T>
  Status CopyToDevice(const Buffer<T>& to,
                      std::span<const std::type_identity_t<T>> from) const {
    return CopyToDevice(to.span(), from);
  }
  template <typename T>
  Status CopyToHost(std::span<std::type_identity_t<T>> to,
                    const Buffer<T>& from) const {
    return CopyToHost(to, from.span());
  }
  template <typename T, size_t kExtent>
  Status CopyToDevice(std::span<T, kExtent> to,
                      std::span<const std::type_identity_t<T>> from) const {
    REPRISE_RETURN_IF_ERROR(SameSize(to.size(), from.size(), sizeof(T)));
    return CopyIn(to.data(), from.data(), to.size(), sizeof(T));
  }
  template <typename T, size_t kExtent>
  Status CopyToHost(std::span<std::remove_const_t<T>> to,
                    std::span<T, kExtent> from) const {
    REPRISE_RETURN_IF_ERROR(SameSize(to.size(), from.size(), sizeof(T)));
    return CopyOut(to.data(), from.data(), to.size(), sizeof(T));
  }

  // A buffer of the runtime's that holds `values` (an array, vector or span)
  // from this point of the stream on. As Runtime::Allocate and CopyToDevice.
  template <typename Values>
  auto Upload(const Values& values) const {
    const std::span from(values);
    using T = std::remove_const_t<typename decltype(from)::element_type>;
    return UploadSpan<T>(from);
  }
  // What is there at this point of the stream, for the host to read later; not
  // waited for. `from` may be freed on return. kResourceExhausted if there is
  // no pinned memory left; else as CopyToHost.
  template <typename T, size_t kExtent>
  Result<HostCopy<std::remove_const_t<T>>> Download(
      std::span<T, kExtent> from) const {
    using Element = std::remove_const_t<T>;
    static_assert(std::is_trivially_copyable_v<Element>,
                  "elements that are downloaded are copied as bytes");
    REPRISE_ASSIGN_OR_RETURN(
        auto bytes, BeginCopyOut(from.data(), from.size(), sizeof(Element)));
    return HostCopy<Element>(std::move(bytes), from.size());
  }
  template <typename T>
  Result<HostCopy<T>> Download(const Buffer<T>& from) const {
    return Download(from.span());
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
  using SharedBytes = Result<std::shared_ptr<native::HostBytes>>;
  REPRISE_EXPORT SharedBytes BeginCopyOut(const void* from, size_t count,
                                          size_t element_bytes) const;
  REPRISE_EXPORT static Status SameSize(size_t to, size_t from,
                                        size_t element_bytes);
  REPRISE_EXPORT const std::shared_ptr<native::RuntimeCore>& runtime() const;

  template <typename T>
  Result<Buffer<T>> UploadSpan(std::span<const T> values) const {
    static_assert(std::is_trivially_copyable_v<T>,
                  "elements that are uploaded are copied as bytes");
    REPRISE_ASSIGN_OR_RETURN(
        void* memory, native::Allocate(*runtime(), values.size(), sizeof(T)));
    Buffer<T> buffer(runtime(), static_cast<T*>(memory), values.size());
    REPRISE_RETURN_IF_ERROR(CopyToDevice(buffer.span(), values));
    return buffer;
  }

  std::shared_ptr<native::StreamCore> core_;
};

}  // namespace reprise

#endif  // REPRISE_BINDINGS_NATIVE_STREAM_H_
