// Torch's cache of cuFFT's plans, each of which owns the kernels of its
// transforms and memory that they read.

#ifndef REPRISE_BINDINGS_TORCH_BASE_CUFFT_PLANS_H_
#define REPRISE_BINDINGS_TORCH_BASE_CUFFT_PLANS_H_

#include <string_view>

#include "engine/trace/library_frees.h"

namespace reprise::bindings {

// Told by whoever clears the cache (python_observers.cc) and by ops that find
// it full. The process's; any thread.
engine::LibraryFrees& CufftFrees();

// The operator of that name may launch cuFFT's kernels: torch's transforms, and
// all operators that are not torch's.
bool MayUseCufft(std::string_view name);

// Hardly another plan fits into the device's cache: soon an op that makes one
// frees another one, or its own. When that begins, all that was recorded before
// is outdated. Costs a lock.
bool CufftCacheIsFull(int device);

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_BASE_CUFFT_PLANS_H_
