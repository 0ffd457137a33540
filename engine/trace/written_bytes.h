// Which bytes of a value ops have written.

#ifndef REPRISE_ENGINE_TRACE_WRITTEN_BYTES_H_
#define REPRISE_ENGINE_TRACE_WRITTEN_BYTES_H_

#include <cstdint>
#include <span>
#include <vector>

namespace reprise::engine {

// Elements of a tensor, as they lie in a value.
struct ElementsAt {
  uint64_t offset_bytes = 0;  // of the first one, from the value's first byte
  uint32_t element_bytes = 0;
  std::span<const int64_t> sizes = {};    // in elements
  std::span<const int64_t> strides = {};  // in elements, none negative

  bool empty() const;
  // From the first element to behind the last one; 0 where there are none.
  uint64_t span_bytes() const;
};

// Of a value that was made without content. Single-thread. Cost: nothing until
// a part of it is written; then a bit an element, and a step an element that is
// written apart from others.
class WrittenBytes {
 public:
  explicit WrittenBytes(uint64_t size_bytes) : size_bytes_(size_bytes) {}

  // An op writes these. Elements that lie across others, of another size, are
  // not noted.
  void Write(const ElementsAt& elements);
  // All of these were written.
  bool Has(const ElementsAt& elements) const;

 private:
  // A run of elements that lie side by side.
  template <typename Visit>
  static bool EachRun(const ElementsAt& elements, Visit visit);
  bool AreSet(uint64_t begin, uint64_t count) const;
  void Set(uint64_t begin, uint64_t count);

  uint64_t size_bytes_;
  bool whole_ = false;
  uint32_t granule_bytes_ = 0;  // what a bit stands for; 0: nothing is written
  std::vector<uint64_t> bits_;
};

}  // namespace reprise::engine

#endif  // REPRISE_ENGINE_TRACE_WRITTEN_BYTES_H_
