// Ops of a test that have nothing but an operator, storages and a size.

#ifndef REPRISE_TESTS_SCHEDULER_OP_ON_STORAGES_H_
#define REPRISE_TESTS_SCHEDULER_OP_ON_STORAGES_H_

#include <cstdint>
#include <vector>

#include "engine/trace/op.h"

namespace reprise::scheduler {

// Storages go by numbers, and lie 4 KiB apart.
inline constexpr uint64_t kStorageBytes = 0x1000;

inline engine::StorageToken TokenOf(uint64_t storage) {
  return engine::Token(kStorageBytes * storage);
}

// Calls `use` with an op of such an operator on those storages; its words are
// the operator and the size.
template <typename Use>
void WithOp(engine::OpId op, const std::vector<uint64_t>& storages,
            int64_t size, const Use& use) {
  const int64_t sizes[] = {size};
  std::vector<engine::Operand> operands;
  for (const uint64_t storage : storages) {
    engine::Operand& operand = operands.emplace_back();
    operand.sizes = sizes;
    operand.storage = TokenOf(storage);
    operand.base = storage * kStorageBytes;
    operand.storage_bytes = 64;
  }
  const uint64_t words[] = {op, static_cast<uint64_t>(size)};
  engine::OpView view;
  view.op = op;
  view.words = words;
  view.operands = operands;
  use(view);
}

// The result of an op: a tensor in that storage.
inline engine::ResultView ResultIn(uint64_t storage) {
  engine::ResultView result;
  result.kind = engine::ResultView::Kind::kTensor;
  result.storage = TokenOf(storage);
  result.base = storage * kStorageBytes;
  return result;
}

}  // namespace reprise::scheduler

#endif  // REPRISE_TESTS_SCHEDULER_OP_ON_STORAGES_H_
