// What torch's CUDA caching allocator owns and hands out, as it tells its
// trackers.

#ifndef REPRISE_BINDINGS_TORCH_RUNTIME_ALLOCATOR_TRACE_H_
#define REPRISE_BINDINGS_TORCH_RUNTIME_ALLOCATOR_TRACE_H_

#include <c10/cuda/CUDACachingAllocator.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "engine/base/mutex.h"
#include "engine/base/status.h"
#include "engine/trace/frontend.h"
#include "engine/trace/memory_watch.h"

namespace reprise::bindings {

// The process's one tracker of the allocator. Attached by the first Get() and
// never detached, as torch has no way to. Thread-safe.
//
// The allocator calls it under its own lock, on the thread that allocates or
// frees: there it only appends to a vector of that thread, or, for the rare
// events that take memory from the device or give it back, changes the set of
// segments. It never calls torch. Lock order: the allocator's, then ours.
class AllocatorTrace {
 public:
  // kUnavailable, in one sentence, where the allocator in use is not torch's
  // native one: only that one tells. Initialises CUDA in torch.
  static base::Result<AllocatorTrace*> Get();

  // The address lies in a segment of the allocator, in use or cached.
  bool Owns(uint64_t address) const;

  // How often memory of any device has been given back to it.
  uint64_t segments_freed() const {
    return segments_freed_.load(std::memory_order_relaxed);
  }

  // Of the segments that were given back when so many had been: each size
  // once, in bytes. What lies further back than kSizesKept is forgotten.
  std::vector<uint64_t> SizesFreedSince(uint64_t segments_freed) const;

  // The same without what was freed by FreeOurs.
  uint64_t segments_returned() const {
    return segments_freed() - ours_freed_.load(std::memory_order_relaxed);
  }
  // `free` gives memory back that recordings took. What other threads give back
  // meanwhile is not told apart.
  template <typename Free>
  void FreeOurs(Free free) {
    const uint64_t before = segments_freed();
    free();
    ours_freed_.fetch_add(segments_freed() - before, std::memory_order_relaxed);
  }

  // Of blocks of any device.
  std::shared_ptr<engine::MemoryWatch> WatchMemory();

  // From Begin to the matching Take, allocations by this thread on any device
  // are noted, in order; an address that was freed and handed out again comes
  // twice. They nest, and the inner pair's are the inner pair's only.
  static void Begin();
  static std::vector<engine::Allocation> Take();
  // Ends what this thread has begun and not taken.
  static void Close();

 private:
  using Entry = c10::CachingDeviceAllocator::TraceEntry;

  static constexpr size_t kSizesKept = 64;

  AllocatorTrace() = default;

  base::Status Attach();
  void OnEntry(const Entry& entry);

  mutable base::Mutex mutex_;
  engine::AddressSet segments_ REPRISE_GUARDED_BY(mutex_);
  uint64_t segment_events_ REPRISE_GUARDED_BY(mutex_) = 0;
  // The newest last; pages of expandable segments, which keep their place, are
  // 0.
  std::deque<uint64_t> freed_sizes_ REPRISE_GUARDED_BY(mutex_);
  // Relaxed: they only count.
  std::atomic<uint64_t> segments_freed_{0};
  std::atomic<uint64_t> ours_freed_{0};
  engine::MemoryWatches watches_;
};

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_RUNTIME_ALLOCATOR_TRACE_H_
