// Kernels from source, for one runtime.

#ifndef REPRISE_ENGINE_BATCH_COMPILE_SERVICE_H_
#define REPRISE_ENGINE_BATCH_COMPILE_SERVICE_H_

#include <sys/types.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/base/mutex.h"
#include "engine/base/task.h"
#include "engine/batch/batch_device.h"
#include "engine/batch/compile_stats.h"
#include "engine/batch/kernel_code.h"
#include "engine/device/launch.h"
#include "kernels/compiler.h"
#include "kernels/disk_cache.h"
#include "kernels/library_table.h"

namespace reprise::engine {

// Compiles with the caches in memory and on disk, and loads what was compiled.
// Its threads, apart from the one that builds graphs, begin with the first
// kernel. Thread-safe. Its end waits for what has begun and fails the rest;
// kernels may outlive it.
class CompileService {
 public:
  // For `device`, which outlives it. Opens the cache's folder (unset: the usual
  // one; empty: none). `tasks`, for tests, runs the work in place of the
  // threads.
  CompileService(const BatchDevice& device,
                 std::optional<std::string> cache_dir,
                 std::unique_ptr<base::TaskRunner> tasks = nullptr);
  ~CompileService();
  CompileService(const CompileService&) = delete;
  CompileService& operator=(const CompileService&) = delete;

  // Begins; KernelCode::Wait tells. Costs what kernels::Compiler::Compile does.
  // `name` is a kernel's name in the code of `source`, or one of its name
  // expressions; without an architecture it is compiled for the device. `types`
  // as KernelCode has them; `check` may refuse what was compiled.
  std::shared_ptr<KernelCode> Compile(kernels::KernelSource source,
                                      const std::string& name,
                                      std::vector<device::ParamSpan> params,
                                      std::span<const ParamType> types = {},
                                      KernelCode::Check check = nullptr)
      REPRISE_EXCLUDES(mutex_);

  CompileStats stats() const REPRISE_EXCLUDES(mutex_);

 private:
  // Those below, made with the first kernel.
  void Start() REPRISE_REQUIRES(mutex_);
  void Begin(KernelCode& code, kernels::KernelSource source,
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

}  // namespace reprise::engine

#endif  // REPRISE_ENGINE_BATCH_COMPILE_SERVICE_H_
