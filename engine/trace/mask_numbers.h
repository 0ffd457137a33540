// An op's words without the numbers that may change.

#ifndef REPRISE_ENGINE_TRACE_MASK_NUMBERS_H_
#define REPRISE_ENGINE_TRACE_MASK_NUMBERS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "engine/trace/op.h"

namespace reprise::engine {

// The op's words with a marker in place of each number that has one: in `room`,
// or the op's own where there is nothing to mask. Valid until either changes.
std::span<const uint64_t> MaskNumbers(const OpView& op,
                                      std::vector<uint64_t>& room);

}  // namespace reprise::engine

#endif  // REPRISE_ENGINE_TRACE_MASK_NUMBERS_H_
