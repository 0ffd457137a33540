// The backend of each stream.

#ifndef REPRISE_SCHEDULER_STREAM_BACKENDS_H_
#define REPRISE_SCHEDULER_STREAM_BACKENDS_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "engine/base/options.h"
#include "engine/base/status.h"
#include "engine/base/task.h"
#include "engine/replay/backend.h"
#include "engine/trace/frontend.h"
#include "scheduler/runtime_devices.h"
#include "scheduler/stream_key.h"
#include "scheduler/stream_writes.h"

namespace reprise::scheduler {

// Makes backends as the runtime's devices ask for: launches of a GPU, or calls
// on the host. Must outlive what it makes. Thread-compatible.
class StreamBackends {
 public:
  struct Parts {  // all borrowed
    RuntimeDevices* devices = nullptr;
    const base::Options* options = nullptr;
    const StreamWrites* writes = nullptr;
  };
  explicit StreamBackends(const Parts& parts)
      : devices_(*parts.devices),
        options_(*parts.options),
        writes_(*parts.writes) {}
  StreamBackends(const StreamBackends&) = delete;
  StreamBackends& operator=(const StreamBackends&) = delete;

  // `builds` runs what is built, off the program's threads. Both are borrowed.
  // Fails where the device has no context to launch in.
  base::Result<std::unique_ptr<engine::Backend>> Make(
      const StreamKey& key, engine::Frontend* frontend,
      base::TaskRunner* builds);

#ifdef REPRISE_MEASURE
  // Graphs are not launched from now on. Any thread.
  void SkipLaunches(bool skip) {
    skip_launches_.store(skip, std::memory_order_relaxed);
  }
#endif

 private:
  // How much of the program's state a pass may have to itself: none once
  // another stream may ask for it. Any thread.
  uint64_t PrivateBytes() const;

  RuntimeDevices& devices_;
  const base::Options& options_;
  const StreamWrites& writes_;
#ifdef REPRISE_MEASURE
  std::atomic<bool> skip_launches_{false};
#endif
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_STREAM_BACKENDS_H_
