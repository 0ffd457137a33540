// Which ops begin traces that have been seen.

#ifndef REPRISE_SCHEDULER_HEADS_H_
#define REPRISE_SCHEDULER_HEADS_H_

#include <algorithm>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/op.h"
#include "scheduler/trace_entry.h"

namespace reprise::scheduler {

// By the hash of a head's words, the trace that began there last. Tokens of
// storages are kept to be compared only, never looked into. Single-thread.
class Heads {
 public:
  struct Head {
    TraceEntry* entry = nullptr;
    std::vector<engine::StorageToken> storages;
  };

  void Put(uint64_t hash, TraceEntry* entry,
           std::vector<engine::StorageToken> storages) {
    filter_ |= Bit(hash);
    heads_[hash] = Head{entry, std::move(storages)};
  }

  const Head* Find(uint64_t hash) const {
    if ((filter_ & Bit(hash)) == 0) return nullptr;
    const auto found = heads_.find(hash);
    return found == heads_.end() ? nullptr : &found->second;
  }

  void Clear() {
    heads_.clear();
    filter_ = 0;
  }

  // One of the operands is the same storage in the same place (a weight,
  // usually), or there is too little to tell by.
  static bool SharesStorage(std::span<const engine::Operand> operands,
                            std::span<const engine::StorageToken> storages) {
    if (operands.size() != storages.size()) return false;
    for (size_t i = 0; i < operands.size(); ++i) {
      if (operands[i].storage == storages[i]) return true;
    }
    return operands.size() <= 1;
  }

  // All of them are.
  static bool SameStorages(std::span<const engine::Operand> operands,
                           std::span<const engine::StorageToken> storages) {
    return !operands.empty() &&
           std::equal(operands.begin(), operands.end(), storages.begin(),
                      storages.end(),
                      [](const engine::Operand& operand,
                         engine::StorageToken storage) {
                        return operand.storage == storage;
                      });
  }

 private:
  // Keeps most look-ups out of the table.
  static uint64_t Bit(uint64_t hash) { return uint64_t{1} << (hash & 63); }

  std::unordered_map<uint64_t, Head> heads_;
  uint64_t filter_ = 0;
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_HEADS_H_
