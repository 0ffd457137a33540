#include "bindings/torch/runtime/private_pool.h"

#include <ATen/cuda/MemPool.h>
#include <c10/core/AllocatorConfig.h>
#include <c10/core/DeviceGuard.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <exception>
#include <new>
#include <string>
#include <utility>

#include "bindings/torch/runtime/thread_state.h"

namespace reprise::bindings {
namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;
using Config = c10::CachingAllocator::AcceleratorAllocatorConfig;

// Released pools whose cached memory is left to be; giving it back costs a
// synchronisation of the device, so the oldest goes first, at a recording.
constexpr size_t kCachedPools = 8;
// A pool leaves this share of the device free: with less, its allocations
// would make plans give way to the recording of others.
constexpr size_t kFreeShare = 16;
// Torch gives larger blocks a segment of their own, and others one of a fixed
// size (CUDACachingAllocator.h: kMinLargeAlloc, kLargeBuffer).
constexpr uint64_t kOwnSegment = 10 << 20;
constexpr uint64_t kSharedSegment = 20 << 20;
// From so many segments on larger ones are taken.
constexpr uint64_t kSegmentsAtOnce = 2;
constexpr uint64_t kAtOnce = 128 << 20;
// Of the large places that are taken so that a pool lies elsewhere. They stay
// with torch's cache.
constexpr uint64_t kMostOfPlaces = 64 << 20;

constinit thread_local bool t_own_allocation = false;
constinit thread_local bool t_taking_at_once = false;

// A flag of this thread is raised while one lives.
class Raised {
 public:
  explicit Raised(bool& flag) : flag_(flag) { flag_ = true; }
  ~Raised() { flag_ = false; }
  Raised(const Raised&) = delete;
  Raised& operator=(const Raised&) = delete;

 private:
  bool& flag_;
};

// Throws what torch throws.
engine::Block Take(size_t size_bytes, cudaStream_t stream) {
  allocator::CUDAAllocator* const torch = allocator::get();
  void* const memory = torch->raw_alloc_with_stream(size_bytes, stream);
  return engine::Block(reinterpret_cast<uint64_t>(memory), memory,
                       torch->raw_deleter());
}

// The device has so much free, of what the program lets torch take, that a pass
// of so many bytes may be recorded.
bool HasRoom(c10::DeviceIndex device, uint64_t bytes) {
  const auto [free_bytes, total_bytes] =
      allocator::get()->getMemoryInfo(device);
  const auto allowed = static_cast<uint64_t>(
      allocator::getMemoryFraction(device) * static_cast<double>(total_bytes));
  const auto reserved = static_cast<uint64_t>(
      allocator::getDeviceStats(device).reserved_bytes[0].current);
  const uint64_t needed = bytes + bytes / 4;
  return free_bytes >= needed + total_bytes / kFreeShare &&
         allowed >= reserved + needed + allowed / kFreeShare;
}

// What torch threw, as a value.
base::Error ErrorOf(const std::exception& error) {
  const bool exhausted =
      dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr ||
      dynamic_cast<const std::bad_alloc*>(&error) != nullptr;
  const std::string text = error.what();
  return base::Error(
      exhausted ? base::Code::kResourceExhausted : base::Code::kInternal,
      text.substr(0, text.find('\n')));
}

}  // namespace

bool AllocatingForReprise() { return t_own_allocation || t_taking_at_once; }

base::Result<engine::Block> AllocateFromTorch(c10::DeviceIndex device,
                                              cudaStream_t stream,
                                              size_t size_bytes) {
  const Raised own(t_own_allocation);
  const DepthGuard no_hooks;
  try {
    const c10::DeviceGuard guard({c10::DeviceType::CUDA, device});
    return Take(std::max<size_t>(size_bytes, 1), stream);
  } catch (const std::exception& error) {
    return tl::unexpected(ErrorOf(error));
  }
}

