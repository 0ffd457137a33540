// The comparison kernels of a runtime's devices.

#ifndef REPRISE_SCHEDULER_DEVICE_COMPARES_H_
#define REPRISE_SCHEDULER_DEVICE_COMPARES_H_

#include <map>
#include <memory>
#include <set>

#include "engine/base/mutex.h"
#include "engine/base/status.h"
#include "engine/base/task.h"
#include "engine/device/driver.h"
#include "engine/device/relaxed_capture.h"
#include "kernels/compare.h"

namespace reprise::scheduler {

// Compiled when they are first asked for, which takes some hundred
// milliseconds; then kept. Thread-safe: who asks for one waits while another
// one is compiled. What is given is valid for as long as this.
class DeviceCompares {
 public:
  base::Result<kernels::DeviceCompare*> Get(const device::Driver& driver,
                                            int device)
      REPRISE_EXCLUDES(mutex_) {
    const base::MutexLock lock(mutex_);
    std::unique_ptr<kernels::DeviceCompare>& compare = compares_[device];
    if (compare == nullptr) {
      CUdevice handle;
      REPRISE_CU(driver, cuDeviceGet(&handle, device));
      REPRISE_ASSIGN_OR_RETURN(compare,
                               kernels::DeviceCompare::Create(driver, handle));
    }
    return compare.get();
  }

  // The same in the background, for who asks later; once a device. `tasks` end
  // before this.
  void Prepare(const device::Driver& driver, int device,
               base::TaskRunner& tasks) REPRISE_EXCLUDES(posted_mutex_) {
    {
      const base::MutexLock lock(posted_mutex_);
      if (!posted_.insert(device).second) return;
    }
    tasks.Post([this, &driver, device] {
      // The program may capture meanwhile.
      const device::RelaxedCapture relaxed(driver);
      (void)Get(driver, device);
    });
  }

 private:
  base::Mutex posted_mutex_;
  std::set<int> posted_ REPRISE_GUARDED_BY(posted_mutex_);
  base::Mutex mutex_;
  std::map<int, std::unique_ptr<kernels::DeviceCompare>> compares_
      REPRISE_GUARDED_BY(mutex_);
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_DEVICE_COMPARES_H_
