// What the handles of one kernel share.

#ifndef REPRISE_ENGINE_BATCH_KERNEL_CODE_H_
#define REPRISE_ENGINE_BATCH_KERNEL_CODE_H_

#include <cuda.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/base/mutex.h"
#include "engine/base/status.h"
#include "engine/batch/host_function.h"
#include "engine/batch/param_type.h"
#include "engine/device/driver.h"
#include "engine/device/launch.h"
#include "kernels/compiler.h"
#include "kernels/library_table.h"

namespace reprise::engine {

// A kernel and the parameters that its handles promise.
//
//   made ─► loading ─► ready        one of Finish..., Fail and Load, once
//     └────────┴─────► failed
//
// Thread-safe. Keeps its library loaded; owned by handles, graphs and builds.
class KernelCode : public std::enable_shared_from_this<KernelCode> {
 public:
  // `types` has one for each parameter, or none where nobody knows them.
  KernelCode(std::string name, std::vector<device::ParamSpan> params,
             std::span<const ParamType> types = {});
  KernelCode(const KernelCode&) = delete;
  KernelCode& operator=(const KernelCode&) = delete;

  // From a handle of the caller's; from a function of the host, for the device
  // that has this context. The parameters are checked against what the driver
  // knows of the kernel.
  void FinishAdopting(const device::Driver& driver, CUfunction handle);
  void FinishHost(CUcontext context, HostFunction function);
  void Fail(base::Error error);

  // Refuses what was compiled.
  using Check = std::function<base::Status(const kernels::CompiledCode&)>;
  // From what `compilation` makes of `source`: RunIfQueued waits for it, loads
  // it and checks the parameters.
  void Load(std::shared_ptr<kernels::Compilation> compilation,
            std::shared_ptr<kernels::LibraryTable> libraries,
            std::shared_ptr<const kernels::KernelSource> source,
            Check check = nullptr) REPRISE_EXCLUDES(mutex_);
  // Does so on this thread, unless another one has begun.
  void RunIfQueued() REPRISE_EXCLUDES(mutex_);

  // Waits until it is ready or has failed; loads it here if nobody has begun.
  base::Status Wait() REPRISE_EXCLUDES(mutex_);
  // Waits; a variable of the source that it was compiled from.
  base::Result<kernels::KernelLibrary::Variable> FindVariable(
      const std::string& name) REPRISE_EXCLUDES(mutex_);
  // Wait would not wait, and would succeed.
  bool ready() const { return ready_.load(std::memory_order_acquire); }

  const std::string& name() const { return *name_; }
  const std::shared_ptr<const std::string>& shared_name() const {
    return name_;
  }
  const std::shared_ptr<const std::vector<device::ParamSpan>>& params() const {
    return params_;
  }
  // Of parameter `index`, which there is; its size is known always.
  ParamType TypeOf(size_t index) const;
  // Once it is ready.
  CUfunction function() const { return function_; }
  const HostFunction& host() const { return host_; }
  // Of the device that it can be launched on.
  CUcontext context() const { return context_; }
  // The driver lets it have all dynamic shared memory that the device has.
  bool large_shared() const {
    return large_shared_.load(std::memory_order_relaxed);
  }
  void set_large_shared() {
    large_shared_.store(true, std::memory_order_relaxed);
  }
  // What it was compiled from; null if it was not. Once it is ready.
  const kernels::KernelSource* source() const { return kernel_source_.get(); }
  // What the compiler warned of.
  const std::string& log() const { return log_; }

 private:
  struct Source {
    std::shared_ptr<kernels::Compilation> compilation;
    std::shared_ptr<kernels::LibraryTable> libraries;
    std::shared_ptr<const kernels::KernelSource> source;
    Check check;
  };

  base::Status LoadFrom(const Source& source);
  base::Status CheckParams(const device::Driver& driver) const;
  void Publish(base::Status status) REPRISE_EXCLUDES(mutex_);

  const std::shared_ptr<const std::string> name_;
  const std::shared_ptr<const std::vector<device::ParamSpan>> params_;
  const std::vector<KeptParamType> types_;

  // Written before `ready_` is released.
  std::shared_ptr<kernels::KernelLibrary>
      library_;  // with other kernels of one source
  CUfunction function_ = nullptr;
  CUcontext context_ = nullptr;
  HostFunction host_;
  std::shared_ptr<const kernels::KernelSource> kernel_source_;
  std::map<std::string, std::string> lowered_names_;
  std::string log_;
  std::atomic<bool> ready_{false};
  std::atomic<bool> large_shared_{false};

  base::Mutex mutex_;
  base::CondVar finished_;
  std::optional<Source> source_
      REPRISE_GUARDED_BY(mutex_);  // until it is begun
  std::optional<base::Status> status_ REPRISE_GUARDED_BY(mutex_);
};

}  // namespace reprise::engine

#endif  // REPRISE_ENGINE_BATCH_KERNEL_CODE_H_
