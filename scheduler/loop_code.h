// Loops that are told by their code.

#ifndef REPRISE_SCHEDULER_LOOP_CODE_H_
#define REPRISE_SCHEDULER_LOOP_CODE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "cache/lru_map.h"
#include "engine/trace/op.h"

namespace reprise::scheduler {

// The operators, with the weights that they are called on, with which the
// passes of a loop begin or end whatever their sizes are. Bounded. Tokens of
// storages are kept to be compared only. Single-thread. Cost: a hash look-up an
// op.
class LoopCode {
 public:
  enum class Edge : uint8_t { kBegin, kEnd };

  struct Op {
    // The storages of its operands; null: it is on another one each time.
    std::vector<engine::StorageToken> storages;
    uint32_t after = 0;  // an end is so many ops behind it
  };

  void Learn(Edge edge, engine::OpId op, Op code) {
    std::vector<Op>& all = At(edge).Put(op);
    const auto old = std::ranges::find(all, code.storages, &Op::storages);
    if (old != all.end()) {
      old->after = code.after;
      return;
    }
    if (all.size() == kMostOfOne) all.erase(all.begin());
    all.push_back(std::move(code));
  }
  std::span<const Op> Find(Edge edge, engine::OpId op) {
    Ops& ops = At(edge);
    if (ops.empty()) return {};
    const auto* all = ops.Find(op);
    if (all == nullptr) return {};
    return *all;
  }

  void Clear() {
    begins_.Clear();
    ends_.Clear();
  }

 private:
  using Ops = cache::LruMap<engine::OpId, std::vector<Op>>;
  static constexpr size_t kMostOperators = 4096;
  static constexpr size_t kMostOfOne = 8;

  Ops& At(Edge edge) { return edge == Edge::kBegin ? begins_ : ends_; }

  Ops begins_{kMostOperators};
  Ops ends_{kMostOperators};
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_LOOP_CODE_H_
