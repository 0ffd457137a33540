// Functions of the host in the place of kernels.

#ifndef REPRISE_ENGINE_BATCH_HOST_FUNCTION_H_
#define REPRISE_ENGINE_BATCH_HOST_FUNCTION_H_

#include <cstddef>
#include <functional>

#include "engine/batch/launch_config.h"

namespace reprise::engine {

// Takes the image of the kernel's parameters.
using HostFunction =
    std::function<void(const LaunchConfig&, const std::byte* image)>;

}  // namespace reprise::engine

#endif  // REPRISE_ENGINE_BATCH_HOST_FUNCTION_H_
