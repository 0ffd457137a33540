#include "engine/batch/compile_service.h"

#include <unistd.h>

#include <algorithm>
#include <thread>
#include <utility>

namespace reprise::engine {

using base::Code;
using base::Error;

namespace {

// NVRTC has one lock around its front end, so more gain little.
constexpr unsigned kMostThreads = 4;

}  // namespace

CompileService::CompileService(const BatchDevice& device,
                               std::optional<std::string> cache_dir,
                               std::unique_ptr<base::TaskRunner> tasks)
    : process_(getpid()),
      architecture_(device.architecture()),
      libraries_(device.on_host()
                     ? nullptr
                     : std::make_shared<kernels::LibraryTable>(
                           *device.context().driver, device.context().context)),
      tasks_(std::move(tasks)) {
  if (device.on_host()) {
    why_no_cache_ = "a host runtime compiles nothing";
    return;
  }
  kernels::DiskCacheOptions where;
  if (cache_dir.has_value()) where.directory = *cache_dir;
  if (cache_dir == "") {
    why_no_cache_ = "RuntimeOptions::cache_dir is empty";
    return;
  }
  auto disk = kernels::DiskCache::Open(std::move(where));
  if (disk) {
    disk_ = *std::move(disk);
  } else {
    why_no_cache_ = disk.error().message();
  }
}

CompileService::~CompileService() {
  const base::MutexLock lock(mutex_);
  compiler_.reset();
  // A forked child has none of the threads, and would wait for them for ever.
  if (getpid() != process_) (void)tasks_.release();
}

void CompileService::Start() {
  if (compiler_ != nullptr) return;
  if (tasks_ == nullptr) {
    tasks_ = std::make_unique<base::ThreadTaskRunner>(
        std::clamp(std::thread::hardware_concurrency(), 1u, kMostThreads));
  }
  compiler_ = std::make_unique<kernels::Compiler>(
      *tasks_, kernels::CompilerOptions{.disk = disk_});
}

std::shared_ptr<KernelCode> CompileService::Compile(
    kernels::KernelSource source, const std::string& name,
    std::vector<device::ParamSpan> params, std::span<const ParamType> types,
    KernelCode::Check check) {
  auto code = std::make_shared<KernelCode>(name, std::move(params), types);
  if (libraries_ == nullptr) {
    code->Fail(Error(Code::kUnavailable,
                     "a host runtime compiles no CUDA: make kernel '" + name +
                         "' with HostKernel"));
    return code;
  }
  if (source.architecture.empty()) source.architecture = architecture_;
  Begin(*code, std::move(source), std::move(check));
  return code;
}

void CompileService::Begin(KernelCode& code, kernels::KernelSource source,
                           KernelCode::Check check) {
  kernels::Compiler* compiler = nullptr;
  base::TaskRunner* tasks = nullptr;
  {
    const base::MutexLock lock(mutex_);
    Start();
    compiler = compiler_.get();
    tasks = tasks_.get();
  }
  const std::shared_ptr<kernels::Compilation> compilation =
      compiler->Compile(source);
  code.Load(compilation, libraries_,
            std::make_shared<const kernels::KernelSource>(std::move(source)),
            std::move(check));
  // Loading waits for the device, so it is no work for this thread. A kernel
  // that nobody holds any more is not loaded.
  base::Task load = [weak = code.weak_from_this()] {
    if (const auto wanted = weak.lock()) wanted->RunIfQueued();
  };
  if (compilation->done()) {
    tasks->Post(std::move(load));
  } else {
    compilation->Then(std::move(load));
  }
}

CompileStats CompileService::stats() const {
  CompileStats stats;
  if (libraries_ != nullptr) stats.libraries = libraries_->size();
  if (disk_ != nullptr) stats.cache_dir = disk_->directory();
  stats.why_no_cache = why_no_cache_;
  const base::MutexLock lock(mutex_);
  if (compiler_ == nullptr) return stats;
  const kernels::Compiler::Stats counts = compiler_->stats();
  stats.compiled = counts.compiled;
  stats.memory_hits = counts.memory_hits + counts.shared;
  stats.disk_hits = counts.disk_hits;
  return stats;
}

}  // namespace reprise::engine
