// Finds out that a stream without cuts goes round in a loop.

#ifndef REPRISE_SCHEDULER_REPETITION_H_
#define REPRISE_SCHEDULER_REPETITION_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/trace/op.h"
#include "engine/trace/open_trace.h"
#include "engine/trace/trace.h"
#include "scheduler/op_history.h"

namespace reprise::scheduler {

// Fed with the ops of an open trace that nothing is expected of. An op repeats
// an earlier one if its words are equal and an operand is the same storage in
// the same place (a weight), or no operand is older than the trace; a few may
// use nothing but what the pass is given (labels). When a whole period of ops
// has repeated, the stream goes round in a loop, and a trace is to begin where
// its body does, which a preamble hid: where the fewest values go from ops
// before to ops behind.
//
// Short periods are layers of equal shape more often than loops; multiples of
// them are found all the same.
//
// Where the sizes of a loop's passes differ, its words do, and its code is the
// same: the same operators on the same weights. That is taken for a loop when
// it has gone round more often: a network may use some of its layers several
// times in a pass, on other sizes each time.
//
// Single-thread. Cost: that of OpHistory an op; once a loop, a walk over all of
// them.
class Repetition {
 public:
  static constexpr size_t kShortestPeriod = 16;
  // So many ops on other storages may be in a loop, and one more for so many on
  // the same.
  static constexpr size_t kStrange = 2;
  static constexpr size_t kWeightsAStrange = 8;
  // So many times must code go round behind its first time, or so many ops, if
  // that is fewer times.
  static constexpr size_t kTimesOfCode = 5;
  static constexpr size_t kOpsOfCode = 512;

  enum class Found : uint8_t {
    kNothing,
    kLoop,  // the next op begins the loop's body once more
    kCode,  // the same, of a loop whose passes have several sizes
  };

  void Clear() {
    ops_.Clear();
    words_ = code_ = Loop();
  }

  // The op by the hash of its words; the operands as the open trace numbers
  // them.
  Found Add(engine::OpId op, uint64_t hash,
            std::span<const engine::Operand> operands,
            std::span<const engine::ValueRef> values,
            const engine::OpenTrace& open) {
    const size_t index = ops_.size();
    ops_.Add(op, hash, operands, values, open);
    if (words_.period > 0 && !GoesOn(words_, index)) words_ = Loop();
    if (words_.period == 0) words_.period = PeriodOf(index);
    if (IsOver(words_, words_.period)) return Found::kLoop;
    if (code_.period > 0 && !GoesOn(code_, index)) code_ = Loop();
    if (code_.period == 0) code_.period = PeriodOfCode(index);
    const size_t enough = std::max(
        code_.period, std::min(kTimesOfCode * code_.period, kOpsOfCode));
    // Else the words tell.
    if (code_.other_sizes == 0) {
      if (code_.period > 0) ++code_.matched;
      return Found::kNothing;
    }
    return IsOver(code_, enough) ? Found::kCode : Found::kNothing;
  }

  // An op without operands is about to come. Nothing but the op that it comes
  // behind tells it from others of its form. True if it begins a loop's body
  // once more: what has come since such an op uses the weights that were used
  // between that one and one before it, whatever else the two do.
  bool ComesRound(uint64_t hash) {
    const size_t* last = ops_.FindLast(hash);
    if (last == nullptr || *last >= ops_.size()) return false;
    // Several such ops may be in one body.
    size_t half = *last;
    for (size_t n = 1; n <= kMostBefore; ++n) {
      size_t begin = half;
      for (size_t k = 0; k < n; ++k) {
        if (ops_[begin].before == begin) return false;
        begin = ops_[begin].before;
      }
      if (ops_.UseSameWeights(begin, half, ops_.size())) return true;
      if (ops_[half].before == half) return false;
      half = ops_[half].before;
    }
    return false;
  }

  // Behind kCode: which operands of the op that begins the body are the same
  // each time.
  std::vector<bool> WeightsOfTheBegin() const {
    return WeightsOf(ops_.size() - code_.period);
  }
  // The same of what ends it: the last op with such an operand, its storages
  // (null: another one each time), and how many ops come behind it.
  struct End {
    engine::OpId op = engine::kNoOp;
    std::vector<engine::StorageToken> storages;
    uint32_t after = 0;
  };
  // None if there is no such op among the last ones.
  std::optional<End> EndOfTheBody() const {
    const size_t last = ops_.size() - code_.period;
    const std::optional<size_t> op = EndBefore(last);
    if (!op) return std::nullopt;
    return End{ops_[*op].op, ops_.SharedStorages(*op, *op + code_.period),
               static_cast<uint32_t>(last - 1 - *op)};
  }

 private:
  // A candidate.
  struct Loop {
    size_t period = 0;  // 0: there is none
    size_t matched = 0;
    size_t weights = 0;  // of the ops that matched: those on the same storages
    size_t strange = 0;  // and those on others
    size_t other_sizes = 0;
    // Ops before the body begins; once it has, it wraps.
    std::optional<size_t> left = {};
  };

