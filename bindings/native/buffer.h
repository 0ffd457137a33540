// Device memory of a runtime.

#ifndef REPRISE_BINDINGS_NATIVE_BUFFER_H_
#define REPRISE_BINDINGS_NATIVE_BUFFER_H_

#include <cstddef>
#include <memory>
#include <utility>

#include "bindings/native/common.h"

namespace reprise {

namespace native {
class RuntimeCore;
REPRISE_EXPORT void Free(RuntimeCore& runtime, void* memory);
}  // namespace native

// Owns `size()` elements of T on the runtime's device (in host memory on a host
// runtime) and keeps the runtime alive. Work that uses it may still be in
// flight on streams of the runtime when it is destroyed: the memory is used
// again behind that work, and, unless memory is short, when the graphs are
// built that may name it. Streams that the runtime does not know, and graphs
// that the program has captured, must be done with it. Move-only; moved-from
// buffers are empty.
template <typename T>
class Buffer {
 public:
  Buffer() = default;
  Buffer(std::shared_ptr<native::RuntimeCore> runtime, T* data, size_t size)
      : runtime_(std::move(runtime)), data_(data), size_(size) {}
  Buffer(Buffer&& other) noexcept
      : runtime_(std::move(other.runtime_)),
        data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    Buffer taken(std::move(other));
    std::swap(runtime_, taken.runtime_);
    std::swap(data_, taken.data_);
    std::swap(size_, taken.size_);
    return *this;
  }
  ~Buffer() {
    if (data_ != nullptr) native::Free(*runtime_, data_);
  }

  T* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  std::shared_ptr<native::RuntimeCore> runtime_;
  T* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace reprise

#endif  // REPRISE_BINDINGS_NATIVE_BUFFER_H_
