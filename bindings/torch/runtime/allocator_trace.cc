#include "bindings/torch/runtime/allocator_trace.h"

#include <ATen/Context.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <string>
#include <utility>

#include "bindings/torch/runtime/thread_state.h"

namespace reprise::bindings {
namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;

// What each Begin of this thread has noted; kept beyond Take for its memory.
// How many are open is looked at on every allocation of the process, so it
// stands where nothing is constructed.
thread_local std::vector<std::vector<engine::Allocation>> t_notes;

constexpr size_t kAllocationsAnOp = 32;  // beyond it a vector grows

// Null: there is none yet. Leaked, as torch calls it for ever.
constinit std::atomic<AllocatorTrace*> g_attached{nullptr};

}  // namespace

base::Result<AllocatorTrace*> AllocatorTrace::Get() {
  static base::Mutex mutex;
  base::MutexLock lock(mutex);
  if (g_attached.load(std::memory_order_relaxed) == nullptr) {
    auto* trace = new AllocatorTrace;
    REPRISE_RETURN_IF_ERROR(
        trace->Attach());  // it may be attached: never freed
    g_attached.store(trace, std::memory_order_release);
  }
  return g_attached.load(std::memory_order_relaxed);
}

base::Status AllocatorTrace::Attach() {
  try {
    at::globalContext().lazyInitDevice(c10::DeviceType::CUDA);
    const std::string name = allocator::name();
    if (name != "native") {
      return base::Fail(base::Code::kUnavailable,
                        "recording needs torch's native CUDA allocator, and '" +
                            name + "' is in use");
    }
    if (std::getenv("PYTORCH_NO_CUDA_MEMORY_CACHING") != nullptr) {
      return base::Fail(
          base::Code::kUnavailable,
          "recording needs torch's CUDA allocator to cache: unset "
          "PYTORCH_NO_CUDA_MEMORY_CACHING");
    }
    allocator::attachAllocatorTraceTracker(
        [this](const Entry& entry) { OnEntry(entry); });
    // What was there before. A segment that comes or goes while the snapshot is
    // taken makes it stale, so it is taken again.
    for (;;) {
      uint64_t events;
      {
        base::MutexLock lock(mutex_);
        events = segment_events_;
      }
      const auto snapshot =
          allocator::snapshot({0, 0}, /*include_traces=*/false);
      base::MutexLock lock(mutex_);
      if (events != segment_events_) continue;
      for (const auto& segment : snapshot.segments) {
        segments_.Insert(segment.address, segment.address + segment.total_size);
      }
      return {};
    }
  } catch (const std::exception& error) {
    const std::string text = error.what();
    return base::Fail(
        base::Code::kUnavailable,
        "torch cannot use CUDA here: " + text.substr(0, text.find('\n')));
  }
}

void AllocatorTrace::OnEntry(const Entry& entry) {
  switch (entry.action_) {
    case Entry::ALLOC:
      if (const size_t open = t_thread_state.open_notes; open > 0) {
        t_notes[open - 1].push_back({entry.addr_, entry.size_});
      }
      return;
    case Entry::FREE_REQUESTED:
      watches_.Freed(entry.addr_, entry.size_);
      return;
    case Entry::SEGMENT_ALLOC:
    case Entry::SEGMENT_MAP: {
      base::MutexLock lock(mutex_);
      ++segment_events_;
      segments_.Insert(entry.addr_, entry.addr_ + entry.size_);
      return;
    }
    case Entry::SEGMENT_FREE:
    case Entry::SEGMENT_UNMAP: {
      base::MutexLock lock(mutex_);
      ++segment_events_;
      segments_.Erase(entry.addr_, entry.addr_ + entry.size_);
      freed_sizes_.push_back(entry.action_ == Entry::SEGMENT_FREE ? entry.size_
                                                                  : 0);
      if (freed_sizes_.size() > kSizesKept) freed_sizes_.pop_front();
      segments_freed_.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    default:
      return;
  }
}

bool AllocatorTrace::Owns(uint64_t address) const {
  base::MutexLock lock(mutex_);
  return segments_.Contains(address);
}

std::vector<uint64_t> AllocatorTrace::SizesFreedSince(
    uint64_t segments_freed) const {
  base::MutexLock lock(mutex_);
  const size_t kept = std::min<uint64_t>(
      this->segments_freed() - segments_freed, freed_sizes_.size());
  const std::set<uint64_t> sizes(freed_sizes_.end() - kept, freed_sizes_.end());
  return {sizes.upper_bound(0), sizes.end()};
}

std::shared_ptr<engine::MemoryWatch> AllocatorTrace::WatchMemory() {
  return watches_.Begin([] {
    std::vector<engine::MemoryWatches::Block> blocks;
    const auto snapshot = allocator::snapshot({0, 0}, /*include_traces=*/false);
    for (const auto& segment : snapshot.segments) {
      uint64_t address = segment.address;
      for (const auto& block : segment.blocks) {
        if (block.allocated) blocks.push_back({address, block.size});
        address += block.size;
      }
    }
    return blocks;
  });
}

void AllocatorTrace::Begin() {
  size_t& open = t_thread_state.open_notes;
  if (t_notes.size() == open) t_notes.emplace_back().reserve(kAllocationsAnOp);
  t_notes[open].clear();
  ++open;
}

std::vector<engine::Allocation> AllocatorTrace::Take() {
  size_t& open = t_thread_state.open_notes;
  if (open == 0) return {};
  return t_notes[--open];
}

void AllocatorTrace::Close() { t_thread_state.open_notes = 0; }

}  // namespace reprise::bindings
