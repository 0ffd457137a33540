#include "engine/program/draw_sites.h"

#include <algorithm>
#include <cstddef>

#include "engine/trace/trace.h"

namespace reprise::engine {
namespace {

using base::Code;
using base::Fail;
using device::Launch;
using device::ParamSpan;

constexpr size_t kWordBytes = 8;
constexpr size_t kPairBytes = 2 * kWordBytes;
constexpr size_t kStructBytes = 4 * kWordBytes;

// Offsets are handed out in steps of so much.
constexpr uint64_t kStep = 4;

// A seed of more than 32 bits is no size, count or flag.
bool IsUnlikely(uint64_t seed) { return seed >> 32 != 0; }

// Both words of the struct's second half as they are in each: a zero, and a
// flag that is not set.
bool HasTail(const Launch& launch, size_t at) {
  return at + kStructBytes <= launch.image.size() &&
         launch.Word(at + kPairBytes) == 0 &&
         launch.image[at + kPairBytes + kWordBytes] == std::byte{0};
}

// A parameter of its own, of the struct's size.
bool IsParameter(const Launch& launch, size_t at) {
  return launch.params != nullptr &&
         std::ranges::any_of(*launch.params, [at](const ParamSpan& span) {
           return span.offset_bytes == at && span.size_bytes == kStructBytes;
         });
}

void Clear(Launch& launch, size_t begin, size_t end) {
  std::fill(launch.image.begin() + static_cast<ptrdiff_t>(begin),
            launch.image.begin() + static_cast<ptrdiff_t>(end), std::byte{0});
}

}  // namespace

base::Result<ExplainedDraw> ExplainDraw(const TracedOp& first,
                                        const TracedOp& second) {
  const GeneratorUse& use = first.generator;
  if (use.draws != second.generator.draws ||
      use.increment != second.generator.increment) {
    return Fail(Code::kFailedPrecondition,
                "it draws another amount of random numbers each time");
  }
  ExplainedDraw draw{{}, first.launches, first.launches, second.launches};
  const GeneratorState& before = use.before;
  const GeneratorState& after = second.generator.before;
  const bool seeds_differ = before.seed != after.seed;
  const bool offsets_differ = before.offset != after.offset;
  const bool telling =
      seeds_differ || offsets_differ || IsUnlikely(before.seed);
  bool found = false;
  for (size_t i = 0; i < draw.first.size() && i < draw.second.size(); ++i) {
    Launch& one = draw.first[i];
    Launch& other = draw.second[i];
    if (one.image.size() != other.image.size()) continue;
    for (size_t at = 0; at + kPairBytes <= one.image.size(); at += kWordBytes) {
      if (one.Word(at) != before.seed || other.Word(at) != after.seed) continue;
      const uint64_t ahead = one.Word(at + kWordBytes) - before.offset;
      if (other.Word(at + kWordBytes) - after.offset != ahead ||
          ahead >= use.increment || ahead % kStep != 0) {
        continue;
      }
      const bool tail = HasTail(one, at) && HasTail(other, at);
      if (!telling && !(tail && IsParameter(one, at))) continue;
      const auto add = [&](DrawSite::Part part, size_t offset_bytes) {
        draw.sites.push_back(
            {.launch = static_cast<uint32_t>(i),
             .offset_bytes = static_cast<uint32_t>(offset_bytes),
             .part = part,
             .ahead = ahead});
      };
      if (seeds_differ) add(DrawSite::Part::kSeed, at);
      if (offsets_differ) add(DrawSite::Part::kOffset, at + kWordBytes);
      const size_t end = at + (tail ? kStructBytes : kPairBytes);
      Clear(draw.launches[i], at + kPairBytes, end);
      Clear(one, at, end);
      Clear(other, at, end);
      found = true;
      at = end - kWordBytes;
    }
  }
  if (!found && (seeds_differ || offsets_differ)) {
    return Fail(Code::kFailedPrecondition,
                "nothing tells how its kernels hold the generator's state");
  }
  return draw;
}

}  // namespace reprise::engine
