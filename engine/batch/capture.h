// Work of other libraries as a part of a batch.

#ifndef REPRISE_ENGINE_BATCH_CAPTURE_H_
#define REPRISE_ENGINE_BATCH_CAPTURE_H_

#include <cstdint>
#include <cstring>
#include <functional>
#include <type_traits>
#include <vector>

#include "engine/base/status.h"

struct CUstream_st;  // CUstream and cudaStream_t are pointers to it

namespace reprise::engine {

// Values by which captures are told apart, in their order: addresses, sizes,
// numbers, whatever the captured work depends on.
class CaptureKey {
 public:
  template <typename... V>
  explicit CaptureKey(const V&... values) {
    (Add(values), ...);
  }
  const std::vector<uint64_t>& words() const { return words_; }

 private:
  template <typename V>
  void Add(const V& value) {
    static_assert(
        std::is_arithmetic_v<V> || std::is_enum_v<V> || std::is_pointer_v<V>,
        "numbers, enumerators and pointers: others may hold bytes "
        "that mean nothing");
    const size_t begin = words_.size();
    words_.resize(begin + (sizeof value + 7) / 8);
    std::memcpy(words_.data() + begin, &value, sizeof value);
  }

  std::vector<uint64_t> words_;
};

using CaptureFunction = std::function<base::Status(CUstream_st* stream)>;

}  // namespace reprise::engine

#endif  // REPRISE_ENGINE_BATCH_CAPTURE_H_
