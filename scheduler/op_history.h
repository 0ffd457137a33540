// The ops of an open trace, as a search for loops compares them.

#ifndef REPRISE_SCHEDULER_OP_HISTORY_H_
#define REPRISE_SCHEDULER_OP_HISTORY_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "cache/recent_map.h"
#include "cache/signature.h"
#include "engine/trace/op.h"
#include "engine/trace/open_trace.h"
#include "engine/trace/trace.h"

namespace reprise::scheduler {

// Ops go by their index. An operand is *older* if its storage is: older than
// the trace. What several ops use of it are weights, more often than not.
//
// Single-thread. Cost: two look-ups and some copying an op.
class OpHistory {
 public:
  struct Op {
    uint64_t hash;  // of its words
    engine::OpId op;
    size_t first_name;
    size_t operands;
    engine::ValueId values;  // when it came: its results are numbered from here
    // The last one of its form before it, and the last one of its operator on
    // its first older operand; itself: there is none.
    size_t before;
    size_t before_on_weight;
    bool has_older;
    int64_t elements = 0;  // of all operands
  };

  void Clear() {
    ops_.clear();
    names_.clear();
    last_.Clear();
    last_on_weight_.Clear();
  }

  // The op by the hash of its words; the operands as the open trace numbers
  // them.
  void Add(engine::OpId op, uint64_t hash,
           std::span<const engine::Operand> operands,
           std::span<const engine::ValueRef> values,
           const engine::OpenTrace& open) {
    const size_t index = ops_.size();
    const auto [last, first] = last_.FindOrPut(hash);
    ops_.push_back({hash, op, names_.size(), operands.size(), open.values(),
                    first ? index : last, index, false});
    for (const engine::Operand& operand : operands) {
      int64_t elements = 1;
      for (const int64_t size : operand.sizes) elements *= size;
      ops_.back().elements += elements;
    }
    last = index;
    for (size_t i = 0; i < operands.size(); ++i) {
      // A token of what the trace made may have been another's before; its
      // value's number has not. Tokens are even.
      const bool older = open.external(values[i].value);
      names_.push_back(older ? reinterpret_cast<uint64_t>(operands[i].storage)
                             : uint64_t{values[i].value} << 1 | 1);
      if (older && !ops_.back().has_older) NoteWeight(index);
    }
  }

  size_t size() const { return ops_.size(); }
  const Op& operator[](size_t index) const { return ops_[index]; }

  // The last op of that form; null: none has come.
  const size_t* FindLast(uint64_t hash) { return last_.Find(hash); }

  // The operators, with as many operands.
  bool SameCode(size_t a, size_t b) const {
    return ops_[a].op == ops_[b].op && ops_[a].operands == ops_[b].operands;
  }
  // The words.
  bool SameForm(size_t a, size_t b) const {
    return ops_[a].hash == ops_[b].hash && ops_[a].operands == ops_[b].operands;
  }
  // An operand is on the same storage. Both have as many.
  bool SameWeight(size_t a, size_t b) const {
    for (size_t i = 0; i < ops_[a].operands; ++i) {
      if (Name(a, i) == Name(b, i)) return true;
    }
    return false;
  }

  // By operand of `a`: it is the same in `b`, which has as many.
  std::vector<bool> SameOperands(size_t a, size_t b) const {
    std::vector<bool> same(ops_[a].operands);
    for (size_t i = 0; i < same.size(); ++i) same[i] = Name(a, i) == Name(b, i);
    return same;
  }
  // By operand of `a`; null where they are not the same, or made by the open
  // trace.
  std::vector<engine::StorageToken> SharedStorages(size_t a, size_t b) const {
    std::vector<engine::StorageToken> shared(ops_[a].operands, nullptr);
    for (size_t i = 0; i < std::min(ops_[a].operands, ops_[b].operands); ++i) {
      if (IsOlder(Name(a, i)) && Name(a, i) == Name(b, i))
        shared[i] = reinterpret_cast<engine::StorageToken>(Name(a, i));
    }
    return shared;
  }

