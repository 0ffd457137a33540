// Where the body of a loop begins.

#ifndef REPRISE_SCHEDULER_LOOP_BODY_H_
#define REPRISE_SCHEDULER_LOOP_BODY_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <tuple>
#include <vector>

#include "scheduler/op_history.h"

namespace reprise::scheduler {

// A loop that was found at any op of its body: the last two periods of the
// history are two bodies, rotated. Its traces are to begin where the fewest
// values go from ops before to ops behind, and each of them with the same op,
// whatever came before the loop. Borrows the history. Single-thread.
class LoopBody {
 public:
  // What tells that the loop goes round: the words of its ops, or its code
  // (operators on weights), where its passes have several sizes.
  enum class ToldBy : uint8_t { kWords, kCode };

  // `has_weights`: many of its ops are on the same storages in each body.
  LoopBody(const OpHistory* ops, size_t period, ToldBy told_by,
           bool has_weights)
      : ops_(*ops),
        period_(period),
        told_by_(told_by),
        has_weights_(has_weights) {}

  // How many more ops come before it begins; very many: it begins nowhere.
  // Cost: a walk over all ops.
  size_t OpsToBegin() const {
    const size_t first = ops_.size() - 2 * period_;
    const std::vector<int64_t> cross = ops_.Crossings(first, period_);
    size_t best = ~size_t{0};
    Rank fewest;
    for (size_t left = 0; left < period_; ++left) {
      const size_t op = first + left;
      const Rank here = RankOf(op, cross[left]);
      const bool is_better = best == ~size_t{0} || here < fewest;
      if (!is_better || !MayBeginWith(op)) continue;
      fewest = here;
      best = left;
    }
    return best;
  }

  // The last op before that one, if it is near, that has the same weight as the
  // one a period later.
  static std::optional<size_t> EndBefore(const OpHistory& ops, size_t op,
                                         size_t period) {
    for (size_t n = 1; n <= std::min({kMostAfter + 1, op, period}); ++n) {
      const auto shared = ops.SharedStorages(op - n, op - n + period);
      if (std::ranges::any_of(shared, [](auto one) { return one != nullptr; }))
        return op - n;
    }
    return std::nullopt;
  }

 private:
  // So many ops may come behind the one that tells where a body ends.
  static constexpr size_t kMostAfter = 8;

  // The least one begins the body. What is made of nothing rather begins it
  // than ends it. Of equals the first op of the history is chosen, if it is of
  // the loop; else one that is known again by its weight; else one by its name,
  // which does not depend on when the loop was found. Of equal names the next
  // to come is chosen.
  using Rank = std::tuple<int64_t, bool, bool, bool, uint64_t>;
  Rank RankOf(size_t op, int64_t crossings) const {
    const uint64_t name =
        told_by_ == ToldBy::kWords ? ops_[op].hash : ops_[op].op;
    return {crossings, ops_[op].operands > 0, !StandsFirst(op),
            has_weights_ && !IsKnownByWeight(op), name};
  }

  // The op stands in its body where the first op of the history stood.
  bool StandsFirst(size_t op) const {
    const bool is_same = told_by_ == ToldBy::kWords ? ops_.SameForm(op, 0)
                                                    : ops_.SameCode(op, 0);
    return op % period_ == 0 && is_same;
  }
  // No other op of the body is of its operator and on its first older storage.
  bool IsKnownByWeight(size_t op) const {
    return ops_[op + period_].before_on_weight == op &&
           ops_.SameWeight(op, op + period_);
  }

  // A loop that is told by its code is to be known again by a weight: of the op
  // that begins its body, or of one of those before, which end it.
  bool MayBeginWith(size_t op) const {
    const bool is_next = op + 2 * period_ == ops_.size();
    return told_by_ == ToldBy::kWords || ops_.SameWeight(op, op + period_) ||
           EndBefore(ops_, is_next ? op + period_ : op, period_).has_value();
  }

  const OpHistory& ops_;
  const size_t period_;
  const ToldBy told_by_;
  const bool has_weights_;
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_LOOP_BODY_H_
