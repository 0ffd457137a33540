// Whether memory that recorded work names, and that is no value of its trace,
// is still what it was: a library's workspace, a cache of the program's.

#ifndef REPRISE_ENGINE_TRACE_MEMORY_WATCH_H_
#define REPRISE_ENGINE_TRACE_MEMORY_WATCH_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "engine/base/mutex.h"

namespace reprise::engine {

// Addresses as a set of disjoint half-open ranges. Thread-compatible.
class AddressSet {
 public:
  void Insert(uint64_t begin, uint64_t end);
  void Erase(uint64_t begin, uint64_t end);
  bool Contains(uint64_t address) const;

 private:
  std::map<uint64_t, uint64_t> ranges_;  // begin -> end
};

class MemoryWatches;

// What has been freed since the watch began, of what was in use then:
//
//   of everything ─Narrow─► of some blocks: broken() once one has been freed
//
// A recording begins a watch and a plan that is built of it keeps the watch,
// narrowed to what its launches name. Made by MemoryWatches, which outlives it.
// Thread-safe.
class MemoryWatch {
 public:
  ~MemoryWatch();
  MemoryWatch(const MemoryWatch&) = delete;
  MemoryWatch& operator=(const MemoryWatch&) = delete;

  // From now on only the blocks that these addresses lie in count. An address
  // in memory that was not in use when the watch began is none that a kernel
  // follows, and does not count either. The first call of several decides.
  void Narrow(std::span<const uint64_t> addresses);

  // It lay in memory that was in use when the watch began, or has been freed
  // since; before Narrow.
  bool Knows(uint64_t address) const;

  // A block that counts has been freed, maybe before Narrow. Never blocks.
  // Acquire: who sees it also sees what the thread that freed it did before.
  bool broken() const { return broken_.load(std::memory_order_acquire); }

 private:
  friend class MemoryWatches;
  explicit MemoryWatch(MemoryWatches* watches) : watches_(watches) {}

  MemoryWatches* const watches_;
  // Under the mutex of `watches_`.
  bool narrowed_ = false;
  AddressSet in_use_;  // at the beginning, and
  AddressSet freed_;   // since; until narrowed
  std::vector<uint64_t> addresses_;
  std::atomic<bool> broken_{false};
};

// All watches of one allocator, which tells what is freed. What is freed costs
// a load while there is no watch, and a look into a map of the addresses that
// are watched, under a mutex, while there are narrowed ones only. Thread-safe.
// The mutex is taken under the allocator's own lock; nothing is called under
// it.
class MemoryWatches {
 public:
  MemoryWatches() = default;
  MemoryWatches(const MemoryWatches&) = delete;
  MemoryWatches& operator=(const MemoryWatches&) = delete;

  struct Block {
    uint64_t address;
    uint64_t size_bytes;
  };
  // `in_use` lists all blocks that are in use; it is called without a lock
  // held, when what is freed is being noted already.
  std::shared_ptr<MemoryWatch> Begin(
      const std::function<std::vector<Block>()>& in_use)
      REPRISE_EXCLUDES(mutex_);

  void Freed(uint64_t address, uint64_t size_bytes) {
    // Relaxed: a watch that begins at the same time need not know.
    if (watching_.load(std::memory_order_relaxed) != 0) [[unlikely]]
      NoteFreed(address, size_bytes);
  }

 private:
  friend class MemoryWatch;
  void NoteFreed(uint64_t address, uint64_t size_bytes)
      REPRISE_EXCLUDES(mutex_);
  void Narrow(MemoryWatch& watch, std::span<const uint64_t> addresses)
      REPRISE_EXCLUDES(mutex_);
  bool Knows(const MemoryWatch& watch, uint64_t address)
      REPRISE_EXCLUDES(mutex_);
  void End(MemoryWatch& watch) REPRISE_EXCLUDES(mutex_);
  void Forget(MemoryWatch& watch) REPRISE_REQUIRES(mutex_);

  std::atomic<size_t> watching_{0};
  base::Mutex mutex_;
  std::vector<MemoryWatch*> wide_ REPRISE_GUARDED_BY(mutex_);
  std::multimap<uint64_t, MemoryWatch*> narrow_ REPRISE_GUARDED_BY(mutex_);
};

}  // namespace reprise::engine

#endif  // REPRISE_ENGINE_TRACE_MEMORY_WATCH_H_
