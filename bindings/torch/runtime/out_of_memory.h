// Plans give way where torch's CUDA allocator runs out of memory, and passes
// end where it gives memory back to the device.

#ifndef REPRISE_BINDINGS_TORCH_RUNTIME_OUT_OF_MEMORY_H_
#define REPRISE_BINDINGS_TORCH_RUNTIME_OUT_OF_MEMORY_H_

#include <cstdint>

#include "engine/base/status.h"
#include "scheduler/runtime.h"

namespace reprise::bindings {

// Gives back what plans hold on a device and returns how many bytes: see
// scheduler::Runtime::ReleaseMemory, whose promises it must keep.
using ReleaseMemory = uint64_t (*)(int device, scheduler::Shortage shortage);

// Cached memory of a device may be about to go back to it: see
// scheduler::Runtime::BeforeMemoryGoes, whose promises it must keep.
using MemoryGoes = void (*)(int device);

// From the first call on, which sets both for good, torch's allocator
//
//   - tells `goes` before it gives a segment of its cache back to the device,
//     and whenever it has cached nothing that fits and may do so next;
//   - in that case asks `release`, kPossible, on the thread that allocates and
//     under its own lock; it looks into its cache again if something was
//     released;
//   - asks `release`, kCertain, when an allocation has failed, before it raises
//     OutOfMemoryError: too late for this one, but not for the program's next
//     try.
//
// Nothing is released for allocations of Reprise's own. Torch knows no way to
// end it. Thread-safe; call it before other threads allocate, because torch
// reads its list of callbacks without a lock. kUnavailable where torch refuses.
base::Status ReleaseWhenOutOfMemory(ReleaseMemory release, MemoryGoes goes);

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_RUNTIME_OUT_OF_MEMORY_H_
