#include "engine/program/program.h"

#include <algorithm>
#include <span>

#include "engine/program/lifetimes.h"

namespace reprise::engine {
namespace {

// What is launched ahead, one and a half segments at most, cannot follow what
// is dropped meanwhile. In each there may be this part of what is alive at
// once.
constexpr uint64_t kPartsAtOnce = 8;

// A segment is a launch, which the host pays for: with cuts for memory's sake
// there is one for so many ops at most, beside those that are gated.
constexpr size_t kOpsALaunch = 20;

// The fewest bytes in a segment, from `enough.bytes` on, with which there are
// no more of them than that, or than there must be.
std::vector<Segment> CutForMemory(const Effects& effects,
                                  std::span<const SegmentSize> ops,
                                  SegmentSize enough) {
  const std::vector<Segment> few =
      CutSegments(effects, ops, {enough.launches, ~uint64_t{0}});
  const auto gated =
      static_cast<size_t>(std::ranges::count(few, true, &Segment::gated));
  const size_t most = std::max(few.size(), gated + ops.size() / kOpsALaunch);
  for (;; enough.bytes += enough.bytes / 4 + 1) {
    std::vector<Segment> segments = CutSegments(effects, ops, enough);
    if (segments.size() <= most) return segments;
  }
}

// This part of a plan's memory may be spent on lanes.
constexpr uint64_t kPartsForLanes = 4;

ArenaLayout LayOutInLanes(const Program& program, const Lifetimes& lifetimes,
                          const Arrangement& how) {
  const auto laid_out = [&](const Lanes& lanes) {
    ArenaLayout layout =
        LayOut(*program.trace, program.place_bytes, lifetimes, lanes);
    AddPrivates(*program.trace, program.effects.privates(), layout);
    return layout;
  };
  Lanes lanes{.of_ops = program.branches.lanes(), .zone_bytes = how.zone_bytes};
  if (lanes.of_ops.empty()) return laid_out({});
  ArenaLayout shared = laid_out(lanes);
  if (shared.size_bytes > how.max_arena_bytes) return laid_out({});
  lanes.may_follow = [&program](ValueId earlier, ValueId later) {
    return program.branches.MayFollow(earlier, later);
  };
  ArenaLayout apart = laid_out(lanes);
  const uint64_t more =
      std::max(how.lanes_bytes, shared.size_bytes / kPartsForLanes);
  const bool fits = apart.size_bytes <= shared.size_bytes + more &&
                    apart.size_bytes <= how.max_arena_bytes;
  return fits ? apart : shared;
}

}  // namespace

std::vector<uint64_t> Program::PlacesIn(uint64_t arena) const {
  std::vector<uint64_t> places(trace->values.size(), 0);
  for (size_t v = 0; v < places.size(); ++v) {
    if (!trace->values[v].external) places[v] = arena + layout.places[v];
  }
  const std::vector<ValueId>& privates = effects.privates();
  for (size_t i = 0; i < privates.size(); ++i) {
    places[privates[i]] = arena + layout.privates[i];
  }
  return places;
}

std::vector<ValueId> Program::Outputs() const {
  std::vector<ValueId> outputs;
  for (ValueId v = 0; v < trace->values.size(); ++v) {
    const Value& value = trace->values[v];
    if (!value.external && value.size_bytes > 0) outputs.push_back(v);
  }
  return outputs;
}

tl::expected<void, BuildFailure> Arrange(Program& program, const Trace& second,
                                         const Arrangement& how) {
  const Trace& trace = *program.trace;
  const MemoryDemand demand =
      MemoryDemand::Of(trace, second, program.place_bytes);
  std::vector<SegmentSize> ops(trace.ops.size());
  for (size_t k = 0; k < ops.size(); ++k) {
    ops[k] = {how.launches[k], demand.made[k]};
  }
  program.bytes_at_once = demand.at_once;
  program.segments =
      CutForMemory(program.effects, ops,
                   {how.segment_launches,
                    std::max({how.least_segment_bytes,
                              demand.at_once / kPartsAtOnce, uint64_t{1}})});
  if (!how.reach.empty()) {
    program.branches =
        Branches(trace, program.effects, how.reach, how.launches);
  }
  const Lifetimes lifetimes = Lifetimes::Of(
      trace, second, program.effects, program.segments, how.least_result_bytes);
  program.layout = LayOutInLanes(program, lifetimes, how);
  program.branches.Place(trace, program.effects, program.layout,
                         program.place_bytes);
  if (program.layout.size_bytes <= how.max_arena_bytes) return {};
  return tl::unexpected<BuildFailure>(
      {.error = TooLarge(program.layout.size_bytes, demand.at_once,
                         how.max_arena_bytes),
       .op = std::nullopt,
       .split = HalfWay(demand)});
}

}  // namespace reprise::engine
