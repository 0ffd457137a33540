// Which numbers of a session's ops stand in their words.

#ifndef REPRISE_SCHEDULER_NUMBER_MASK_H_
#define REPRISE_SCHEDULER_NUMBER_MASK_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "cache/lru_map.h"
#include "cache/signature.h"
#include "engine/trace/mask_numbers.h"
#include "engine/trace/op.h"

namespace reprise::scheduler {

// Numbers that may be others at each pass give way to markers, so that the op's
// words are the same; but not those of ops of which a build found that nothing
// tells how kernels hold them. Single-thread. Cost: a copy of the words, and
// their hash.
class NumberMask {
 public:
  // Puts markers into a copy of the op's words, which lives until the next
  // call, and hashes them.
  cache::Signature Apply(engine::OpView& op) {
    const std::span<const uint64_t> words = op.words;
    op.words = engine::MaskNumbers(op, room_);
    cache::Signature hash = cache::HashWords(op.words);
    if (!kept_.empty() && kept_.Find(hash.lo) != nullptr) {
      op.words = words;
      hash = cache::HashWords(words);
    }
    return hash;
  }

  // Ops of these words, by the hash of the masked ones, keep their numbers.
  void Keep(uint64_t masked_hash) { kept_.Put(masked_hash); }

  void Clear() { kept_.Clear(); }
  uint64_t forgotten() const { return kept_.forgotten(); }

 private:
  static constexpr size_t kMostKept = 4096;

  std::vector<uint64_t> room_;
  cache::LruMap<uint64_t, std::monostate> kept_{kMostKept};
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_NUMBER_MASK_H_
