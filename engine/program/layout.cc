#include "engine/program/layout.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>

namespace reprise::engine {
namespace {

// The memory of values, which follow each other.
class Places {
 public:
  // The place of a value that is launched then, and which nothing needs from
  // `free_from` on.
  uint64_t Take(uint64_t bytes, uint32_t launched_at, uint32_t free_from) {
    const uint64_t place = Find(bytes, launched_at);
    Occupy(place, place + bytes, free_from);
    end_ = std::max(end_, place + bytes);
    return place;
  }
  uint64_t end() const { return end_; }

 private:
  struct Range {
    uint64_t end;
    uint32_t free_from;
  };

  // The smallest gap that is free by then, or what lies behind all.
  uint64_t Find(uint64_t bytes, uint32_t launched_at) const {
    uint64_t best = kNoPlace;
    uint64_t best_bytes = kNoPlace;
    uint64_t begin = 0;
    uint64_t reach = 0;  // what is free reaches from `begin` to here
    const auto consider = [&] {
      if (reach - begin < bytes || reach - begin >= best_bytes) return;
      best = begin;
      best_bytes = reach - begin;
    };
    for (const auto& [at, range] : ranges_) {
      if (range.free_from <= launched_at) {
        reach = range.end;
        continue;
      }
      consider();
      begin = reach = range.end;
    }
    consider();
    // The last gap grows.
    return best == kNoPlace ? begin : best;
  }

  // What it takes of others is no more theirs: all that they were is free.
  void Occupy(uint64_t begin, uint64_t end, uint32_t free_from) {
    auto range = ranges_.upper_bound(begin);
    if (range != ranges_.begin()) --range;
    while (range != ranges_.end() && range->first < end) {
      const uint64_t at = range->first;
      const Range old = range->second;
      if (old.end <= begin) {
        ++range;
        continue;
      }
      range = ranges_.erase(range);
      if (at < begin) ranges_.insert({at, {begin, old.free_from}});
      if (old.end > end) ranges_.insert({end, {old.end, old.free_from}});
    }
    ranges_.insert({begin, {end, free_from}});
  }

  std::map<uint64_t, Range> ranges_;  // by their beginning, without gaps
  uint64_t end_ = 0;
};

}  // namespace

ArenaLayout LayOut(const Trace& trace, std::span<const uint64_t> place_bytes,
                   const Lifetimes& lifetimes) {
  ArenaLayout layout;
  layout.places.reserve(trace.values.size());
  size_t next_place = 0;
  const auto take = [&] {
    return PlaceBytes(std::max<uint64_t>(place_bytes[next_place++], 1));
  };
  Places places;
  for (size_t v = 0; v < trace.values.size(); ++v) {
    const Value& value = trace.values[v];
    const uint64_t bytes = take();
    if (value.external) {
      layout.places.push_back(kNoPlace);
    } else if (value.size_bytes == 0 ||
               lifetimes.free_from[v] == Lifetimes::kNever) {
      // Alive when the plan is launched again, it has its place to itself.
      layout.places.push_back(places.Take(bytes, 0, Lifetimes::kNever));
    } else {
      layout.places.push_back(places.Take(bytes,
                                          lifetimes.launched_at[value.birth_op],
                                          lifetimes.free_from[v]));
    }
  }
  uint64_t end = places.end();
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

MemoryDemand MemoryDemand::Of(const Trace& first, const Trace& second,
                              std::span<const uint64_t> place_bytes) {
  const size_t ops = first.ops.size();
  MemoryDemand demand;
  demand.made.resize(ops, 0);
  std::vector<uint64_t> dropped(ops, 0);  // before that op
  for (size_t v = 0; v < first.values.size(); ++v) {
    const Value& value = first.values[v];
    if (value.external) continue;
    const uint64_t bytes = PlaceBytes(place_bytes[v]);
    demand.made[value.birth_op] += bytes;
    // That one lives on is told by the latest of all ops.
    static_assert(Value::kLives == ~uint32_t{0});
    const uint32_t dead_at = std::max(value.dead_at, second.values[v].dead_at);
    if (dead_at < ops) dropped[dead_at] += bytes;
  }
  size_t next_temporary = first.values.size();
  uint64_t alive = 0;
  for (size_t k = 0; k < ops; ++k) {
    alive += demand.made[k] - dropped[k];
    uint64_t temporaries = 0;
    for (size_t t = 0; t < first.ops[k].temporaries.size(); ++t) {
      temporaries += PlaceBytes(place_bytes[next_temporary++]);
    }
    demand.at_once = std::max(demand.at_once, alive + temporaries);
  }
  return demand;
}

std::optional<uint32_t> HalfWay(const MemoryDemand& demand) {
  const std::vector<uint64_t>& made = demand.made;
  const uint64_t all = std::accumulate(made.begin(), made.end(), uint64_t{0});
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
