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

std::optional<uint32_t> HalfWay(const Trace& trace,
                                std::span<const uint64_t> place_bytes) {
  std::vector<uint64_t> made(trace.ops.size(), 0);  // by op
  uint64_t all = 0;
  for (size_t v = 0; v < trace.values.size(); ++v) {
    if (trace.values[v].external) continue;
    made[trace.values[v].birth_op] += place_bytes[v];
    all += place_bytes[v];
  }
  uint64_t before = 0;
  for (uint32_t k = 0; k < made.size(); ++k) {
    if (k > 0 && before > 0 && before + made[k] > all / 2) return k;
    before += made[k];
  }
  return std::nullopt;
}

base::Error TooLarge(uint64_t size_bytes, uint64_t max_arena_bytes) {
  return base::Error(base::Code::kFailedPrecondition,
                     "its arena would take " + std::to_string(size_bytes) +
                         " bytes, more than max_arena_bytes=" +
                         std::to_string(max_arena_bytes));
}

}  // namespace reprise::engine
