// Where the values of a trace lie in its arena.

#ifndef REPRISE_ENGINE_PROGRAM_LAYOUT_H_
#define REPRISE_ENGINE_PROGRAM_LAYOUT_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "engine/base/status.h"
#include "engine/program/lifetimes.h"
#include "engine/trace/trace.h"

namespace reprise::engine {

// Blocks of PyTorch's caching allocator begin at multiples of this, and kernels
// are chosen by alignment, so places do too.
inline constexpr uint64_t kPlaceAlignment = 512;

// What a value or a temporary of that size takes: kernels are handed addresses
// up to the end of a block, beyond the bytes that were asked for.
constexpr uint64_t PlaceBytes(uint64_t size_bytes) {
  return (size_bytes + kPlaceAlignment - 1) / kPlaceAlignment * kPlaceAlignment;
}

inline constexpr uint64_t kNoPlace = ~uint64_t{0};

// In which of several lanes each op runs; empty: all are in one.
struct Lanes {
  std::span<const uint8_t> of_ops = {};
  // Of temporaries, in each lane beside the first.
  uint64_t zone_bytes = 0;
  // Nobody waits for more than it would have to if `later` takes the place of
  // `earlier`; null: that does not matter.
  std::function<bool(ValueId earlier, ValueId later)> may_follow = {};
};

struct ArenaLayout {
  // Offset of each value from the arena's start; kNoPlace for externals.
  std::vector<uint64_t> places;
  // Offsets of the temporaries of each op, in the order of its recording.
  std::vector<std::vector<uint64_t>> temporaries;
  // Of the copies of private values, in the order of Effects::privates.
  std::vector<uint64_t> privates;
  uint64_t size_bytes = 0;
};

// What the values of a trace ask for, as two recordings of it tell. Both say of
// each how much it takes by `place_bytes`: of each value, then of each
// temporary in order. Pure value.
struct MemoryDemand {
  std::vector<uint64_t> made;  // by op, of its results
  // Of what is alive at an op, its temporaries included, the most: what the
  // pass takes where each value's memory is another's as soon as it is dropped.
  uint64_t at_once = 0;

  static MemoryDemand Of(const Trace& first, const Trace& second,
                         std::span<const uint64_t> place_bytes);
};

// A value that the program has still when the plan is launched again has its
// place to itself, so that it can be left there; others follow each other where
// their lifetimes allow it: who launches them looks whether the program is done
// with who was there before. Nothing follows what lives on behind the pass.
// Temporaries, which no program sees, share a zone by lane, because the ops of
// a lane run one behind the other; those of an op that has more than
// `zone_bytes` lie in the first lane's. `place_bytes` says how much each value
// takes, then each temporary in order. Pure function. Cost: each value is
// compared with what is free.
ArenaLayout LayOut(const Trace& trace, std::span<const uint64_t> place_bytes,
                   const Lifetimes& lifetimes, const Lanes& lanes = {});

// Adds the copies of private values. Each lies as far behind a multiple of
// kPlaceAlignment as the value itself.
void AddPrivates(const Trace& trace, std::span<const ValueId> privates,
                 ArenaLayout& layout);

// The error of a layout that is over its budget.
base::Error TooLarge(uint64_t size_bytes, uint64_t bytes_at_once,
                     uint64_t max_arena_bytes);

// Where a trace that is over it is best split: before the first op by which
// half of what it makes has come. None where one op makes all.
std::optional<uint32_t> HalfWay(const MemoryDemand& demand);

}  // namespace reprise::engine

#endif  // REPRISE_ENGINE_PROGRAM_LAYOUT_H_