  // The ops from `begin` to `half` and those from there to `end` use nearly the
  // same weights: a pass may do something that others do not. Cost: a walk over
  // all of them, and a sort.
  bool UseSameWeights(size_t begin, size_t half, size_t end) const {
    const Uses a = WeightUses(begin, half);
    const Uses b = WeightUses(half, end);
    Uses shared;
    std::ranges::set_intersection(a, b, std::back_inserter(shared));
    return !shared.empty() &&
           4 * shared.size() >= 3 * std::max(a.size(), b.size());
  }

  // Of a body that begins at `begin` and has come twice: by op, how many values
  // go from ops before it to it or to ops behind it, where the body goes round.
  // Cost: a walk over all ops.
  std::vector<int64_t> Crossings(size_t begin, size_t period) const {
    const std::vector<size_t> last_use = LastUses();
    // Begin with what goes from op k - 1 to op k, for each k of two bodies.
    std::vector<int64_t> change(2 * period + 1, 0);
    for (size_t k = 0; k < period; ++k) {
      const Op& op = ops_[begin + k];
      const Op& next = ops_[begin + k + 1];
      for (engine::ValueId v = op.values; v < next.values; ++v) {
        if (last_use[v] <= begin + k) continue;
        ++change[k + 1];
        --change[std::min(last_use[v] - begin, k + period) + 1];
      }
    }
    std::vector<int64_t> cross;
    std::partial_sum(change.begin(), change.end(), std::back_inserter(cross));
    for (size_t k = 0; k < period; ++k) cross[k] += cross[k + period];
    cross.resize(period);
    return cross;
  }

 private:
  static constexpr size_t kMostForms = size_t{1} << 20;

  // Which operators use which older storages, in order.
  using Uses = std::vector<std::pair<engine::OpId, uint64_t>>;
  Uses WeightUses(size_t begin, size_t end) const {
    Uses uses;
    for (size_t k = begin; k < end; ++k) {
      for (size_t i = 0; i < ops_[k].operands; ++i) {
        if (IsOlder(Name(k, i))) uses.emplace_back(ops_[k].op, Name(k, i));
      }
    }
    std::ranges::sort(uses);
    uses.erase(std::unique(uses.begin(), uses.end()), uses.end());
    return uses;
  }
  // Of each value that the trace had when its last op came: the last op that
  // uses it, 0 if none does.
  std::vector<size_t> LastUses() const {
    std::vector<size_t> last_use(ops_.back().values, 0);
    for (size_t k = 0; k < ops_.size(); ++k) {
      for (size_t i = 0; i < ops_[k].operands; ++i) {
        if (!IsOlder(Name(k, i))) last_use[Name(k, i) >> 1] = k;
      }
    }
    return last_use;
  }

  // Of a storage that is older than the trace, its token; else the number of
  // the value, and odd.
  uint64_t Name(size_t op, size_t operand) const {
    return names_[ops_[op].first_name + operand];
  }
  static bool IsOlder(uint64_t name) { return (name & 1) == 0; }

  // Of the op that came last, the name that came last is its first older one.
  void NoteWeight(size_t index) {
    ops_[index].has_older = true;
    const uint64_t words[] = {ops_[index].op, names_.back()};
    const auto [last, first] =
        last_on_weight_.FindOrPut(cache::HashWords(words).lo);
    if (!first) ops_[index].before_on_weight = last;
    last = index;
  }

  std::vector<Op> ops_;
  std::vector<uint64_t> names_;  // of operands, op by op
  // By hash, the last op of such a form.
  cache::RecentMap<size_t> last_{kMostForms};
  // By operator and first older operand.
  cache::RecentMap<size_t> last_on_weight_{kMostForms};
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_OP_HISTORY_H_
