// When libraries free their own kernels and memory: cuFFT's plans own modules.

#ifndef REPRISE_ENGINE_TRACE_LIBRARY_FREES_H_
#define REPRISE_ENGINE_TRACE_LIBRARY_FREES_H_

#include <atomic>
#include <cstdint>
#include <shared_mutex>

#include "engine/base/status.h"

namespace reprise::engine {

// A library that frees kernels says neither which nor to whom, and a graph that
// is given one afterwards is undefined. So whoever sees the call makes a
// Freeing: from then on all that was recorded before is outdated, and graphs
// that are being made are done (Seen::Keep). He ends the passes that are under
// way, and lets the call run while the Freeing lives. Thread-safe.
class LibraryFrees {
 public:
  LibraryFrees() = default;
  LibraryFrees(const LibraryFrees&) = delete;
  LibraryFrees& operator=(const LibraryFrees&) = delete;

  static constexpr char kFreed[] =
      "a library has freed kernels that were recorded";

  // Nothing is freed while one lives.
  using Kept = std::shared_lock<std::shared_mutex>;

  // How often something has been freed until a moment. Its LibraryFrees
  // outlives it.
  class Seen {
   public:
    Seen() = default;  // of nothing that is ever freed
    // Something has been freed since, or is about to be.
    // Acquire: what the thread that freed it did before is seen, too.
    bool outdated() const {
      return frees_ != nullptr &&
             frees_->count_.load(std::memory_order_acquire) != count_;
    }
    // Something may ever be freed of it.
    bool may_end() const { return frees_ != nullptr; }
    // Around the making of a graph. Waits for what is being freed; kUnavailable
    // where it is outdated.
    base::Result<Kept> Keep() const {
      Kept kept = frees_ == nullptr ? Kept() : Kept(frees_->mutex_);
      if (outdated()) return base::Fail(base::Code::kUnavailable, kFreed);
      return kept;
    }
    bool operator==(const Seen&) const = default;

   private:
    friend class LibraryFrees;
    Seen(const LibraryFrees* frees, uint64_t count)
        : frees_(frees), count_(count) {}

    const LibraryFrees* frees_ = nullptr;
    uint64_t count_ = 0;
  };
  Seen Look() const { return {this, count_.load(std::memory_order_acquire)}; }

  // All from before is outdated.
  void Announce() { count_.fetch_add(1, std::memory_order_release); }

  // Around the call. Waits for all that keep, so its thread holds no lock that
  // one of these may want.
  class Freeing {
   public:
    explicit Freeing(LibraryFrees& frees) : frees_(frees) {
      frees_.mutex_.lock();
      frees_.Announce();
    }
    // What was recorded meanwhile may be from before.
    ~Freeing() {
      frees_.Announce();
      frees_.mutex_.unlock();
    }
    Freeing(const Freeing&) = delete;
    Freeing& operator=(const Freeing&) = delete;

   private:
    LibraryFrees& frees_;
  };

 private:
  std::atomic<uint64_t> count_{0};
  mutable std::shared_mutex mutex_;
};

}  // namespace reprise::engine

#endif  // REPRISE_ENGINE_TRACE_LIBRARY_FREES_H_
