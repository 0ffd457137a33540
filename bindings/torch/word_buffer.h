// A vector of words that lives on the stack until it outgrows its place.

#ifndef REPRISE_BINDINGS_TORCH_WORD_BUFFER_H_
#define REPRISE_BINDINGS_TORCH_WORD_BUFFER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace reprise::bindings {

// Pinned: neither copied nor moved. Growing invalidates what was handed out.
class WordBuffer {
 public:
  WordBuffer() {}  // leaves the words unset on purpose
  WordBuffer(const WordBuffer&) = delete;
  WordBuffer& operator=(const WordBuffer&) = delete;

  // `count` more words, unset, to be written before the next call.
  uint64_t* Extend(size_t count) {
    if (size_ + count > capacity_) [[unlikely]]
      Grow(size_ + count);
    uint64_t* begin = data_ + size_;
    size_ += count;
    return begin;
  }

  void Push(uint64_t word) { *Extend(1) = word; }

  uint64_t& operator[](size_t i) { return data_[i]; }
  uint64_t operator[](size_t i) const { return data_[i]; }
  size_t size() const { return size_; }
  std::span<const uint64_t> words() const { return {data_, size_}; }

 private:
  // Two operands of four dimensions take 20 words.
  static constexpr size_t kInline = 96;

  [[gnu::noinline]] void Grow(size_t needed) {
    const size_t capacity = std::max(needed, 4 * capacity_);
    std::unique_ptr<uint64_t[]> heap(new uint64_t[capacity]);
    std::copy_n(data_, size_, heap.get());
    heap_ = std::move(heap);
    data_ = heap_.get();
    capacity_ = capacity;
  }

  uint64_t* data_ = inline_;
  size_t size_ = 0;
  size_t capacity_ = kInline;
  std::unique_ptr<uint64_t[]> heap_;
  uint64_t inline_[kInline];
};

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_WORD_BUFFER_H_
