// Whether anybody watches, and since when: what hooks test before each op.

#ifndef REPRISE_BINDINGS_TORCH_RUNTIME_RUNTIME_EPOCH_H_
#define REPRISE_BINDINGS_TORCH_RUNTIME_RUNTIME_EPOCH_H_

#include <atomic>
#include <cstdint>

#include "scheduler/skipping.h"

namespace reprise::bindings {

// Nobody watches: hooks test this first and do nothing else while it is on. An
// op that races with enable or disable may be seen or not.
extern scheduler::Skipping g_unwatched;

// Changes whenever another runtime becomes active, or none, so that a Session*
// which a thread has cached beside this number may be used while they are
// equal. Such a pointer never dangles: sessions live for the whole process. It
// also changes when operators or kernels are registered: whoever finds it
// changed looks at them first (ThreadState::Refresh).
extern std::atomic<uint64_t> g_runtime_epoch;

// Counts how often another runtime has become active, or none, and nothing
// else. The epoch changes with it, and behind it.
extern std::atomic<uint64_t> g_activations;

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_RUNTIME_RUNTIME_EPOCH_H_
