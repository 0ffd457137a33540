// Which ops begin traces that have been seen.

#ifndef REPRISE_SCHEDULER_HEADS_H_
#define REPRISE_SCHEDULER_HEADS_H_

#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/op.h"
#include "engine/open_trace.h"
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

  // How an op compares with a head of the same words: how many of its operands
  // are the same storage in the same place (weights, usually). Operands that
  // the open trace made do not count: a token of theirs may have been
  // another's.
  struct Likeness {
    size_t same = 0;
    size_t own = 0;  // operands that the open trace made
    size_t of = 0;
    bool all() const { return of > 0 && same == of; }
    // Or there is too little to tell by.
    bool some() const { return same > 0 || (of <= 1 && own == 0); }
  };
  static Likeness Compare(std::span<const engine::Operand> operands,
                          std::span<const engine::StorageToken> storages,
                          const engine::OpenTrace& open) {
    Likeness likeness{.of = operands.size()};
    for (size_t i = 0; i < operands.size(); ++i) {
      if (open.Owns(operands[i])) {
        ++likeness.own;
      } else if (i < storages.size() && operands[i].storage == storages[i]) {
        ++likeness.same;
      }
    }
    return likeness;
  }

 private:
  // Keeps most look-ups out of the table.
  static uint64_t Bit(uint64_t hash) { return uint64_t{1} << (hash & 63); }

  std::unordered_map<uint64_t, Head> heads_;
  uint64_t filter_ = 0;
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_HEADS_H_
