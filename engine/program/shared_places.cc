#include "engine/program/shared_places.h"

#include <algorithm>

namespace reprise::engine {

SharedPlaces::SharedPlaces(const Trace& trace,
                           std::span<const Segment> segments,
                           std::span<const ValueId> outputs,
                           std::span<const uint64_t> places,
                           std::span<const uint64_t> place_bytes)
    : neighbours_(trace.values.size()), followers_(segments.size()) {
  std::vector<ValueId> by_place(outputs.begin(), outputs.end());
  std::ranges::sort(by_place, {}, [&](ValueId v) { return places[v]; });
  for (size_t i = 0; i < by_place.size(); ++i) {
    const ValueId v = by_place[i];
    const uint64_t end = places[v] + place_bytes[v];
    for (size_t j = i + 1; j < by_place.size() && places[by_place[j]] < end;
         ++j) {
      neighbours_[v].push_back(by_place[j]);
      neighbours_[by_place[j]].push_back(v);
    }
  }
  size_t s = 0;
  for (ValueId v = 0; v < neighbours_.size(); ++v) {
    if (neighbours_[v].empty()) continue;
    std::ranges::sort(neighbours_[v]);
    while (segments[s].end_op <= trace.values[v].birth_op) ++s;
    if (neighbours_[v].front() < v) followers_[s].push_back(v);
  }
}

}  // namespace reprise::engine
