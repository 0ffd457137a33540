// Which value of the open trace a storage is.

#ifndef REPRISE_ENGINE_TRACE_STORAGE_TABLE_H_
#define REPRISE_ENGINE_TRACE_STORAGE_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/trace/op.h"
#include "engine/trace/trace.h"

namespace reprise::engine {

// A storage as the open trace knows it.
struct KnownStorage {
  StorageToken token = nullptr;
  uint64_t base = 0;    // a storage that moved is another value
  uint64_t origin = 0;  // as Value::origin
  ValueId value = 0;
  bool external = false;
};

// Open addressing, emptied in constant time. A token that appears again with
// another base, or as a new result, replaces what was known of it: storages
// come and go while a trace is open, and nothing here keeps them alive.
// Thread-compatible. Cost: some 3 ns a look-up.
class StorageTable {
 public:
  StorageTable() : slots_(256) {}

  void Clear() {
    ++epoch_;
    used_ = 0;
  }

  // Null if `token` at `base` is not known.
  const KnownStorage* Find(StorageToken token, uint64_t base) const {
    const Slot& slot = slots_[Probe(token)];
    if (slot.epoch != epoch_ || slot.known.base != base) return nullptr;
    return &slot.known;
  }

  // What is known of it, or room for it, which the caller fills at once.
  struct Place {
    KnownStorage* known;
    bool fresh;
  };
  Place FindOrAdd(StorageToken token, uint64_t base) {
    if ((used_ + 1) * 2 > slots_.size()) Grow();
    Slot& slot = slots_[Probe(token)];
    const bool empty = slot.epoch != epoch_;
    const bool fresh = empty || slot.known.base != base;
    if (empty) ++used_;
    slot.epoch = epoch_;
    return {&slot.known, fresh};
  }

  void Put(const KnownStorage& known) {
    if ((used_ + 1) * 2 > slots_.size()) Grow();
    Slot& slot = slots_[Probe(known.token)];
    if (slot.epoch != epoch_) ++used_;
    slot.epoch = epoch_;
    slot.known = known;
  }

 private:
  struct Slot {
    uint64_t epoch = 0;
    KnownStorage known;
  };

  size_t Probe(StorageToken token) const {
    const size_t mask = slots_.size() - 1;
    size_t i = (reinterpret_cast<uint64_t>(token) * 0x9E3779B97F4A7C15u) >> 32;
    for (i &= mask; slots_[i].epoch == epoch_ && slots_[i].known.token != token;
         i = (i + 1) & mask) {
    }
    return i;
  }

  void Grow() {
    std::vector<Slot> old = std::move(slots_);
    slots_ = std::vector<Slot>(old.size() * 2);
    for (const Slot& slot : old) {
      if (slot.epoch == epoch_) slots_[Probe(slot.known.token)] = slot;
    }
  }

  std::vector<Slot> slots_;  // a power of two
  uint64_t epoch_ = 1;
  size_t used_ = 0;
};

}  // namespace reprise::engine

#endif  // REPRISE_ENGINE_TRACE_STORAGE_TABLE_H_
