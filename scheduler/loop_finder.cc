#include "scheduler/loop_finder.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "scheduler/heads.h"

namespace reprise::scheduler {
namespace {

// Null where it is another one each time.
std::vector<engine::StorageToken> StoragesAt(
    const std::vector<bool>& weights,
    std::span<const engine::Operand> operands) {
  std::vector<engine::StorageToken> storages(operands.size(), nullptr);
  for (size_t i = 0; i < std::min(weights.size(), storages.size()); ++i) {
    if (weights[i]) storages[i] = operands[i].storage;
  }
  return storages;
}

}  // namespace

void LoopFinder::Learn(const engine::OpView& op) {
  using Edge = LoopCode::Edge;
  if (repeated_ != Repetition::Found::kCode) return;
  std::vector<engine::StorageToken> begin =
      StoragesAt(repetition_.WeightsOfTheBegin(), op.operands);
  const bool has_weight = std::ranges::any_of(
      begin, [](engine::StorageToken one) { return one != nullptr; });
  if (has_weight) {
    code_.Learn(Edge::kBegin, op.op, {std::move(begin)});
  } else if (std::optional<Repetition::End> end = repetition_.EndOfTheBody()) {
    code_.Learn(Edge::kEnd, end->op, {std::move(end->storages), end->after});
  }
}

void LoopFinder::FollowBody(const engine::OpView& op,
                            const engine::OpenTrace& open) {
  if (const auto* end = FindCode(LoopCode::Edge::kEnd, op, open)) {
    left_of_body_ = end->after;
  } else if (left_of_body_.has_value()) {
    left_of_body_ =
        *left_of_body_ == 0 ? std::nullopt : std::optional(*left_of_body_ - 1);
  }
}

const LoopCode::Op* LoopFinder::FindCode(LoopCode::Edge edge,
                                         const engine::OpView& op,
                                         const engine::OpenTrace& open) const {
  for (const LoopCode::Op& code : code_.Find(edge, op.op)) {
    // No operand is where there is no weight: that storage is null.
    if (Heads::Compare(op.operands, code.storages, open).same > 0) {
      return &code;
    }
  }
  return nullptr;
}

}  // namespace reprise::scheduler
