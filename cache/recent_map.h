// A map from hashes that forgets about what has not been used for longest.

#ifndef REPRISE_CACHE_RECENT_MAP_H_
#define REPRISE_CACHE_RECENT_MAP_H_

#include <cstddef>
#include <cstdint>
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
    return slot.used == 0 ? nullptr : &Use(key, slot);
  }
  // The value of `key`, from now on the most recently used; made anew if there
  // was none.
  Value& Put(uint64_t key) {
    if (Value* value = Find(key)) return *value;
    if (2 * (size_ + 1) > slots_.size()) {
      Rebuild(slots_.empty() ? kFewest : 2 * slots_.size(), 1);
    }
    ++size_;
    Slot& slot = SlotFor(key);
    slot.key = key;
    return Use(key, slot);
  }
  void Clear() {
    slots_.assign(slots_.size(), Slot{});
    size_ = 0;
    recent_ = 0;
    generation_ = 1;
  }

 private:
  // Open addressing with linear probing, at most half full.
  struct Slot {
    uint64_t key = 0;
    Value value{};
    uint32_t used = 0;  // in which generation last; 0: there is no entry
  };
  static constexpr size_t kFewest = 64;  // a power of two, as all are

  // Where the key is, or would go.
  Slot& SlotFor(uint64_t key) {
    const size_t mask = slots_.size() - 1;
    size_t at = key & mask;
    while (slots_[at].used != 0 && slots_[at].key != key) at = (at + 1) & mask;
    return slots_[at];
  }
  Value& Use(uint64_t key, Slot& slot) {
    if (slot.used == generation_) return slot.value;
    slot.used = generation_;
    if (++recent_ < most_) return slot.value;
    Rebuild(slots_.size(), generation_);
    ++generation_;
    recent_ = 0;
    return SlotFor(key).value;
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
  size_t recent_ = 0;  // that were used in this generation
  uint32_t generation_ = 1;
};

}  // namespace reprise::cache

#endif  // REPRISE_CACHE_RECENT_MAP_H_
