// Finds out that a stream without cuts goes round in a loop.

#ifndef REPRISE_SCHEDULER_REPETITION_H_
#define REPRISE_SCHEDULER_REPETITION_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/trace/op.h"
#include "engine/trace/open_trace.h"
#include "engine/trace/trace.h"
#include "scheduler/loop_body.h"
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
    const std::optional<size_t> op =
        LoopBody::EndBefore(ops_, last, code_.period);
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
  // A loop has weights if one in so many of its ops is on one.
  static constexpr size_t kOpsAWeight = 4;

  // One more op has matched, of so many that are enough. True if the next one
  // begins the body.
  bool IsOver(Loop& loop, size_t enough) const {
    if (loop.period == 0 || ++loop.matched < enough) return false;
    if (!loop.left) {
      using ToldBy = LoopBody::ToldBy;
      const ToldBy by = &loop == &words_ ? ToldBy::kWords : ToldBy::kCode;
      const bool has_weights = kOpsAWeight * loop.weights >= loop.matched;
      loop.left = LoopBody(&ops_, loop.period, by, has_weights).OpsToBegin();
    }
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

  OpHistory ops_;
  Loop words_;
  Loop code_;
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_REPETITION_H_
