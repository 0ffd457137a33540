#include "engine/program/draws.h"

#include <algorithm>

#include "engine/trace/trace.h"

namespace reprise::engine {
namespace {

// A source as both recordings saw it.
struct Seen {
  GeneratorState first;
  GeneratorState second;
};

// What is drawn at these two states is as far from the source in both.
bool Explains(const Seen& source, const Seen& seen) {
  return source.first.seed == seen.first.seed &&
         source.second.seed == seen.second.seed &&
         seen.first.offset - source.first.offset ==
             seen.second.offset - source.second.offset;
}

DrawSource Source(DrawSource::Told told, uint32_t op, const Seen& seen) {
  return {.told = told,
          .op = op,
          .recorded = seen.first,
          .seed_varies = seen.first.seed != seen.second.seed,
          .offset_varies = seen.first.offset != seen.second.offset};
}

}  // namespace

Draws Draws::Ahead(const Trace& first, const Trace& second) {
  using Told = DrawSource::Told;
  Draws draws;
  const Seen head{first.generator, second.generator};
  std::vector<Seen> seen_at;  // by source
  for (uint32_t k = 0; k < first.ops.size() && k < second.ops.size(); ++k) {
    const TracedOp& op = first.ops[k];
    if (!op.generator.draws) continue;
    if (draws.sources_.empty()) {
      draws.sources_.push_back(Source(Told::kByHead, k, head));
      seen_at.push_back(head);
    }
    const Seen seen{op.generator.before, second.ops[k].generator.before};
    size_t source = seen_at.size();
    while (source > 0 && !Explains(seen_at[source - 1], seen)) --source;
    if (source == 0) {
      const bool same = seen.first == seen.second;
      draws.sources_.push_back(
          Source(same ? Told::kRecordings : Told::kByOp, k, seen));
      seen_at.push_back(seen);
      source = seen_at.size();
      if (!same) {
        draws.waits_.resize(first.ops.size(), false);
        draws.waits_[k] = true;
      }
    }
    --source;
    draws.uses_head_ |= source == kHead;
    draws.ahead_.push_back(
        {.op = k,
         .source = static_cast<uint32_t>(source),
         .ahead = seen.first.offset - seen_at[source].first.offset,
         .increment = op.generator.increment});
  }
  return draws;
}

Draws Draws::InTurn(const Trace& trace) {
  Draws draws;
  for (const TracedOp& op : trace.ops) draws.waits_.push_back(op.may_draw);
  return draws;
}

std::optional<uint32_t> Draws::ToldBy(uint32_t op) const {
  if (!Waits(op)) return std::nullopt;
  const auto source =
      std::ranges::find_if(sources_, [op](const DrawSource& one) {
        return one.told == DrawSource::Told::kByOp && one.op == op;
      });
  if (source == sources_.end()) return std::nullopt;
  return static_cast<uint32_t>(source - sources_.begin());
}

}  // namespace reprise::engine
