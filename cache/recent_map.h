// A map from hashes that forgets about what has not been used for longest.

#ifndef REPRISE_CACHE_RECENT_MAP_H_
#define REPRISE_CACHE_RECENT_MAP_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace reprise::cache {

// Knows the `most` keys that were used last, and up to as many again of those
// before: each time that so many have come, those go that were not used since
// the time before. That takes no links between entries and no allocation for
// one, unlike LruMap, whose bound is exact.
//
// Keys are hashes: their low bits are spread evenly. A pointer to a value holds
// until the next call. Single-thread. Cost: a look-up touches one cache line,
// mostly; memory for 4 * `most` slots of a key, a value and a number, rounded
// up to a power of two, and twice that while it is built anew.
template <typename Value>
class RecentMap {
 public:
  explicit RecentMap(size_t most) : most_(most) {}

  // The value, from now on the most recently used; null if there is none.
  Value* Find(uint64_t key) {
    if (slots_.empty()) return nullptr;
    Slot& slot = SlotFor(key);
    return Empty(slot) ? nullptr : &Use(key, slot);
  }
  // The value of `key`, from now on the most recently used, and whether it was
  // made anew, as there was none.
  std::pair<Value&, bool> FindOrPut(uint64_t key) {
    if (2 * (size_ + 1) > slots_.size()) [[unlikely]]
      Rebuild(slots_.empty() ? kFewest : 2 * slots_.size(), oldest_);
    Slot& slot = SlotFor(key);
    const bool fresh = Empty(slot);
    if (fresh) {
      ++size_;
      slot = {.key = key};
    }
    return {Use(key, slot), fresh};
  }
  Value& Put(uint64_t key) { return FindOrPut(key).first; }
  // Takes no time: what there is belongs to generations that are over.
  void Clear() {
    size_ = 0;
    recent_ = 0;
    NextGeneration();
    oldest_ = generation_;
  }

 private:
  // Open addressing with linear probing, at most half full.
  struct Slot {
    uint64_t key = 0;
    Value value{};
    uint32_t used = 0;  // in which generation last
  };
  static constexpr size_t kFewest = 64;  // a power of two, as all are

  bool Empty(const Slot& slot) const { return slot.used < oldest_; }

  // Where the key is, or would go.
  Slot& SlotFor(uint64_t key) {
    const size_t mask = slots_.size() - 1;
    size_t at = key & mask;
    while (!Empty(slots_[at]) && slots_[at].key != key) at = (at + 1) & mask;
    return slots_[at];
  }
  Value& Use(uint64_t key, Slot& slot) {
    if (slot.used == generation_) return slot.value;
    slot.used = generation_;
    if (++recent_ < most_) return slot.value;
    Rebuild(slots_.size(), generation_);
    NextGeneration();
    recent_ = 0;
    return SlotFor(key).value;
  }
  void NextGeneration() {
    if (++generation_ != 0) return;
    // The numbers have come to an end: all that there is, is of the first one.
    for (Slot& slot : slots_) slot.used = Empty(slot) ? 0 : 1;
    oldest_ = 1;
    generation_ = 2;
  }
  // Keeps what was used since that generation began.
  void Rebuild(size_t slots, uint32_t since) {
    std::vector<Slot> before(slots);
    before.swap(slots_);
    size_ = 0;
    for (const Slot& slot : before) {
      if (slot.used < since) continue;
      SlotFor(slot.key) = slot;
      ++size_;
    }
  }

  const size_t most_;
  std::vector<Slot> slots_;
  size_t size_ = 0;
  size_t recent_ = 0;    // that were used in this generation
  uint32_t oldest_ = 1;  // generation of which there may be entries
  uint32_t generation_ = 1;
};

}  // namespace reprise::cache

#endif  // REPRISE_CACHE_RECENT_MAP_H_
