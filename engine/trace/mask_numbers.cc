#include "engine/trace/mask_numbers.h"

#include <optional>

namespace reprise::engine {

std::span<const uint64_t> MaskNumbers(const OpView& op,
                                      std::vector<uint64_t>& room) {
  bool masked = false;
  for (const Scalar& scalar : op.scalars) {
    const std::optional<uint64_t> marker = Marker(scalar);
    if (!marker.has_value()) continue;
    if (!masked) room.assign(op.words.begin(), op.words.end());
    masked = true;
    room[scalar.word] = *marker;
  }
  return masked ? std::span<const uint64_t>(room) : op.words;
}

}  // namespace reprise::engine
