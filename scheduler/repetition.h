// Finds out that a stream without cuts goes round in a loop.

#ifndef REPRISE_SCHEDULER_REPETITION_H_
#define REPRISE_SCHEDULER_REPETITION_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <span>
#include <vector>

#include "cache/recent_map.h"
#include "engine/trace/op.h"
#include "engine/trace/open_trace.h"
#include "engine/trace/trace.h"

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
// them are found all the same. Single-thread. Cost: a look-up and some copying
// an op; once a loop, a walk over all of them.
class Repetition {
 public:
  static constexpr size_t kShortestPeriod = 16;
  // So many ops on other storages may be in a loop, and one more for so many on
  // the same.
  static constexpr size_t kStrange = 2;
  static constexpr size_t kWeightsAStrange = 8;

  void Clear() {
    ops_.clear();
    names_.clear();
    last_.Clear();
    period_ = 0;
  }

  // The operands as the open trace numbers them. True if the next op begins the
  // loop's body once more.
  bool Add(uint64_t hash, std::span<const engine::Operand> operands,
           std::span<const engine::ValueRef> values,
           const engine::OpenTrace& open) {
    const size_t index = ops_.size();
    const auto [last, first] = last_.FindOrPut(hash);
    ops_.push_back({hash, names_.size(), operands.size(), open.values(),
                    first ? index : last, false});
    last = index;
    for (size_t i = 0; i < operands.size(); ++i) {
      // A token of what the trace made may have been another's before; its
      // value's number has not. Tokens are even.
      const bool older = open.external(values[i].value);
      names_.push_back(older ? reinterpret_cast<uint64_t>(operands[i].storage)
                             : uint64_t{values[i].value} << 1 | 1);
      if (older) ops_.back().has_older = true;
    }
    if (period_ > 0 && !GoesOn(index)) period_ = 0;
    if (period_ == 0) {
      matched_ = 0;
      weights_ = 0;
      strange_ = 0;
      period_ = PeriodOf(index);
    }
    if (period_ == 0) return false;
    if (++matched_ < period_) return false;
    if (matched_ == period_) left_ = OpsToTheBody();
    return left_-- == 0;
  }

 private:
  struct Op {
    uint64_t hash;
    size_t first_name;
    size_t operands;
    engine::ValueId values;  // when it came: its results are numbered from here
    size_t before;  // the last op of its form before it; itself: there is none
    bool has_older;
  };

  // So many ops of one form are looked at: several of them may be in one pass,
  // on other inputs.
  static constexpr size_t kMostBefore = 4;
  static constexpr size_t kMostForms = size_t{1} << 20;

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

  bool SameForm(size_t a, size_t b) const {
    return ops_[a].hash == ops_[b].hash && ops_[a].operands == ops_[b].operands;
  }
  bool SameWeight(size_t a, size_t b) const {
    for (size_t i = 0; i < ops_[a].operands; ++i) {
      if (names_[ops_[a].first_name + i] == names_[ops_[b].first_name + i]) {
        return true;
      }
    }
    return false;
  }
  bool Repeats(size_t a, size_t b) const {
    return SameForm(a, b) && (SameWeight(a, b) || !ops_[a].has_older);
  }

  // The op goes on as a period before.
  bool GoesOn(size_t index) {
    const size_t before = index - period_;
    if (!SameForm(index, before)) return false;
    if (SameWeight(index, before)) {
      ++weights_;
    } else if (ops_[index].has_older) {
      ++strange_;
    }
    return strange_ <= kStrange + weights_ / kWeightsAStrange;
  }

  // How many more ops come before the loop's body begins. What goes from before
  // an op to it and behind is told where a period behind it has been seen.
  size_t OpsToTheBody() const {
    std::vector<size_t> last_use(ops_.back().values, 0);
    for (size_t k = 0; k < ops_.size(); ++k) {
      for (size_t i = 0; i < ops_[k].operands; ++i) {
        const uint64_t name = names_[ops_[k].first_name + i];
        if ((name & 1) != 0) last_use[name >> 1] = k;
      }
    }
    // Begin with what goes from op k - 1 to op k, for each k.
    std::vector<int64_t> change(ops_.size() + 1, 0);
    for (size_t k = 0; k + 1 < ops_.size(); ++k) {
      for (engine::ValueId v = ops_[k].values; v < ops_[k + 1].values; ++v) {
        if (last_use[v] <= k) continue;
        ++change[k + 1];
        --change[last_use[v] + 1];
      }
    }
    // The next op is one of `last`'s form.
    const size_t last = ops_.size() - period_;
    std::vector<int64_t> cross;
    std::partial_sum(change.begin(), change.end(), std::back_inserter(cross));
    size_t best = 0;
    int64_t fewest = cross[last];
    for (size_t left = 1; left < period_; ++left) {
      const int64_t here = cross[last - period_ + left];
      if (here >= fewest) continue;
      fewest = here;
      best = left;
    }
    return best;
  }

  std::vector<Op> ops_;
  std::vector<uint64_t> names_;  // of storages, op by op
  // By hash, the last op of such a form.
  cache::RecentMap<size_t> last_{kMostForms};
  size_t period_ = 0;  // 0: no candidate
  size_t matched_ = 0;
  size_t weights_ = 0;  // of the ops that matched: those on the same storages
  size_t strange_ = 0;  // and those on others
  size_t left_ = 0;     // ops before the body begins
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_REPETITION_H_
