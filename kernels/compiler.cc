#include "kernels/compiler.h"

#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cache/lru_cache.h"
#include "cache/signature.h"
#include "kernels/compile_request.h"
#include "kernels/disk_cache.h"
#include "kernels/nvrtc.h"
#include "kernels/nvrtc_library.h"

namespace reprise::kernels {

using base::Code;
using CodePtr = Compilation::CodePtr;

// What compilations share with their compiler, which they may outlive.
class Compiler::Core {
 public:
  explicit Core(CompilerOptions options)
      : disk_(std::move(options.disk)),
        nvrtc_(options.nvrtc),
        memory_(options.memory_bytes) {}

  // Tells what compiles from others, and loads nothing for it.
  base::Result<std::string> identity() const {
    if (nvrtc_ != nullptr) return nvrtc_->version();
    return NvrtcIdentity();
  }
  base::Result<const Nvrtc*> nvrtc() const {
    if (nvrtc_ != nullptr) return nvrtc_;
    return Nvrtc::Load();
  }

  // The compilation of `key` that is done or under way; else the one that
  // `make` makes, which is then `made` and must end in Finish.
  template <typename Make>
  std::shared_ptr<Compilation> FindOrMake(const cache::Signature& key,
                                          const Make& make, bool& made) {
    const base::MutexLock lock(mutex_);
    if (const auto found = in_flight_.find(key); found != in_flight_.end()) {
      shared_.fetch_add(1, std::memory_order_relaxed);
      return found->second;
    }
    if (const auto kept = memory_.Lookup(key)) {
      memory_hits_.fetch_add(1, std::memory_order_relaxed);
      return std::shared_ptr<Compilation>(
          new Compilation(base::Result<CodePtr>(*kept)));
    }
    made = true;
    return in_flight_.emplace(key, make()).first->second;
  }

  // The compilation of `key` is no longer under way; null if it failed, or if
  // the result is not to be kept.
  void Finish(const cache::Signature& key, const CodePtr& code) {
    // First kept and then no longer under way: who asks finds one or the other.
    if (code != nullptr) {
      (void)memory_.Insert(key, code, code->size_bytes());  // if it fits
    }
    std::shared_ptr<Compilation> ended;  // outlives the lock
    const base::MutexLock lock(mutex_);
    const auto found = in_flight_.find(key);
    ended = std::move(found->second);
    in_flight_.erase(found);
  }

  CodePtr LoadFromDisk(const cache::Signature& key) {
    if (disk_ == nullptr) return nullptr;
    const std::optional<std::vector<char>> bytes = disk_->Lookup(key);
    if (!bytes) return nullptr;
    std::optional<CompiledCode> code = CompiledCode::Parse(*bytes);
    if (!code) {
      disk_->Erase(key);
      return nullptr;
    }
    disk_hits_.fetch_add(1, std::memory_order_relaxed);
    return std::make_shared<const CompiledCode>(*std::move(code));
  }

  void StoreOnDisk(const cache::Signature& key, const CompiledCode& code) {
    if (disk_ != nullptr) disk_->Store(key, code.Serialize());
  }

  base::Result<CodePtr> Compile(const KernelSource& source) {
    compiled_.fetch_add(1, std::memory_order_relaxed);
    REPRISE_ASSIGN_OR_RETURN(const Nvrtc* compiler, nvrtc());
    REPRISE_ASSIGN_OR_RETURN(CompiledCode code, compiler->Compile(source));
    return std::make_shared<const CompiledCode>(std::move(code));
  }

  IncludedFiles& files() { return files_; }

  Stats stats() const {
    return {.compiled = compiled_.load(std::memory_order_relaxed),
            .memory_hits = memory_hits_.load(std::memory_order_relaxed),
            .disk_hits = disk_hits_.load(std::memory_order_relaxed),
            .shared = shared_.load(std::memory_order_relaxed)};
  }

 private:
  using Memory = cache::PinnedLruCache<cache::Signature, CodePtr>;
  using InFlight =
      std::unordered_map<cache::Signature, std::shared_ptr<Compilation>>;

  const std::shared_ptr<DiskCache> disk_;
  const Nvrtc* const nvrtc_;
  Memory memory_;
  IncludedFiles files_;
  base::Mutex mutex_;
  InFlight in_flight_ REPRISE_GUARDED_BY(mutex_);
  std::atomic<uint64_t> compiled_{0};
  std::atomic<uint64_t> memory_hits_{0};
  std::atomic<uint64_t> disk_hits_{0};
  std::atomic<uint64_t> shared_{0};
};

// What is left to do for a compilation: Run and Keep, or Drop.
class Compilation::Work {
 public:
  Work(std::shared_ptr<Compiler::Core> core, CompileRequest request)
      : core_(std::move(core)), request_(std::move(request)) {}

