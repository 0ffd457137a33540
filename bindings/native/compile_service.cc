#include "bindings/native/compile_service.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <thread>
#include <utility>

#include "kernels/nvrtc.h"

namespace reprise {
namespace native {
namespace {

// What a host runtime stands for.
constexpr char kHostArchitecture[] = "sm_90";

// NVRTC has one lock around its front end, so more gain little.
constexpr unsigned kMostThreads = 4;

// A name that only the compiler can look up; others are found in its code.
bool IsExpression(const std::string& name) {
  return !std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == ':';
  });
}

// It may include something. One that does not is compiled, and found again,
// wherever the toolkit lies.
bool MayInclude(const KernelSource& source) {
  const auto includes = [](const std::string& text) {
    return text.find("include") != std::string::npos;
  };
  return includes(source.source) ||
         std::any_of(source.options.begin(), source.options.end(), includes);
}

kernels::KernelSource RequestOf(const KernelSource& source,
                                const std::string& architecture) {
  kernels::KernelSource request{.source = source.source,
                                .name = source.file,
                                .architecture = source.architecture.empty()
                                                    ? architecture
                                                    : source.architecture,
                                .options = source.options,
                                .headers = source.headers,
                                .include_paths = source.include_paths,
                                .name_expressions = source.instances};
  if (MayInclude(source)) {
    for (const std::string& path : kernels::ToolkitIncludePaths()) {
      request.include_paths.push_back(path);
    }
  }
  std::vector<std::string>& names = request.name_expressions;
  if (IsExpression(source.name)) names.push_back(source.name);
  // In one order, so that sources that name the same are the same.
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return request;
}

}  // namespace

CompileService::CompileService(const Device& device,
                               const RuntimeOptions& options,
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
  if (options.cache_dir.has_value()) where.directory = *options.cache_dir;
  if (options.cache_dir == "") {
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
    const KernelSource& source, std::vector<device::ParamSpan> params,
    std::span<const ParamType> types) {
  auto code =
      std::make_shared<KernelCode>(source.name, std::move(params), types);
  if (libraries_ == nullptr) {
    code->Fail(Error(Code::kUnavailable,
                     "a host runtime compiles no CUDA: make kernel '" +
                         source.name + "' with HostKernel"));
    return code;
  }
  Begin(*code, RequestOf(source, architecture_), nullptr);
  return code;
}

std::shared_ptr<KernelCode> CompileService::CompileOwn(
    kernels::KernelSource source, const std::string& name,
    std::vector<device::ParamSpan> params, KernelCode::Check check) {
  auto code = std::make_shared<KernelCode>(name, std::move(params));
  if (source.architecture.empty()) source.architecture = architecture_;
  source.name_expressions = {name};
  Begin(*code, std::move(source), std::move(check));
  return code;
}

void CompileService::Begin(KernelCode& code, kernels::KernelSource request,
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
      compiler->Compile(request);
  code.Load(compilation, libraries_,
            std::make_shared<const kernels::KernelSource>(std::move(request)),
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

RuntimeStats CompileService::stats() const {
  RuntimeStats stats;
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

}  // namespace native

Result<std::string> CheckSource(const KernelSource& source) {
  kernels::KernelSource request =
      native::RequestOf(source, native::kHostArchitecture);
  // So that the compiler looks up plain names, too; mangled ones it does not
  // know.
  if (!source.name.empty() && !native::IsExpression(source.name) &&
      !source.name.starts_with("_Z")) {
    request.name_expressions.push_back(source.name);
  }
  REPRISE_ASSIGN_OR_RETURN(const kernels::Nvrtc* nvrtc, kernels::Nvrtc::Load());
  REPRISE_ASSIGN_OR_RETURN(kernels::CompiledCode code, nvrtc->Compile(request));
  return std::move(code.log);
}

}  // namespace reprise
