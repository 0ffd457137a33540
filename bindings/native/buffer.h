// Device memory of a runtime.

#ifndef REPRISE_BINDINGS_NATIVE_BUFFER_H_
#define REPRISE_BINDINGS_NATIVE_BUFFER_H_

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include "bindings/native/common.h"

namespace reprise {

namespace native {
class RuntimeCore;
REPRISE_EXPORT Result<void*> Allocate(RuntimeCore& runtime, size_t count,
                                      size_t element_bytes);
REPRISE_EXPORT void Free(RuntimeCore& runtime, void* memory);
}  // namespace native

// Owns `size()` elements of T on the runtime's device (in host memory on a host
// runtime) and keeps the runtime alive. Made by Runtime::Allocate, or from what
// the host has by Stream::Upload. Work that uses it may still be in
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

  // Where it is on the device, null if it was moved from or is the default;
  // what only work of the device may follow.
  T* data() const { return data_; }
  size_t size() const { return size_; }  // elements
  size_t size_bytes() const { return size_ * sizeof(T); }
  bool empty() const { return size_ == 0; }
  // The same address and number, for copies (Stream) and for parts of it.
  std::span<T> span() const { return {data_, size_}; }

 private:
  std::shared_ptr<native::RuntimeCore> runtime_;
  T* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace reprise

#endif  // REPRISE_BINDINGS_NATIVE_BUFFER_H_
