#include "bindings/native/suggest_block.h"

#include <algorithm>
#include <string>

namespace reprise::native {
namespace {

constexpr uint32_t kWarp = 32;

}  // namespace

Result<SuggestedBlock> SuggestBlock(const engine::Occupancy& occupancy,
                                    const engine::LaunchLimits& limits,
                                    engine::KernelCode& kernel,
                                    uint32_t shared_bytes) {
  engine::Node node;
  node.kernel = &kernel;
  node.shared_bytes = shared_bytes;
  REPRISE_RETURN_IF_ERROR(Admit(occupancy, limits, node));
  REPRISE_ASSIGN_OR_RETURN(const int most, occupancy.MostThreads(kernel));
  SuggestedBlock best;
  const auto largest =
      static_cast<uint32_t>(std::min(most, limits.threads)) / kWarp * kWarp;
  // Of equal ones the largest, as the driver's own search.
  for (uint32_t threads = largest; threads > 0; threads -= kWarp) {
    node.block = {threads};
    REPRISE_ASSIGN_OR_RETURN(const uint64_t blocks, occupancy.MostBlocks(node));
    if (blocks * threads <=
        uint64_t{best.threads} * best.blocks_per_multiprocessor) {
      continue;
    }
    best = {threads, static_cast<uint32_t>(blocks),
            static_cast<uint32_t>(blocks) *
                static_cast<uint32_t>(limits.multiprocessors)};
  }
  if (best.threads > 0) return best;
  return base::Fail(
      Code::kInvalidArgument,
      std::to_string(shared_bytes) +
          " bytes of dynamic shared memory, with which the device can "
          "hold no block of it");
}

}  // namespace reprise::native
