#include "engine/program/layout.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <string>
#include <utility>

namespace reprise::engine {
namespace {

using MayFollow = std::function<bool(ValueId, ValueId)>;

// A value while it needs its memory: from when its segment is launched until
// nothing needs it.
struct Tenancy {
  ValueId value = 0;
  uint64_t bytes = 0;
  uint32_t from = 0;
  uint32_t until = 0;
  uint64_t place = 0;
};

// Gives each, in that order, a place behind `begin` apart from those of all
// others that need theirs at the same time: the smallest gap that it fits into.
// Returns where all of them end.
uint64_t PackInOrder(std::span<Tenancy> tenancies, uint64_t begin,
                     const MayFollow& may_follow) {
  const auto before = [&may_follow](const Tenancy& a, const Tenancy& b) {
    return a.until <= b.from && (!may_follow || may_follow(a.value, b.value));
  };
  uint64_t end = begin;
  std::vector<Tenancy> placed;  // by place
  placed.reserve(tenancies.size());
  for (Tenancy& tenancy : tenancies) {
    uint64_t best = kNoPlace;
    uint64_t best_bytes = kNoPlace;
    uint64_t reach = begin;  // all before it is in use, or a gap that was seen
    for (const Tenancy& other : placed) {
      if (before(other, tenancy) || before(tenancy, other)) continue;
      if (other.place > reach) {
        const uint64_t gap = other.place - reach;
        if (gap >= tenancy.bytes && gap < best_bytes) {
          best = reach;
          best_bytes = gap;
        }
      }
      reach = std::max(reach, other.place + other.bytes);
    }
    tenancy.place = best == kNoPlace ? reach : best;
    end = std::max(end, tenancy.place + tenancy.bytes);
    placed.insert(
        std::ranges::upper_bound(placed, tenancy.place, {}, &Tenancy::place),
        tenancy);
  }
  return end;
}

// The same in the better of two orders. The largest first leaves few gaps that
// nothing fits into (Pisarchyk and Lee, "Efficient Memory Management for Deep
// Neural Net Inference", 2020, greedy by size); as they come is better for few.
uint64_t Pack(std::vector<Tenancy>& tenancies, uint64_t begin,
              const MayFollow& may_follow) {
  std::vector<Tenancy> by_size = tenancies;
  std::ranges::stable_sort(by_size, std::ranges::greater{}, &Tenancy::bytes);
  const uint64_t end_by_size = PackInOrder(by_size, begin, may_follow);
  const uint64_t end = PackInOrder(tenancies, begin, may_follow);
  if (end <= end_by_size) return end;
  tenancies = std::move(by_size);
  return end_by_size;
}

}  // namespace

ArenaLayout LayOut(const Trace& trace, std::span<const uint64_t> place_bytes,
                   const Lifetimes& lifetimes, const Lanes& lanes) {
  ArenaLayout layout;
  layout.places.resize(trace.values.size(), kNoPlace);
  size_t next_place = 0;
  const auto take = [&] {
    return PlaceBytes(std::max<uint64_t>(place_bytes[next_place++], 1));
  };
  uint64_t end = 0;
  std::vector<Tenancy> tenancies;
  for (ValueId v = 0; v < trace.values.size(); ++v) {
    const Value& value = trace.values[v];
    const uint64_t bytes = take();
    if (value.external) continue;
    if (value.size_bytes == 0 || lifetimes.held[v]) {
      layout.places[v] = end;
      end += bytes;
    } else {
      tenancies.push_back({v, bytes, lifetimes.launched_at[value.birth_op],
                           lifetimes.free_from[v]});
    }
  }
  end = Pack(tenancies, end, lanes.may_follow);
  for (const Tenancy& tenancy : tenancies) {
    layout.places[tenancy.value] = tenancy.place;
  }
  // Of each op within its zone, then of the zones one behind the other.
  std::vector<uint64_t> zones(1, 0);  // by lane, what it takes
  std::vector<size_t> zone_of;        // by op
  layout.temporaries.reserve(trace.ops.size());
  for (size_t k = 0; k < trace.ops.size(); ++k) {
    uint64_t bytes = 0;
    std::vector<uint64_t>& offsets = layout.temporaries.emplace_back();
    for (size_t t = 0; t < trace.ops[k].temporaries.size(); ++t) {
      offsets.push_back(bytes);
      bytes += take();
    }
    const bool apart = !lanes.of_ops.empty() && bytes <= lanes.zone_bytes;
    zone_of.push_back(apart ? lanes.of_ops[k] : 0);
    zones.resize(std::max(zones.size(), zone_of[k] + 1), 0);
    zones[zone_of[k]] = std::max(zones[zone_of[k]], bytes);
  }
  for (uint64_t& zone : zones) end += std::exchange(zone, end);
  for (size_t k = 0; k < trace.ops.size(); ++k) {
    for (uint64_t& offset : layout.temporaries[k]) offset += zones[zone_of[k]];
  }
  layout.size_bytes = end;
  return layout;
}

void AddPrivates(const Trace& trace, std::span<const ValueId> privates,
                 ArenaLayout& layout) {
  for (const ValueId v : privates) {
    const Value& value = trace.values[v];
    const uint64_t behind = value.origin % kPlaceAlignment;
    layout.privates.push_back(layout.size_bytes + behind);
    layout.size_bytes += PlaceBytes(behind + value.size_bytes);
  }
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

base::Error TooLarge(uint64_t size_bytes, uint64_t bytes_at_once,
                     uint64_t max_arena_bytes) {
  return base::Error(base::Code::kFailedPrecondition,
                     "its arena would take " + std::to_string(size_bytes) +
                         " bytes (" + std::to_string(bytes_at_once) +
                         " in use at once), more than max_arena_bytes=" +
                         std::to_string(max_arena_bytes));
}

}  // namespace reprise::engine
