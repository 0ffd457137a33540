#include "bindings/torch/runtime/runtime_epoch.h"

namespace reprise::bindings {

constinit scheduler::Skipping g_unwatched(/*on=*/true);
constinit std::atomic<uint64_t> g_runtime_epoch{0};
constinit std::atomic<uint64_t> g_activations{0};

}  // namespace reprise::bindings
