// Kernels from source, for one runtime.

#ifndef REPRISE_BINDINGS_NATIVE_COMPILE_SERVICE_H_
#define REPRISE_BINDINGS_NATIVE_COMPILE_SERVICE_H_

#include <sys/types.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bindings/native/device.h"
#include "bindings/native/kernel.h"
#include "bindings/native/kernel_code.h"
#include "bindings/native/runtime.h"
#include "engine/base/mutex.h"
#include "engine/base/task.h"
#include "engine/device/launch.h"
#include "kernels/compiler.h"
#include "kernels/disk_cache.h"
#include "kernels/library_table.h"

namespace reprise::native {

// Compiles with the caches in memory and on disk, and loads what was compiled.
// Its threads, apart from the one that builds graphs, begin with the first
// kernel. Thread-safe. Its end waits for what has begun and fails the rest;
// kernels may outlive it.
class CompileService {
 public:
  // For `device`, which outlives it. Opens the cache's folder. `tasks`, for
  // tests, runs the work in place of the threads.
  CompileService(const Device& device, const RuntimeOptions& options,
                 std::unique_ptr<base::TaskRunner> tasks = nullptr);
  ~CompileService();
  CompileService(const CompileService&) = delete;
  CompileService& operator=(const CompileService&) = delete;

  // Begins; KernelCode::Wait tells. Costs what kernels::Compiler::Compile does.
  // What the source includes is looked for in the folders of NVRTC's toolkit,
  // too (kernels::ToolkitIncludePaths), behind its own.
  std::shared_ptr<KernelCode> Compile(const KernelSource& source,
                                      std::vector<device::ParamSpan> params,
                                      std::span<const ParamType> types = {})
      REPRISE_EXCLUDES(mutex_);

  // The same with a source of Reprise's own, of which `name` is a name
  // expression. `check` may refuse what was compiled.
  std::shared_ptr<KernelCode> CompileOwn(kernels::KernelSource source,
                                         const std::string& name,
                                         std::vector<device::ParamSpan> params,
                                         KernelCode::Check check = nullptr)
      REPRISE_EXCLUDES(mutex_);

  RuntimeStats stats() const REPRISE_EXCLUDES(mutex_);

 private:
  // Those below, made with the first kernel.
  void Start() REPRISE_REQUIRES(mutex_);
  void Begin(KernelCode& code, kernels::KernelSource request,
             KernelCode::Check check) REPRISE_EXCLUDES(mutex_);

  const pid_t process_;
  const std::string architecture_;  // of the device; empty on the host
  const std::shared_ptr<kernels::LibraryTable> libraries_;  // null on the host
  std::shared_ptr<kernels::DiskCache> disk_;  // null if there is none
  std::string why_no_cache_;

  mutable base::Mutex mutex_;
  std::unique_ptr<base::TaskRunner> tasks_ REPRISE_GUARDED_BY(mutex_);
  std::unique_ptr<kernels::Compiler> compiler_ REPRISE_GUARDED_BY(mutex_);
};

}  // namespace reprise::native

#endif  // REPRISE_BINDINGS_NATIVE_COMPILE_SERVICE_H_
