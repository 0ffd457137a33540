#include "engine/mask_numbers.h"

#include <algorithm>
#include <optional>

namespace reprise::engine {
namespace {

// An op's slots are bits of a word.
constexpr size_t kMostSlots = 64;

}  // namespace

std::span<const uint64_t> MaskNumbers(const OpView& op,
                                      std::vector<uint64_t>& room) {
  bool masked = false;
  for (const Scalar& scalar :
       op.scalars.first(std::min(op.scalars.size(), kMostSlots))) {
    const std::optional<uint64_t> marker = Marker(scalar);
    if (!marker.has_value()) continue;
    if (!masked) room.assign(op.words.begin(), op.words.end());
    masked = true;
    room[scalar.word] = *marker;
  }
  return masked ? std::span<const uint64_t>(room) : op.words;
}

}  // namespace reprise::engine