  base::Result<CodePtr> Run() {
    if (!request_.key) return core_->Compile(request_.source);
    if (CodePtr code = core_->LoadFromDisk(*request_.key)) {
      core_->Finish(*request_.key, code);
      return code;
    }
    base::Result<CodePtr> code = core_->Compile(request_.source);
    // What NVRTC read may have been written after the key was made.
    if (code && FindDependencies(request_.source, core_->files()) ==
                    request_.dependencies) {
      compiled_ = *code;
    }
    core_->Finish(*request_.key, compiled_);
    return code;
  }

  // After the result of Run was published, as nobody need wait for this.
  void Keep() {
    if (compiled_ != nullptr) core_->StoreOnDisk(*request_.key, *compiled_);
  }

  base::Error Drop() {
    if (request_.key) core_->Finish(*request_.key, nullptr);
    return base::Error(Code::kFailedPrecondition,
                       "the compilation of " + request_.source.name +
                           " was dropped with the runner that it was queued "
                           "on; compile it again");
  }

 private:
  const std::shared_ptr<Compiler::Core> core_;
  const CompileRequest request_;
  CodePtr compiled_;  // here, and to be kept
};

// Captured by the task: whether it is run or dropped, the compilation ends.
struct Compilation::Ticket {
  explicit Ticket(std::shared_ptr<Compilation> queued)
      : compilation(std::move(queued)) {}
  ~Ticket() { compilation->DropIfQueued(); }
  Ticket(const Ticket&) = delete;
  Ticket& operator=(const Ticket&) = delete;

  const std::shared_ptr<Compilation> compilation;
};

Compilation::Compilation(std::unique_ptr<Work> work)
    : work_(std::move(work)), done_(false) {}
Compilation::Compilation(base::Result<CodePtr> result)
    : result_(std::move(result)), done_(true) {}
Compilation::~Compilation() = default;

base::Result<CodePtr> Compilation::Wait() {
  RunIfQueued();
  const base::MutexLock lock(mutex_);
  while (!done()) changed_.Wait(mutex_);
  return result_;
}

std::unique_ptr<Compilation::Work> Compilation::TakeWork() {
  const base::MutexLock lock(mutex_);
  return std::move(work_);
}

void Compilation::RunIfQueued() {
  const std::unique_ptr<Work> work = TakeWork();
  if (work == nullptr) return;
  Publish(work->Run());
  work->Keep();
}

void Compilation::DropIfQueued() {
  const std::unique_ptr<Work> work = TakeWork();
  if (work == nullptr) return;
  Publish(tl::unexpected<base::Error>(work->Drop()));
}

void Compilation::Publish(base::Result<CodePtr> result) {
  std::vector<base::Task> next;
  {
    const base::MutexLock lock(mutex_);
    result_ = std::move(result);
    // Releases what was written before to whoever reads true without the lock.
    done_.store(true, std::memory_order_release);
    changed_.NotifyAll();
    next.swap(next_);
  }
  for (const base::Task& task : next) task();
}

void Compilation::Then(base::Task task) {
  {
    const base::MutexLock lock(mutex_);
    if (!done()) {
      next_.push_back(std::move(task));
      return;
    }
  }
  task();
}

Compiler::Compiler(base::TaskRunner& runner, CompilerOptions options)
    : runner_(runner), core_(std::make_shared<Core>(std::move(options))) {}

Compiler::~Compiler() = default;

std::shared_ptr<Compilation> Compiler::Compile(KernelSource source) {
  base::Result<CompileRequest> request =
      core_->identity().and_then([&](const std::string& identity) {
        return MakeCompileRequest(identity, std::move(source), core_->files());
      });
  if (!request) {
    return std::shared_ptr<Compilation>(new Compilation(base::Result<CodePtr>(
        tl::unexpected<base::Error>(std::move(request).error()))));
  }
  const std::optional<cache::Signature> key = request->key;
  const auto make = [&] {
    return std::shared_ptr<Compilation>(new Compilation(
        std::make_unique<Compilation::Work>(core_, *std::move(request))));
  };
  bool made = !key;
  const std::shared_ptr<Compilation> compilation =
      key ? core_->FindOrMake(*key, make, made) : make();
  if (made) {
    auto ticket = std::make_shared<Compilation::Ticket>(compilation);
    runner_.Post(
        [ticket = std::move(ticket)] { ticket->compilation->RunIfQueued(); });
  }
  return compilation;
}

Compiler::Stats Compiler::stats() const { return core_->stats(); }

}  // namespace reprise::kernels
