// Host memory that a stream copies to.

#ifndef REPRISE_BINDINGS_NATIVE_HOST_BYTES_H_
#define REPRISE_BINDINGS_NATIVE_HOST_BYTES_H_

#include <cstddef>

#include "bindings/native/common.h"

namespace reprise::native {

// Made by a device, which outlives it. It may end before the bytes are there.
// Thread-safe.
class HostBytes {
 public:
  virtual ~HostBytes() = default;
  // The bytes are there. Never waits.
  virtual Result<bool> Arrived() = 0;
  // Waits for them; they stay where they are as long as it lives.
  virtual Result<const std::byte*> Wait() = 0;
};

}  // namespace reprise::native

#endif  // REPRISE_BINDINGS_NATIVE_HOST_BYTES_H_