base::Status PrivatePool::Open(uint64_t bytes) {
  if (open_) {
    return base::Fail(base::Code::kFailedPrecondition,
                      "a private pool is open on this stream already");
  }
  const DepthGuard no_hooks;
  try {
    const c10::DeviceGuard guard({c10::DeviceType::CUDA, device_});
    TakeFreedPlaces(bytes);
    if (!MakeRoom(bytes)) {
      spacers_.clear();  // until it is tried again
      return base::Fail(base::Code::kResourceExhausted,
                        "device " + std::to_string(device_) +
                            " has too little free to record a pass of " +
                            std::to_string(bytes >> 20) +
                            " MiB in memory of its own");
    }
    pool_ = at::cuda::MemPool::graph_pool_handle(/*is_user_created=*/false);
    allocator::beginAllocateToPool(
        device_, pool_, [stream = stream_](cudaStream_t allocating) {
          return allocating == stream && !t_own_allocation;
        });
    open_ = true;
    TakeAtOnce(bytes);
    return {};
  } catch (const std::exception& error) {
    spacers_.clear();
    Close();
    return tl::unexpected(ErrorOf(error));
  }
}

void PrivatePool::Close() {
  if (!open_) return;
  open_ = false;
  spacers_.clear();
  segments_freed_ = trace_->segments_freed();
  try {
    allocator::endAllocateToPool(device_, pool_);
    allocator::releasePool(device_, pool_);
    released_.push_back(pool_);
  } catch (const std::exception&) {
    // Torch no longer knows the pool: there is nothing left to end.
  }
}

// While a pool is open torch gives no cached memory back to the device, whoever
// asks for memory (CUDACachingAllocator.cpp: not while captures are under way).
// So there must be enough: for the pass, with what the allocator rounds up, and
// for all others. Old pools go as far as that takes; false if that is not
// enough.
bool PrivatePool::MakeRoom(uint64_t bytes) {
  for (;;) {
    const bool roomy = HasRoom(device_, bytes);
    if (released_.empty() || (roomy && released_.size() <= kCachedPools)) {
      return roomy;
    }
    const c10::MempoolId_t oldest = released_.front();
    released_.pop_front();
    trace_->FreeOurs([&oldest] { allocator::emptyCache(oldest); });
  }
}

// Torch asks the device for each segment by itself, at 0.3 ms: a training step
// that is recorded takes a hundred of them. Where a pass takes many, larger
// ones are taken, and given back to the pool at once, which cuts them into
// pieces. Not a single one: while a piece lives, its segment is lost to all but
// the pool. Small blocks have segments of their own.
void PrivatePool::TakeAtOnce(uint64_t bytes) {
  if (bytes < kSegmentsAtOnce * kSharedSegment) return;
  // It is no shortage of the program's if there is too little.
  const Raised taking(t_taking_at_once);
  std::vector<engine::Block> blocks;
  while (bytes >= kSharedSegment) {
    const uint64_t size = std::min(bytes, kAtOnce);
    if (size >= Config::max_split_size()) return;  // it would stay whole
    blocks.push_back(Take(size, stream_));
    bytes -= size;
  }
}

// Where memory has gone back to the device, the pool's might come to lie where
// that of the first recording lay. So the first segment of each size that torch
// takes for small blocks, and of each that has gone back, is taken before it is
// opened, until it is closed. Of large ones this is for a library's workspace:
// after others the trace is recorded once more.
void PrivatePool::TakeFreedPlaces(uint64_t bytes) {
  if (trace_->segments_freed() == segments_freed_) return;
  const auto take = [this](uint64_t size_bytes) {
    if (auto spacer = AllocateFromTorch(device_, stream_, size_bytes)) {
      spacers_.push_back(*std::move(spacer));
    }
  };
  take(uint64_t{1} << 20);
  take(uint64_t{8} << 20);
  uint64_t taken = 0;
  for (const uint64_t size : trace_->SizesFreedSince(segments_freed_)) {
    if (size < kOwnSegment || size == kSharedSegment) continue;
    taken += size;
    if (taken > kMostOfPlaces || !HasRoom(device_, bytes + size)) break;
    take(size);
  }
}

}  // namespace reprise::bindings
