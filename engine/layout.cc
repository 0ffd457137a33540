#include "engine/layout.h"

#include <algorithm>
#include <string>

namespace reprise::engine {
ArenaLayout LayOut(const Trace& trace) {
  ArenaLayout layout;
  layout.places.reserve(trace.values.size());
  uint64_t end = 0;
  for (const Value& value : trace.values) {
    if (value.external) {
      layout.places.push_back(kNoPlace);
      continue;
    }
    layout.places.push_back(end);
    end += PlaceBytes(std::max<uint64_t>(value.size_bytes, 1));
  }
  const uint64_t zone = end;
  layout.temporaries.reserve(trace.ops.size());
  for (const TracedOp& op : trace.ops) {
    uint64_t next = zone;
    std::vector<uint64_t>& offsets = layout.temporaries.emplace_back();
    for (const Allocation& temporary : op.temporaries) {
      offsets.push_back(next);
      next += PlaceBytes(std::max<uint64_t>(temporary.size_bytes, 1));
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
