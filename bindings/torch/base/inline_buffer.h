// A vector that lives on the stack until it outgrows its place.

#ifndef REPRISE_BINDINGS_TORCH_BASE_INLINE_BUFFER_H_
#define REPRISE_BINDINGS_TORCH_BASE_INLINE_BUFFER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <type_traits>
#include <utility>

namespace reprise::bindings {

// For types that can be copied as bytes; what is not in use is never touched.
// Pinned: neither copied nor moved. Growing invalidates what was handed out.
template <typename T, size_t kInline>
class InlineBuffer {
  static_assert(std::is_trivially_copyable_v<T> &&
                std::is_trivially_destructible_v<T>);

 public:
  InlineBuffer() {}  // leaves its room unset on purpose
  InlineBuffer(const InlineBuffer&) = delete;
  InlineBuffer& operator=(const InlineBuffer&) = delete;

  // `count` more elements, unset, to be written before the next call.
  T* Extend(size_t count) {
    if (size_ + count > capacity_) [[unlikely]]
      Grow(size_ + count);
    T* begin = data_ + size_;
    size_ += count;
    return begin;
  }

  void Push(const T& value) { ::new (Extend(1)) T(value); }
  void Clear() { size_ = 0; }

  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }
  size_t size() const { return size_; }
  std::span<T> span() { return {data_, size_}; }
  std::span<const T> span() const { return {data_, size_}; }

 private:
  [[gnu::noinline]] void Grow(size_t needed) {
    const size_t capacity = std::max(needed, 4 * capacity_);
    auto heap =
        std::make_unique_for_overwrite<std::byte[]>(capacity * sizeof(T));
    T* data = reinterpret_cast<T*>(heap.get());
    std::uninitialized_copy_n(data_, size_, data);
    heap_ = std::move(heap);
    data_ = data;
    capacity_ = capacity;
  }

  T* data_ = reinterpret_cast<T*>(inline_);
  size_t size_ = 0;
  size_t capacity_ = kInline;
  std::unique_ptr<std::byte[]> heap_;
  alignas(T) std::byte inline_[kInline * sizeof(T)];
};

// Two operands of four dimensions take 20 words.
using WordBuffer = InlineBuffer<uint64_t, 96>;

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_BASE_INLINE_BUFFER_H_
