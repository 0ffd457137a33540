// Finds out that a stream without cuts goes round in a loop.

#ifndef REPRISE_SCHEDULER_REPETITION_H_
#define REPRISE_SCHEDULER_REPETITION_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/op.h"
#include "engine/open_trace.h"
#include "engine/trace.h"

namespace reprise::scheduler {

// Fed with the ops of an open trace that nothing is expected of. An op repeats
// an earlier one if its words are equal and an operand is the same storage in
// the same place (a weight), or no operand is older than the trace. When a
// whole period of ops has repeated, the next op begins the loop's body once
// more: the place for a trace to begin, where a preamble hid the body's own
// head.
//
// Short periods are layers of equal shape more often than loops; multiples of
// them are found all the same. Single-thread. Cost: a look-up and some copying
// an op.
class Repetition {
 public:
  static constexpr size_t kShortestPeriod = 16;

  void Clear() {
    ops_.clear();
    names_.clear();
    last_.clear();
    period_ = 0;
    matched_ = 0;
  }

  // The operands as the open trace numbers them. True once a period is
  // complete.
  bool Add(uint64_t hash, std::span<const engine::Operand> operands,
           std::span<const engine::ValueRef> values,
           const engine::OpenTrace& open) {
    const size_t index = ops_.size();
    ops_.push_back({hash, names_.size(), operands.size(), false});
    for (size_t i = 0; i < operands.size(); ++i) {
      // A token of what the trace made may have been another's before; its
      // value's number has not. Tokens are even.
      const bool older = open.external(values[i].value);
      names_.push_back(older ? reinterpret_cast<uint64_t>(operands[i].storage)
                             : uint64_t{values[i].value} << 1 | 1);
      if (older) ops_.back().has_older = true;
    }
    if (period_ > 0 && !Repeats(index, index - period_)) period_ = 0;
    if (period_ == 0) {
      matched_ = 0;
      const auto found = last_.find(hash);
      if (found != last_.end()) {
        const size_t distance = index - found->second;
        const size_t times = (kShortestPeriod + distance - 1) / distance;
        const size_t period = times * distance;
        if (period <= index && Repeats(index, index - period)) {
          period_ = period;
        }
      }
    }
    last_[hash] = index;
    if (period_ > 0) ++matched_;
    return period_ > 0 && matched_ == period_;
  }

 private:
  struct Op {
    uint64_t hash;
    size_t first_name;
    size_t operands;
    bool has_older;
  };

  bool Repeats(size_t a, size_t b) const {
    if (ops_[a].hash != ops_[b].hash || ops_[a].operands != ops_[b].operands) {
      return false;
    }
    for (size_t i = 0; i < ops_[a].operands; ++i) {
      if (names_[ops_[a].first_name + i] == names_[ops_[b].first_name + i]) {
        return true;
      }
    }
    return !ops_[a].has_older;
  }

  std::vector<Op> ops_;
  std::vector<uint64_t> names_;                // of storages, op by op
  std::unordered_map<uint64_t, size_t> last_;  // by hash: where it was last
  size_t period_ = 0;                          // 0: no candidate
  size_t matched_ = 0;
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_REPETITION_H_
