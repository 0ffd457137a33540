// The devices of a runtime, as the driver tells of them.

#ifndef REPRISE_SCHEDULER_RUNTIME_DEVICES_H_
#define REPRISE_SCHEDULER_RUNTIME_DEVICES_H_

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "engine/backend/cuda_backend.h"
#include "engine/base/status.h"
#include "engine/base/task.h"
#include "engine/device/driver.h"
#include "engine/device/launch_recorder.h"
#include "scheduler/device_compares.h"
#include "scheduler/stream_key.h"

namespace reprise::scheduler {

// Owns what all sessions of a device share: the recorder of launches and the
// comparison kernels. On the host there is neither a driver nor a recorder.
// Thread-safe once it is loaded.
class RuntimeDevices {
 public:
  explicit RuntimeDevices(Devices devices) : devices_(devices) {}

  // How much memory a device has; of several devices, the first one.
  static base::Result<size_t> MemoryBytes(Devices devices);

  // kUnavailable where a driver or CUPTI is missing.
  base::Status Load();

  DeviceKind kind() const { return devices_.kind; }
  bool is_host() const { return devices_.kind == DeviceKind::kHost; }
  const Devices& served() const { return devices_; }
  bool Serves(const StreamKey& key) const { return devices_.Has(key); }
  // Null on the host.
  const device::Driver* driver() const { return driver_; }
  device::LaunchRecorder* recorder() const { return recorder_.get(); }
  bool attached_once() const {
    return attached_once_.load(std::memory_order_relaxed);
  }

  // Devices on which the framework has a context. Others have no work.
  std::vector<int> InUse() const;
  // Little of the calling thread's current device is free.
  bool MemoryIsShort() const;
  // Driver, recorder, stream, and the framework's own context, which lives as
  // long as the process.
  base::Result<engine::CudaContext> ContextFor(const StreamKey& key) const;
  base::Result<kernels::DeviceCompare*> CompareOf(int device) {
    return compares_.Get(*driver_, device);
  }

  // Does what a device's first recording and validation would wait for: CUPTI
  // is attached, unless `may_attach` forbids it, and kernels are compiled by
  // `tasks`, which end before this. The program waits meanwhile, so it launches
  // no graph beside this; the caller has no lock that whoever frees memory asks
  // for. CUPTI comes first, because what is compiled keeps others out of its
  // gate for as long. What fails is tried again for the next session, and a
  // recording tries for itself.
  void Prepare(const StreamKey& key, bool may_attach, base::TaskRunner& tasks);

 private:
  const Devices devices_;
  const device::Driver* driver_ = nullptr;
  std::unique_ptr<device::LaunchRecorder> recorder_;
  std::atomic<bool> attached_once_{false};
  DeviceCompares compares_;
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_RUNTIME_DEVICES_H_
