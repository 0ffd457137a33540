// Which stream of work a session stands for, and which devices a runtime
// serves.

#ifndef REPRISE_SCHEDULER_STREAM_KEY_H_
#define REPRISE_SCHEDULER_STREAM_KEY_H_

#include <cstdint>
#include <optional>

namespace reprise::scheduler {

enum class DeviceKind : uint8_t { kHost, kCuda };

struct StreamKey {
  DeviceKind kind = DeviceKind::kHost;
  int device = 0;
  void* stream = nullptr;  // CUstream; null on the host
  bool operator==(const StreamKey&) const = default;
};

// All devices of a kind, or one of them.
struct Devices {
  DeviceKind kind = DeviceKind::kHost;
  std::optional<int> index{};
  bool operator==(const Devices&) const = default;

  // The stream is one of this kind's.
  bool Has(const StreamKey& stream) const {
    return !index.has_value() || *index == stream.device;
  }
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_STREAM_KEY_H_
