#include "scheduler/variations.h"

#include <algorithm>

#include "engine/program/scalar_scan.h"

namespace reprise::scheduler {

bool Variations::LearnNumbers(uint32_t index, const engine::TracedOp& traced,
                              std::span<const engine::Scalar> now) {
  if (!number_tries_.Take()) return false;
  std::vector<uint64_t>& untold = untold_[index];
  untold.clear();
  for (uint32_t i = 0; i < traced.slots.size(); ++i) {
    const engine::ScalarSlot& slot = traced.slots[i];
    untold.push_back(now[slot.scalar].bits);
    if (untold.back() != slot.recorded.bits) changing_.emplace(index, i);
  }
  return true;
}

bool Variations::LearnDraw(uint64_t replays) {
  if (replays - draws_learned_at_ >= kReplaysToTryAgain) draw_tries_.Renew();
  if (!draw_tries_.Take()) return false;
  draws_learned_at_ = replays;
  return true;
}

bool Variations::LearnMoves(std::span<const engine::ValueId> values,
                            bool plan_has_paid) {
  moving_.insert(values.begin(), values.end());
  still_recordings_.Renew();
  if (plan_has_paid) move_tries_.Renew();
  return move_tries_.Take();
}

void Variations::LearnOutliving(std::span<const engine::ValueId> values) {
  outliving_.insert(values.begin(), values.end());
  all_outlive_ |= !outliving_tries_.Take();
}

bool Variations::AreTold(const engine::Trace& first,
                         const engine::Trace& second) {
  const bool numbers =
      std::ranges::all_of(changing_,
                          [&](const auto& place) {
                            const auto& [op, slot] = place;
                            return first.ops[op].slots[slot].recorded.bits !=
                                   second.ops[op].slots[slot].recorded.bits;
                          }) &&
      std::ranges::all_of(untold_, [&](const auto& told) {
        const auto& [op, bits] = told;
        return engine::TellOf(first.ops[op], second.ops[op], bits);
      });
  if (!numbers && equal_recordings_.Take()) return false;
  const bool moves = std::ranges::all_of(moving_, [&](engine::ValueId v) {
    return first.values[v].origin != second.values[v].origin;
  });
  return moves || !still_recordings_.Take();
}

void Variations::Mark(engine::Trace& trace) const {
  for (const engine::ValueId v : come_anew_) trace.values[v].comes_anew = true;
  const auto keep = [](engine::Value& value) {
    value.dead_at = engine::Value::kLives;
    value.held = true;
  };
  for (const engine::ValueId v : outliving_) keep(trace.values[v]);
  if (all_outlive_) std::ranges::for_each(trace.values, keep);
}

size_t Variations::HostBytes() const {
  size_t bytes = (changing_.size() + moving_.size()) * kNode;
  for (const auto& [op, bits] : untold_) {
    bytes += kNode + bits.capacity() * sizeof(uint64_t);
  }
  return bytes;
}

}  // namespace reprise::scheduler
