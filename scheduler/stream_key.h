// Which stream of work a session stands for.

#ifndef REPRISE_SCHEDULER_STREAM_KEY_H_
#define REPRISE_SCHEDULER_STREAM_KEY_H_

#include <cstdint>

namespace reprise::scheduler {

enum class DeviceKind : uint8_t { kHost, kCuda };

struct StreamKey {
  DeviceKind kind = DeviceKind::kHost;
  int device = 0;
  void* stream = nullptr;  // CUstream; null on the host
  bool operator==(const StreamKey&) const = default;
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_STREAM_KEY_H_