  // So many ops of one form are looked at: several of them may be in one pass,
  // on other inputs.
  static constexpr size_t kMostBefore = 4;
  // So many ops may come behind the one that tells where a body ends.
  static constexpr size_t kMostAfter = 8;
  static constexpr size_t kNowhere = ~size_t{0};

  // One more op has matched, of so many that are enough. True if the next one
  // begins the body.
  bool IsOver(Loop& loop, size_t enough) const {
    if (loop.period == 0 || ++loop.matched < enough) return false;
    if (!loop.left) loop.left = OpsToTheBody(loop);
    return (*loop.left)-- == 0;
  }

  // How long ago the op of today may have come last; 0 if it has not.
  size_t PeriodOf(size_t index) const {
    size_t before = index;
    for (size_t n = 0; n < kMostBefore && ops_[before].before != before; ++n) {
      before = ops_[before].before;
      const size_t distance = index - before;
      const size_t times = (kShortestPeriod + distance - 1) / distance;
      const size_t period = times * distance;
      if (period <= index && Repeats(index, index - period)) return period;
    }
    return 0;
  }

  // The same for its code.
  size_t PeriodOfCode(size_t index) const {
    const size_t before = ops_[index].before_on_weight;
    return ops_.SameCode(index, before) && ops_.SameWeight(index, before)
               ? index - before
               : 0;
  }

  // The last op before that one, if it is near, that has the same weight as the
  // one a period later.
  std::optional<size_t> EndBefore(size_t op) const {
    for (size_t n = 1; n <= std::min({kMostAfter + 1, op, code_.period}); ++n) {
      const auto shared = ops_.SharedStorages(op - n, op - n + code_.period);
      if (std::ranges::any_of(shared, [](auto one) { return one != nullptr; }))
        return op - n;
    }
    return std::nullopt;
  }
  std::vector<bool> WeightsOf(size_t op) const {
    const size_t before = op >= code_.period ? op - code_.period : op;
    return ops_.SameOperands(op, before);
  }
  bool Repeats(size_t a, size_t b) const {
    return ops_.SameForm(a, b) && (ops_.SameWeight(a, b) || !ops_[a].has_older);
  }

  // The op goes on as a period before.
  bool GoesOn(Loop& loop, size_t index) const {
    const size_t before = index - loop.period;
    if (!ops_.SameForm(index, before)) {
      if (&loop == &words_ || !ops_.SameCode(index, before)) return false;
      if (ops_[index].elements != ops_[before].elements) ++loop.other_sizes;
    }
    if (ops_.SameWeight(index, before)) {
      ++loop.weights;
    } else if (ops_[index].has_older) {
      ++loop.strange;
    }
    return loop.strange <= kStrange + loop.weights / kWeightsAStrange;
  }

  // The op stands in its body where the first op of all stood.
  bool IsFirst(size_t op, size_t period) const {
    return op % period == 0 && ops_.SameForm(op, 0);
  }

  // Of an op and the same one a period later: no op between them uses that
  // weight so.
  bool IsKnownByWeight(size_t op, size_t later) const {
    return ops_[later].before_on_weight == op && ops_.SameWeight(op, later);
  }

  // How many more ops come before the loop's body begins.
  size_t OpsToTheBody(const Loop& loop) const {
    const size_t period = loop.period;
    // The next op is one of `last`'s form.
    const size_t last = ops_.size() - period;
    const std::vector<int64_t> cross = ops_.Crossings(last - period, period);
    // A loop that is told by its code is to be known again by a weight: of the
    // op that begins its body, or of one of those before, which end it.
    const auto may_begin = [&](size_t left) {
      const size_t op = last - period + left;
      return &loop == &words_ || ops_.SameWeight(op, op + period) ||
             EndBefore(left == 0 ? last : op).has_value();
    };
    const bool has_weights = 4 * loop.weights >= loop.matched;
    // What is made of nothing rather begins a body than ends it. Of equals the
    // first op of all is chosen, if it is of the loop, else the same one
    // whenever the loop is found, so that its traces begin with one op.
    size_t best = kNowhere;
    std::tuple<int64_t, bool, bool, bool, uint64_t> fewest;
    for (size_t left = 0; left < period; ++left) {
      const size_t op = last - period + left;
      const uint64_t name = &loop == &words_ ? ops_[op].hash : ops_[op].op;
      const std::tuple<int64_t, bool, bool, bool, uint64_t> here = {
          cross[left], ops_[op].operands > 0, !IsFirst(op, period),
          has_weights && !IsKnownByWeight(op, op + period), name};
      if ((best != kNowhere && here >= fewest) || !may_begin(left)) continue;
      fewest = here;
      best = left;
    }
    return best;
  }

  OpHistory ops_;
  Loop words_;
  Loop code_;
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_REPETITION_H_
