#include "bindings/torch/runtime/out_of_memory.h"

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>

#include <exception>
#include <memory>
#include <string>

#include "bindings/torch/runtime/private_pool.h"
#include "engine/base/mutex.h"

namespace reprise::bindings {
namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;
using scheduler::Shortage;

constexpr char kName[] = "reprise";

// The allocator makes one for each question. The current device is the one that
// it allocates on.
class GiveWay final : public c10::FreeMemoryCallback {
 public:
  GiveWay(ReleaseMemory release, MemoryGoes goes)
      : release_(release), goes_(goes) {}

  bool Execute() override {
    try {
      const int device = c10::cuda::current_device();
      goes_(device);
      return !AllocatingForReprise() &&
             release_(device, Shortage::kPossible) > 0;
    } catch (const std::exception&) {
      return false;  // no device is current: nothing to give on it
    }
  }

 private:
  const ReleaseMemory release_;
  const MemoryGoes goes_;
};

}  // namespace

base::Status ReleaseWhenOutOfMemory(ReleaseMemory release, MemoryGoes goes) {
  static base::Mutex mutex;
  static bool registered = false;
  base::MutexLock lock(mutex);
  if (registered) return {};
  try {
    allocator::attachOutOfMemoryObserver(
        [release](int64_t device, size_t, size_t, size_t) {
          if (AllocatingForReprise()) return;
          (void)release(static_cast<int>(device), Shortage::kCertain);
        });
    allocator::attachAllocatorTraceTracker(
        [goes](const allocator::TraceEntry& entry) {
          if (entry.action_ == allocator::TraceEntry::SEGMENT_FREE) {
            goes(entry.device_);
          }
        });
    c10::FreeCudaMemoryCallbacksRegistry()->Register(kName, [release, goes] {
      return std::make_unique<GiveWay>(release, goes);
    });
  } catch (const std::exception& error) {
    const std::string text = error.what();
    return base::Fail(base::Code::kUnavailable,
                      "torch's CUDA allocator takes no callbacks: " +
                          text.substr(0, text.find('\n')));
  }
  registered = true;
  return {};
}

}  // namespace reprise::bindings
