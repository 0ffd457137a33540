// Compiling CUDA source in the background, once for all who ask.

#ifndef REPRISE_KERNELS_COMPILER_H_
#define REPRISE_KERNELS_COMPILER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/base/mutex.h"
#include "engine/base/status.h"
#include "engine/base/task.h"
#include "kernels/compiled_code.h"
#include "kernels/kernel_source.h"

namespace reprise::kernels {

class DiskCache;
class Nvrtc;

// One compilation, shared by all who asked for the same while it was under way.
//
//   queued ─► running ─► done
//
// Made by a Compiler, which it may outlive, as it may its task runner: what was
// still queued then fails with kFailedPrecondition. Thread-safe.
class Compilation {
 public:
  using CodePtr = std::shared_ptr<const CompiledCode>;

  ~Compilation();
  Compilation(const Compilation&) = delete;
  Compilation& operator=(const Compilation&) = delete;

  // Wait would return at once. What was done before is seen by who reads true.
  bool done() const { return done_.load(std::memory_order_acquire); }

  // The code, shared with the compiler's cache, or what went wrong: always the
  // same. Compiles on this thread what no other has begun, so that it waits for
  // nothing else in the runner's queue and may be called from its tasks too.
  base::Result<CodePtr> Wait() REPRISE_EXCLUDES(mutex_);

  // Runs `task` once Wait would return at once: on the thread that compiles, or
  // drops the work, under no lock; on this one if it is done already.
  void Then(base::Task task) REPRISE_EXCLUDES(mutex_);

 private:
  friend class Compiler;
  class Work;
  struct Ticket;

  explicit Compilation(std::unique_ptr<Work> work);
  explicit Compilation(base::Result<CodePtr> result);

  // Nothing if it has begun.
  std::unique_ptr<Work> TakeWork() REPRISE_EXCLUDES(mutex_);
  void RunIfQueued() REPRISE_EXCLUDES(mutex_);
  void DropIfQueued() REPRISE_EXCLUDES(mutex_);
  void Publish(base::Result<CodePtr> result) REPRISE_EXCLUDES(mutex_);

  base::Mutex mutex_;
  base::CondVar changed_;
  std::unique_ptr<Work> work_ REPRISE_GUARDED_BY(mutex_);  // null once begun
  base::Result<CodePtr> result_ REPRISE_GUARDED_BY(mutex_);
  std::vector<base::Task> next_ REPRISE_GUARDED_BY(mutex_);
  std::atomic<bool> done_;  // true once `result_` is what it stays
};

struct CompilerOptions {
  // Results kept in memory, least recently used dropped first.
  size_t memory_bytes = size_t{64} << 20;
  // Where results outlive the process; null for nowhere.
  std::shared_ptr<DiskCache> disk = nullptr;
  // What compiles, which must outlive the compiler's work; null for
  // Nvrtc::Load's.
  const Nvrtc* nvrtc = nullptr;
};

// Compiles with NVRTC; equal sources are compiled once. Equal means in all of
// KernelSource, in the text of the files that it includes and in the build of
// NVRTC. Where that cannot be told (an include that a macro names, __TIME__, an
// option that reads or writes files) every call compiles anew.
//
// Failures are not kept: the next call tries again. Thread-safe; code that is
// handed out lives as long as somebody holds it.
class Compiler {
 public:
  struct Stats {
    uint64_t compiled = 0;     // by NVRTC, in vain or not
    uint64_t memory_hits = 0;  // calls answered at once
    uint64_t disk_hits = 0;    // compilations that found their result on disk
    uint64_t shared = 0;       // calls that joined a compilation under way
  };

  // `runner` must outlive the compiler.
  explicit Compiler(base::TaskRunner& runner, CompilerOptions options = {});
  ~Compiler();

  // Never null, and never waits for NVRTC, which is not even loaded for code
  // that is in memory or on disk. The work is posted to the runner; what is
  // known already, in memory or because no compiler is needed to see that it is
  // wrong, is done when this returns. Costs some microseconds, and 10 us more
  // for each file that may be included; 40 us for one that the compiler has not
  // seen yet.
  //
  // Wait's errors: kInvalidArgument with NVRTC's log, in which lines are those
  // of the source; kUnavailable without NVRTC.
  std::shared_ptr<Compilation> Compile(KernelSource source);

  Stats stats() const;

 private:
  friend class Compilation;
  class Core;

  base::TaskRunner& runner_;
  // Shared with compilations that are not done.
  const std::shared_ptr<Core> core_;
};

}  // namespace reprise::kernels

#endif  // REPRISE_KERNELS_COMPILER_H_
