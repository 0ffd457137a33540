#include "engine/layout.h"

#include <algorithm>
#include <string>

namespace reprise::engine {
ArenaLayout LayOut(const Trace& trace, std::span<const uint64_t> place_bytes) {
  ArenaLayout layout;
  layout.places.reserve(trace.values.size());
  uint64_t end = 0;
  size_t next_place = 0;
  const auto take = [&] {
    return PlaceBytes(std::max<uint64_t>(place_bytes[next_place++], 1));
  };
  for (const Value& value : trace.values) {
    const uint64_t bytes = take();
    if (value.external) {
      layout.places.push_back(kNoPlace);
      continue;
    }
    layout.places.push_back(end);
    end += bytes;
  }
  const uint64_t zone = end;
  layout.temporaries.reserve(trace.ops.size());
  for (const TracedOp& op : trace.ops) {
    uint64_t next = zone;
    std::vector<uint64_t>& offsets = layout.temporaries.emplace_back();
    for (size_t t = 0; t < op.temporaries.size(); ++t) {
      offsets.push_back(next);
      next += take();
    }
    end = std::max(end, next);
  }
  layout.size_bytes = end;
  return layout;
}

base::Error TooLarge(uint64_t size_bytes, uint64_t max_arena_bytes) {
  return base::Error(base::Code::kFailedPrecondition,
                     "its arena would take " + std::to_string(size_bytes) +
                         " bytes, more than max_arena_bytes=" +
                         std::to_string(max_arena_bytes));
}

}  // namespace reprise::engine
