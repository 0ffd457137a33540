// What a device is, and how much of a kernel it runs at a time.

#ifndef REPRISE_BINDINGS_NATIVE_DEVICE_INFO_H_
#define REPRISE_BINDINGS_NATIVE_DEVICE_INFO_H_

#include <cstdint>
#include <string>

namespace reprise {

// As the driver tells it. Of a host runtime it is the host's memory, and what
// its launches are held to. Thread-compatible value.
struct DeviceInfo {
  int number = 0;  // as RuntimeOptions::device
  std::string name = {};
  int compute_major = 0;  // compute capability
  int compute_minor = 0;
  uint64_t memory_bytes = 0;  // in all
  int multiprocessors = 0;
  int threads_per_block = 0;  // at most, as all that follows
  int threads_per_multiprocessor = 0;
  int shared_bytes_per_block = 0;  // static and dynamic
  int shared_bytes_per_multiprocessor = 0;
};

// What the priority of a stream or a launch may be; of what waits the least
// number is first. Both are 0 where the device has none.
struct PriorityRange {
  int32_t least = 0;     // the largest number
  int32_t greatest = 0;  // the smallest one
};

// Blocks of which a device runs as many threads of a kernel at a time as it
// can.
struct SuggestedBlock {
  uint32_t threads = 0;                    // a multiple of 32
  uint32_t blocks_per_multiprocessor = 0;  // at a time
  uint32_t blocks = 0;                     // at a time on the device
};

}  // namespace reprise

#endif  // REPRISE_BINDINGS_NATIVE_DEVICE_INFO_H_
