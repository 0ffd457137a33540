// What the handles of one kernel share.

#ifndef REPRISE_BINDINGS_NATIVE_KERNEL_CODE_H_
#define REPRISE_BINDINGS_NATIVE_KERNEL_CODE_H_

#include <cuda.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bindings/native/common.h"
#include "bindings/native/kernel.h"
#include "engine/base/mutex.h"
#include "engine/device/driver.h"
#include "engine/device/launch.h"

namespace reprise::native {

// A kernel and the parameters that its handles promise. Made unready where it
// has to be compiled first: whoever compiles it calls Finish or Fail once.
// Thread-safe. Owns its library, if it was compiled.
class KernelCode : public std::enable_shared_from_this<KernelCode> {
 public:
  KernelCode(std::string name, std::vector<device::ParamSpan> params);
  ~KernelCode();
  KernelCode(const KernelCode&) = delete;
  KernelCode& operator=(const KernelCode&) = delete;

  // From cubin or PTX, to be unloaded with this object; from a handle of the
  // caller's; from a function of the host. The parameters are checked against
  // what the driver knows of the kernel.
  void FinishLoading(const device::Driver& driver,
                     const std::vector<char>& code);
  void FinishAdopting(const device::Driver& driver, CUfunction handle);
  void FinishHost(HostFunction function);
  void Fail(Error error);

  // Waits until it is ready or has failed.
  Status Wait();
  // Wait would not wait, and would succeed.
  bool ready() const { return ready_.load(std::memory_order_acquire); }

  const std::string& name() const { return *name_; }
  const std::shared_ptr<const std::string>& shared_name() const {
    return name_;
  }
  const std::shared_ptr<const std::vector<device::ParamSpan>>& params() const {
    return params_;
  }
  // Once it is ready.
  CUfunction function() const { return function_; }
  const HostFunction& host() const { return host_; }
  // The driver lets it have all dynamic shared memory that the device has.
  bool large_shared() const {
    return large_shared_.load(std::memory_order_relaxed);
  }
  void set_large_shared() {
    large_shared_.store(true, std::memory_order_relaxed);
  }

 private:
  Status Load(const device::Driver& driver, const std::vector<char>& code);
  Status CheckParams(const device::Driver& driver) const;
  void Publish(Status status);

  const std::shared_ptr<const std::string> name_;
  const std::shared_ptr<const std::vector<device::ParamSpan>> params_;

  // Written before `ready_` is released.
  const device::Driver* driver_ = nullptr;
  CUlibrary library_ = nullptr;
  CUfunction function_ = nullptr;
  HostFunction host_;
  std::atomic<bool> ready_{false};
  std::atomic<bool> large_shared_{false};

  base::Mutex mutex_;
  base::CondVar finished_;
  std::optional<Status> status_ REPRISE_GUARDED_BY(mutex_);
};

}  // namespace reprise::native

#endif  // REPRISE_BINDINGS_NATIVE_KERNEL_CODE_H_
