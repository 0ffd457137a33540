// Which block fills a device.

#ifndef REPRISE_BINDINGS_NATIVE_SUGGEST_BLOCK_H_
#define REPRISE_BINDINGS_NATIVE_SUGGEST_BLOCK_H_

#include <cstdint>

#include "bindings/native/common.h"
#include "bindings/native/device_info.h"
#include "engine/batch/kernel_code.h"
#include "engine/batch/launch_limits.h"

namespace reprise::native {

// For a kernel that is ready, with so much dynamic shared memory a block.
// kInvalidArgument, with a sentence, where it is too much.
Result<SuggestedBlock> SuggestBlock(const engine::Occupancy& occupancy,
                                    const engine::LaunchLimits& limits,
                                    engine::KernelCode& kernel,
                                    uint32_t shared_bytes);

}  // namespace reprise::native

#endif  // REPRISE_BINDINGS_NATIVE_SUGGEST_BLOCK_H_
