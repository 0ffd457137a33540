#include "scheduler/variations.h"

#include <algorithm>

#include "engine/program/scalar_scan.h"

namespace reprise::scheduler {
namespace {

// So often for numbers, and so many recordings are dropped because they did not
// change.
constexpr uint32_t kNumberTries = 16;

// So often for values that the program kept; then none of the trace's shares
// memory any more.
constexpr uint32_t kOutlivingTries = 8;

// So often because an external lies where it did in neither recording.
constexpr uint32_t kMoveTries = 8;
// So many recordings are dropped each time because what moved then lies where
// it did in the first one.
constexpr uint32_t kStillRecordings = 4;

// So often because the program sets the generator. Else it is left there, as at
// an op that is another one.
constexpr uint32_t kDrawTries = 4;

}  // namespace

bool Variations::LearnNumbers(uint32_t index, const engine::TracedOp& traced,
                              std::span<const engine::Scalar> now) {
  if (++number_tries_ > kNumberTries) return false;
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
  if (replays - draws_learned_at_ >= kReplaysToTryAgain) draw_tries_ = 0;
  if (draw_tries_ == kDrawTries) return false;
  ++draw_tries_;
  draws_learned_at_ = replays;
  return true;
}

bool Variations::LearnMoves(std::span<const engine::ValueId> values,
                            bool plan_has_paid) {
  moving_.insert(values.begin(), values.end());
  still_recordings_ = 0;
  if (plan_has_paid) move_tries_ = 0;
  return ++move_tries_ <= kMoveTries;
}

void Variations::LearnOutliving(std::span<const engine::ValueId> values) {
  outliving_.insert(values.begin(), values.end());
  ++outliving_tries_;
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
  if (!numbers && ++equal_recordings_ < kNumberTries) return false;
  const bool moves = std::ranges::all_of(moving_, [&](engine::ValueId v) {
    return first.values[v].origin != second.values[v].origin;
  });
  return moves || ++still_recordings_ > kStillRecordings;
}

void Variations::Mark(engine::Trace& trace) const {
  for (const engine::ValueId v : come_anew_) trace.values[v].comes_anew = true;
  const auto keep = [](engine::Value& value) {
    value.dead_at = engine::Value::kLives;
    value.held = true;
  };
  for (const engine::ValueId v : outliving_) keep(trace.values[v]);
  if (outliving_tries_ > kOutlivingTries) {
    std::ranges::for_each(trace.values, keep);
  }
}

size_t Variations::HostBytes() const {
  size_t bytes = (changing_.size() + moving_.size()) * kNode;
  for (const auto& [op, bits] : untold_) {
    bytes += kNode + bits.capacity() * sizeof(uint64_t);
  }
  return bytes;
}

}  // namespace reprise::scheduler
