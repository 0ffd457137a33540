// What the device sends to the host.

#ifndef REPRISE_BINDINGS_NATIVE_HOST_COPY_H_
#define REPRISE_BINDINGS_NATIVE_HOST_COPY_H_

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include "bindings/native/common.h"

namespace reprise {

namespace native {
class HostBytes;
REPRISE_EXPORT Result<bool> Arrived(HostBytes& bytes);
REPRISE_EXPORT Result<const void*> WaitFor(HostBytes& bytes);
}  // namespace native

// Elements on their way to the host, or there: made by Stream::Download, into
// pinned memory that it owns. They are there once Wait has returned, or Arrived
// has said so, and stay until its last copy goes; copies name the same
// elements. It may go before they are there. Keeps the device alive, not the
// runtime. Thread-safe.
template <typename T>
class HostCopy {
 public:
  HostCopy(std::shared_ptr<native::HostBytes> bytes, size_t size)
      : bytes_(std::move(bytes)), size_(size) {}

  // Wait would return at once. Tells of errors of the device.
  Result<bool> Arrived() const { return native::Arrived(*bytes_); }
  // Waits for the copy and what was before it in its stream.
  Result<std::span<const T>> Wait() const {
    REPRISE_ASSIGN_OR_RETURN(const void* memory, native::WaitFor(*bytes_));
    return std::span<const T>(static_cast<const T*>(memory), size_);
  }
  size_t size() const { return size_; }

 private:
  std::shared_ptr<native::HostBytes> bytes_;
  size_t size_;
};

}  // namespace reprise

#endif  // REPRISE_BINDINGS_NATIVE_HOST_COPY_H_
