// When libraries free their own kernels and memory: cuFFT's plans own modules.

#ifndef REPRISE_ENGINE_TRACE_LIBRARY_FREES_H_
#define REPRISE_ENGINE_TRACE_LIBRARY_FREES_H_

#include <atomic>
#include <cstdint>
#include <shared_mutex>

namespace reprise::engine {

// A library that frees kernels says neither which nor to whom, and a graph that
// is given one afterwards is undefined. So whoever sees the call frames it in
// two steps, with all passes ended in between, and recorded work that came from
// before is outdated:
//
//   Announce() ─► passes are interrupted ─► Freeing lives: the call runs
//
// Thread-safe.
class LibraryFrees {
 public:
  LibraryFrees() = default;
  LibraryFrees(const LibraryFrees&) = delete;
  LibraryFrees& operator=(const LibraryFrees&) = delete;

  // How often something has been freed until a moment. It outlives its
  // LibraryFrees nowhere.
  class Seen {
   public:
    Seen() = default;  // of nothing that is ever freed
    // Something has been freed since, or is about to be.
    // Acquire: what the thread that freed it did before is seen, too.
    bool outdated() const {
      return frees_ != nullptr &&
             frees_->count_.load(std::memory_order_acquire) != count_;
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

  // Nothing is freed while one lives, so what is not outdated then stays so but
  // for Announce. Waits for what is being freed.
  using Kept = std::shared_lock<std::shared_mutex>;
  Kept Keep() { return Kept(mutex_); }

  // From now on nothing from before may be launched or built.
  void Announce() { count_.fetch_add(1, std::memory_order_release); }

  // Around the call. Waits for builds (Keep), so its thread holds no lock that
  // one of these may want.
  class Freeing {
   public:
    explicit Freeing(LibraryFrees& frees) : frees_(frees) {
      frees_.mutex_.lock();
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
  std::shared_mutex mutex_;
};

}  // namespace reprise::engine

#endif  // REPRISE_ENGINE_TRACE_LIBRARY_FREES_H_
