// One piece of device work as a value: what eager enqueued, kept so that it can
// be looked into, patched and enqueued again.

#ifndef REPRISE_ENGINE_DEVICE_LAUNCH_H_
#define REPRISE_ENGINE_DEVICE_LAUNCH_H_

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/dim3.h"

namespace reprise::device {

using base::Dim3;

// Where one kernel parameter lies in the parameter image.
struct ParamSpan {
  uint32_t offset_bytes;
  uint32_t size_bytes;
  bool operator==(const ParamSpan&) const = default;
};

// A kernel with its parameter bytes, a memset or a memcpy within the device;
// for launches whose maker asks for it, and never recorded, also the wait for
// an event, its recording, or the work of a whole graph.
//
// `image` is the one place where addresses stand: for a kernel its parameters
// at their driver offsets (one contiguous buffer), for a memset the
// destination at byte 0, for a memcpy the destination at byte 0 and the source
// at byte 8, for an event the CUevent at byte 0. A patch is therefore always
// eight bytes at an offset of `image`. `function` is borrowed: the library that
// holds it must outlive the launch. `params` and `name` are shared by all
// launches of one function. Thread-compatible value.
struct Launch {
  enum class Kind : uint8_t {
    kKernel,
    kMemset,
    kMemcpy,
    kWaitEvent,
    kRecordEvent,
    kGraph
  };

  Kind kind = Kind::kKernel;
  bool packed = false;  // eager passed one buffer (`extra`), so do we
  std::vector<std::byte> image;

  // Kernels.
  CUfunction function = nullptr;  // a CUfunction or a CUkernel cast to it
  Dim3 grid;
  Dim3 block;
  unsigned shared_bytes = 0;
  std::vector<CUlaunchAttribute> attributes;
  // It may begin before the kernels that it waits for have ended: it waits for
  // them itself. For launches whose maker asks for it; never recorded.
  bool programmatic = false;
  std::shared_ptr<const std::vector<ParamSpan>> params;  // null when packed
  // As the compiler mangled it, for people; null if unknown.
  std::shared_ptr<const std::string> name;

  // Memsets: `width` elements of `element_bytes`, `height` rows of
  // `pitch_bytes`. Memcpys: `width` bytes.
  uint32_t value = 0;
  uint32_t element_bytes = 1;
  size_t width = 0;
  size_t height = 1;
  size_t pitch_bytes = 0;

  // A launch waits for all before it; one of an op that forks streams for these
  // alone, told by how many launches before it they were made (1: the last
  // one). All are of the same op.
  std::optional<std::vector<uint32_t>> behind;

  // Graphs: borrowed until it has been copied into the graph that it is part
  // of.
  CUgraph graph = nullptr;

  // It waits for an event, or records one.
  bool is_event() const {
    return kind == Kind::kWaitEvent || kind == Kind::kRecordEvent;
  }

  uint64_t Word(size_t offset_bytes) const {
    uint64_t word;
    std::memcpy(&word, image.data() + offset_bytes, sizeof word);
    return word;
  }
  void SetWord(size_t offset_bytes, uint64_t word) {
    std::memcpy(image.data() + offset_bytes, &word, sizeof word);
  }
};

// Equal but for the bytes of `image` (whose size must agree): the same function
// with the same shape, so that one recording can confirm another.
bool SameShape(const Launch& a, const Launch& b);

// One line for people: the kernel's name, grid and block, or the fill or copy.
std::string Describe(const Launch& launch);

}  // namespace reprise::device

#endif  // REPRISE_ENGINE_DEVICE_LAUNCH_H_
