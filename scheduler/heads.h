// Which ops begin traces that have been seen.

#ifndef REPRISE_SCHEDULER_HEADS_H_
#define REPRISE_SCHEDULER_HEADS_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/trace/op.h"
#include "engine/trace/open_trace.h"
#include "scheduler/trace_entry.h"

namespace reprise::scheduler {

// By the hash of a head's words, the traces that began there. Tokens of
// storages are kept to be compared only, never looked into. Single-thread.
class Heads {
 public:
  // How many traces with heads of equal words are kept, and of one of them how
  // many ops that it came behind.
  static constexpr size_t kMost = 64;
  static constexpr size_t kMostBehind = 4;

  struct Head {
    TraceEntry* entry = nullptr;
    std::vector<engine::StorageToken> storages;  // of its operands, last time
    // Which ops it came behind, the last one first: a pass comes behind the one
    // before it, or behind a look at a number. Empty: none is known.
    std::vector<uint64_t> behind;
    std::vector<bool> varies;  // was not always the same: an input, no weight
  };

  void Put(uint64_t hash, TraceEntry* entry,
           std::vector<engine::StorageToken> storages, uint64_t behind = 0) {
    std::vector<Head>& heads = heads_[hash];
    if (heads.empty() && bits_[hash % kBits]++ == 0) filter_ |= Bit(hash);
    Head head{entry, std::move(storages), {}, {}};
    head.varies.resize(head.storages.size(), false);
    if (behind != 0) head.behind.push_back(behind);
    const auto old = Of(heads, entry);
    if (old != heads.end()) {
      for (const uint64_t op : old->behind) {
        if (op != behind && head.behind.size() < kMostBehind)
          head.behind.push_back(op);
      }
      for (size_t i = 0; i < head.storages.size(); ++i) {
        head.varies[i] = old->varies[i] || old->storages[i] != head.storages[i];
      }
      heads.erase(old);
    } else if (heads.size() == kMost) {
      heads.erase(heads.begin());
    }
    heads.push_back(std::move(head));
  }

  // `entry` begins where `old` did, which no trace is any more: what was
  // learned of its operands holds.
  void Succeed(uint64_t hash, const TraceEntry* old, TraceEntry* entry) {
    const auto found = heads_.find(hash);
    if (found == heads_.end()) return;
    const auto head = Of(found->second, old);
    if (head == found->second.end()) return;
    if (Of(found->second, entry) == found->second.end()) {
      head->entry = entry;
    } else {
      Remove(hash, old);
    }
  }

  // The one that came last is last.
  std::span<const Head> Find(uint64_t hash) const {
    if ((filter_ & Bit(hash)) == 0) return {};
    const auto found = heads_.find(hash);
    if (found == heads_.end()) return {};
    return found->second;
  }

  // Which trace begins with an op of these words: the one that the op's
  // weights tell; where they tell nothing, one that has come again before one
  // that came once (it may be several in a row), then `foreseen`, then the last
  // one. Null if the op has other weights than all. Of one that comes no more
  // when it is promised, an operand that was always the same may have been an
  // input that came once: it tells no more than those of others.
  TraceEntry* Choose(uint64_t hash, std::span<const engine::Operand> operands,
                     TraceId foreseen) const {
    const std::span<const Head> heads = Find(hash);
    int most = -1;  // of those that keep their promises
    for (const Head& head : heads) {
      if (KeepsPromises(head)) most = std::max(most, Agreement(head, operands));
    }
    TraceEntry* best = nullptr;
    std::tuple<int, bool, bool, bool> best_rank;
    for (const Head& head : heads) {
      int agreement = Agreement(head, operands);
      if (agreement < 0 && operands.size() > 1) continue;
      const bool keeps = KeepsPromises(head);
      if (!keeps && most >= 0) agreement = std::min(agreement, most);
      const std::tuple<int, bool, bool, bool> rank{
          agreement, head.entry->comes_again(), head.entry->id == foreseen,
          keeps};
      if (best != nullptr && rank < best_rank) continue;
      best = head.entry;
      best_rank = rank;
    }
    return best;
  }

  // No trace is expected to be that one any more.
  void Remove(uint64_t hash, const TraceEntry* entry) {
    const auto found = heads_.find(hash);
    if (found == heads_.end()) return;
    const auto head = Of(found->second, entry);
    if (head != found->second.end()) found->second.erase(head);
    if (!found->second.empty()) return;
    heads_.erase(found);
    if (--bits_[hash % kBits] == 0) filter_ &= ~Bit(hash);
  }

  void Clear() {
    heads_.clear();
    bits_ = {};
    filter_ = 0;
  }

  // Words of heads that are known.
  size_t size() const { return heads_.size(); }

  // How an op compares with a head of the same words: how many of its operands
  // are the same storage in the same place (weights, usually). Operands that
  // the open trace made do not count: a token of theirs may have been
  // another's.
  struct Likeness {
    size_t same = 0;
    size_t own = 0;  // operands that the open trace made
    size_t of = 0;
    bool all() const { return of > 0 && same == of; }
    // Or there is too little to tell by. What no operand tells may be anywhere
    // in a pass: it is known by the op that it comes behind.
    bool some(bool behind_the_same) const {
      if (of == 0) return behind_the_same;
      return same > 0 || (of == 1 && own == 0);
    }
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
  static constexpr uint64_t kBits = 64;
  static uint64_t Bit(uint64_t hash) { return uint64_t{1} << hash % kBits; }

  static std::vector<Head>::iterator Of(std::vector<Head>& heads,
                                        const TraceEntry* entry) {
    return std::find_if(heads.begin(), heads.end(), [entry](const Head& head) {
      return head.entry == entry;
    });
  }

  static bool KeepsPromises(const Head& head) {
    return head.entry->keeps_promises();
  }

  // Weights that are the same, less those that are not.
  static int Agreement(const Head& head,
                       std::span<const engine::Operand> operands) {
    int agreement = 0;
    const size_t of = std::min(operands.size(), head.storages.size());
    for (size_t i = 0; i < of; ++i) {
      if (head.varies[i]) continue;
      agreement += operands[i].storage == head.storages[i] ? 1 : -1;
    }
    return agreement;
  }

  std::unordered_map<uint64_t, std::vector<Head>> heads_;
  uint64_t filter_ = 0;
  std::array<uint32_t, kBits> bits_{};  // how many hashes have each
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_HEADS_H_
