#include "scheduler/ops_under_way.h"

#include <algorithm>

namespace reprise::scheduler {

void OpsUnderWay::Slot::Begin(std::span<const engine::Operand> operands,
                              Exempt but_for) {
  if (elsewhere_ != nullptr) {
    // It stands as one that writes anything, for all.
    if (std::ranges::any_of(operands, &engine::Operand::written)) {
      but_for_.store(nullptr, std::memory_order_relaxed);
    }
    return;
  }
  but_for_.store(but_for, std::memory_order_relaxed);
  uint32_t count = 0;
  for (const engine::Operand& operand : operands) {
    if (!operand.written) continue;
    uint64_t begin = operand.base;
    uint64_t end = operand.base + operand.storage_bytes;
    if (count == kMostRanges) {
      const Range& last = ranges_[count - 1];
      begin = std::min(begin, last.begin.load(std::memory_order_relaxed));
      end = std::max(end, last.end.load(std::memory_order_relaxed));
    } else {
      ++count;
    }
    ranges_[count - 1].begin.store(begin, std::memory_order_relaxed);
    ranges_[count - 1].end.store(end, std::memory_order_relaxed);
  }
  if (count > 0) Publish(count);
}

OpsUnderWay::~OpsUnderWay() {
  for (Slot* slot = slots_.load(std::memory_order_relaxed); slot != nullptr;) {
    Slot* const next = slot->next_;
    delete slot;
    slot = next;
  }
}

OpsUnderWay::Slot* OpsUnderWay::Acquire() {
  for (Slot* slot = slots_.load(std::memory_order_acquire); slot != nullptr;
       slot = slot->next_) {
    bool taken = false;
    // Acquire: the thread that gave it back has written it last.
    if (!slot->taken_.load(std::memory_order_relaxed) &&
        slot->taken_.compare_exchange_strong(taken, true,
                                             std::memory_order_acquire)) {
      return slot;
    }
  }
  auto* const added = new Slot;
  added->taken_.store(true, std::memory_order_relaxed);
  added->next_ = slots_.load(std::memory_order_relaxed);
  // Release: whoever finds the slot finds the one behind it.
  while (!slots_.compare_exchange_weak(added->next_, added,
                                       std::memory_order_release)) {
  }
  return added;
}

}  // namespace reprise::scheduler
