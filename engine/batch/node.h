// A launch of a batch, and the memory that it uses, as plain bytes.

#ifndef REPRISE_ENGINE_BATCH_NODE_H_
#define REPRISE_ENGINE_BATCH_NODE_H_

#include <cstdint>
#include <type_traits>

#include "engine/base/dim3.h"
#include "engine/batch/launch_config.h"

namespace reprise::engine {

using base::Dim3;

class KernelCode;

// One launch without its arguments. Compared and hashed as bytes.
struct Node {
  enum class Kind : uint32_t {
    kKernel,
    kCopy,
    kFill,
    kWait,
    kRecord,
    kCapture
  };

  KernelCode* kernel = nullptr;  // null for copies and fills
  // Bytes of a copy, elements of a fill, half of the hash of a capture's key.
  uint64_t width = 0;
  Dim3 grid;
  Dim3 block;
  Dim3 cluster;
  uint32_t shared_bytes = 0;
  int32_t priority = 0;
  uint16_t cooperative = 0;
  uint16_t programmatic = 0;
  Kind kind = Kind::kKernel;
  uint32_t image_begin = 0;  // of its arguments
  uint32_t image_bytes = 0;
  uint32_t access_begin = 0;  // of what it reads and writes
  uint32_t accesses = 0;
  // Of a fill. With `key`, the other half of the hash of a capture's key.
  uint32_t element_bytes = 0;
  uint32_t key = 0;
  // It has pointers of which nothing is known: it keeps its place.
  uint32_t ordered = 0;

  bool clustered() const { return cluster != Dim3{}; }
  LaunchConfig config() const {
    return {LaunchDim3::Of(grid),
            LaunchDim3::Of(block),
            shared_bytes,
            LaunchDim3::Of(cluster),
            cooperative != 0,
            programmatic != 0,
            priority};
  }
};
static_assert(std::has_unique_object_representations_v<Node>);
static_assert(sizeof(Node) % sizeof(uint64_t) == 0);

// Memory that a launch reads or writes.
struct Access {
  uint64_t begin = 0;
  uint64_t bytes = 0;
  uint32_t written = 0;
  uint32_t argument = 0;  // of the launch, that names the memory
  bool ConflictsWith(const Access& other) const {
    return (written | other.written) != 0 &&
           begin < other.begin + other.bytes && other.begin < begin + bytes;
  }
};
static_assert(std::has_unique_object_representations_v<Access>);

}  // namespace reprise::engine

#endif  // REPRISE_ENGINE_BATCH_NODE_H_
