// A cache whose entries stay while they are in use.

#ifndef REPRISE_CACHE_LRU_CACHE_H_
#define REPRISE_CACHE_LRU_CACHE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <string>
#include <unordered_map>
#include <utility>

#include "engine/base/mutex.h"
#include "engine/base/status.h"

namespace reprise::cache {

// Maps keys to values under a budget of bytes: what is looked up is pinned, and
// of what is not pinned the least recently used goes first.
//
// An entry is in one of three states:
//
//   idle      in the table, no pin; may be evicted
//   pinned    in the table, one pin or more
//   detached  no longer in the table, still pinned
//
//   Insert ─► pinned ◄─Lookup─ idle ─Evict, Erase, Insert─► gone
//               │ ──last pin──► ▲
//               └─Erase, Insert of its key─► detached ─last pin─► gone
//
// Every entry that is not gone counts towards the charge, so the charge is what
// the values really hold. It never exceeds the budget.
//
// The cache must outlive its pins. Values are destroyed, and the eviction
// callback runs, under no lock of the cache's, on the thread whose call let the
// value go: both may use the cache. Thread-safe; a pinned value is as
// thread-safe as its type. Cost: one uncontended lock and one hash a call; only
// Insert allocates.
template <typename Key, typename Value, typename Hash = std::hash<Key>>
class PinnedLruCache {
  struct Entry;
  using Entries = std::list<Entry>;
  using Position = typename Entries::iterator;

 public:
  // Keeps one entry from eviction and its value in place. Move-only; a pin that
  // is moved from or default-made is empty. Thread-compatible.
  class Pin {
   public:
    Pin() = default;
    Pin(Pin&& other) noexcept { Swap(other); }
    Pin& operator=(Pin&& other) noexcept {
      Pin(std::move(other)).Swap(*this);
      return *this;
    }
    ~Pin() {
      if (cache_ != nullptr) cache_->Unpin(position_);
    }

    explicit operator bool() const { return cache_ != nullptr; }
    Value& operator*() const { return position_->value; }
    Value* operator->() const { return &position_->value; }
    const Key& key() const { return position_->key; }

   private:
    friend class PinnedLruCache;
    Pin(PinnedLruCache* cache, Position position)
        : cache_(cache), position_(position) {}
    void Swap(Pin& other) noexcept {
      std::swap(cache_, other.cache_);
      std::swap(position_, other.position_);
    }

    PinnedLruCache* cache_ = nullptr;
    Position position_;
  };

  struct Stats {
    uint64_t hits = 0;
    uint64_t misses = 0;
    uint64_t evictions = 0;
    size_t entries = 0;  // in the table
    size_t pinned = 0;   // entries that have pins, detached ones included
    size_t charge_bytes = 0;
  };

  using EvictionCallback = std::function<void(const Key& key, Value& value)>;

  // `on_evict` sees what the budget, Trim or EvictIf pushes out, just before it
  // is destroyed; not what is erased or replaced.
  explicit PinnedLruCache(size_t budget_bytes, EvictionCallback on_evict = {})
      : on_evict_(std::move(on_evict)), budget_bytes_(budget_bytes) {}
  // Values may hold pins of other entries.
  ~PinnedLruCache() { Clear(); }
  PinnedLruCache(const PinnedLruCache&) = delete;
  PinnedLruCache& operator=(const PinnedLruCache&) = delete;

  // Takes the place of an entry with the same key, if there is one, and evicts
  // idle entries until the charge is within the budget. If even that is not
  // enough, kResourceExhausted: nothing was evicted or replaced then, and
  // `value` is gone.
  base::Result<Pin> Insert(Key key, Value value, size_t charge_bytes)
      REPRISE_EXCLUDES(mutex_);

  size_t budget_bytes() const { return budget_bytes_; }

  // An empty pin if there is no such entry.
  Pin Lookup(const Key& key) REPRISE_EXCLUDES(mutex_);

  // Lookup would find it. Nothing is used by it.
  bool Contains(const Key& key) const REPRISE_EXCLUDES(mutex_);

  // From now on the pinned value counts for `charge_bytes`. Evicts idle entries
  // until the charge is within the budget; kResourceExhausted, and nothing has
  // changed, if even that is not enough. Charging less never fails.
  base::Status Recharge(const Pin& pin, size_t charge_bytes)
      REPRISE_EXCLUDES(mutex_);

  // False if there is no such entry.
  bool Erase(const Key& key) REPRISE_EXCLUDES(mutex_);

  // Erases all entries.
  void Clear() REPRISE_EXCLUDES(mutex_);

  // Evicts idle entries, least recently used first, until the charge is at most
  // `target_bytes` or none is left.
  void Trim(size_t target_bytes) REPRISE_EXCLUDES(mutex_);

  // Evicts every idle entry whose key `goes` accepts, and returns what they
  // were charged. `goes` runs under the cache's lock: it must not use the
  // cache.
  template <typename Predicate>
  size_t EvictIf(const Predicate& goes) REPRISE_EXCLUDES(mutex_);

  Stats stats() const REPRISE_EXCLUDES(mutex_);
  // Entries in the table whose key `counts` accepts.
  template <typename Predicate>
  size_t CountIf(const Predicate& counts) const REPRISE_EXCLUDES(mutex_) {
    const base::MutexLock lock(mutex_);
    return static_cast<size_t>(std::count_if(
        table_.begin(), table_.end(),
        [&counts](const auto& entry) { return counts(entry.first); }));
  }

 private:
  struct Entry {
    Key key;
    Value value;
    size_t charge_bytes;
    size_t pins;
    bool detached;
  };
  using Table = std::unordered_map<Key, Position, Hash>;

  void Unpin(Position position) REPRISE_EXCLUDES(mutex_);

  // kResourceExhausted if `charge_bytes` more than what is pinned, less
  // `freed_bytes` of that, would be over the budget.
  base::Status FitsLocked(size_t charge_bytes, size_t freed_bytes) const
      REPRISE_REQUIRES(mutex_);
  void PinLocked(Position position) REPRISE_REQUIRES(mutex_);
  // Takes an entry out of the table; moves it to `gone` if no pin holds it.
  void DetachLocked(typename Table::iterator found, Entries& gone)
      REPRISE_REQUIRES(mutex_);
  void TrimLocked(size_t target_bytes, Entries& evicted)
      REPRISE_REQUIRES(mutex_);
  // Runs the callback on each; the list destroys them.
  void Report(Entries& evicted) REPRISE_EXCLUDES(mutex_);

  const EvictionCallback on_evict_;
  const size_t budget_bytes_;
  mutable base::Mutex mutex_;
  size_t charge_bytes_ REPRISE_GUARDED_BY(mutex_) = 0;
  size_t idle_bytes_ REPRISE_GUARDED_BY(mutex_) = 0;
  Entries idle_ REPRISE_GUARDED_BY(mutex_);    // least recently used first
  Entries pinned_ REPRISE_GUARDED_BY(mutex_);  // and detached; no order
  Table table_ REPRISE_GUARDED_BY(mutex_);
  uint64_t hits_ REPRISE_GUARDED_BY(mutex_) = 0;
  uint64_t misses_ REPRISE_GUARDED_BY(mutex_) = 0;
  uint64_t evictions_ REPRISE_GUARDED_BY(mutex_) = 0;
};

template <typename Key, typename Value, typename Hash>
auto PinnedLruCache<Key, Value, Hash>::Insert(Key key, Value value,
                                              size_t charge_bytes)
    -> base::Result<Pin> {
  Entries made;
  made.push_back({std::move(key), std::move(value), charge_bytes, 1, false});
  const Position position = made.begin();
  Entries replaced;
  Entries evicted;
  {
    base::MutexLock lock(mutex_);
    const auto found = table_.find(position->key);
    REPRISE_RETURN_IF_ERROR(FitsLocked(charge_bytes, /*freed_bytes=*/0));
    if (found != table_.end()) DetachLocked(found, replaced);
    TrimLocked(budget_bytes_ - charge_bytes, evicted);
    charge_bytes_ += charge_bytes;
    pinned_.splice(pinned_.end(), made);
    table_.emplace(position->key, position);
  }
  Report(evicted);
  return Pin(this, position);
}

template <typename Key, typename Value, typename Hash>
base::Status PinnedLruCache<Key, Value, Hash>::Recharge(const Pin& pin,
                                                        size_t charge_bytes) {
  Entries evicted;
  {
    base::MutexLock lock(mutex_);
    Entry& entry = *pin.position_;
    if (charge_bytes > entry.charge_bytes) {
      REPRISE_RETURN_IF_ERROR(FitsLocked(charge_bytes, entry.charge_bytes));
    }
    charge_bytes_ = charge_bytes_ - entry.charge_bytes + charge_bytes;
    entry.charge_bytes = charge_bytes;
    TrimLocked(budget_bytes_, evicted);
  }
  Report(evicted);
  return {};
}

template <typename Key, typename Value, typename Hash>
auto PinnedLruCache<Key, Value, Hash>::Lookup(const Key& key) -> Pin {
  base::MutexLock lock(mutex_);
  const auto found = table_.find(key);
  if (found == table_.end()) {
    ++misses_;
    return Pin();
  }
  ++hits_;
  PinLocked(found->second);
  return Pin(this, found->second);
}

template <typename Key, typename Value, typename Hash>
bool PinnedLruCache<Key, Value, Hash>::Contains(const Key& key) const {
  base::MutexLock lock(mutex_);
  return table_.contains(key);
}

template <typename Key, typename Value, typename Hash>
bool PinnedLruCache<Key, Value, Hash>::Erase(const Key& key) {
  Entries gone;  // outlives the lock, as in Clear
  base::MutexLock lock(mutex_);
  const auto found = table_.find(key);
  if (found == table_.end()) return false;
  DetachLocked(found, gone);
  return true;
}

template <typename Key, typename Value, typename Hash>
void PinnedLruCache<Key, Value, Hash>::Clear() {
  Entries gone;
  base::MutexLock lock(mutex_);
  while (!table_.empty()) DetachLocked(table_.begin(), gone);
}

template <typename Key, typename Value, typename Hash>
void PinnedLruCache<Key, Value, Hash>::Trim(size_t target_bytes) {
  Entries evicted;
  {
    base::MutexLock lock(mutex_);
    TrimLocked(target_bytes, evicted);
  }
  Report(evicted);
}

template <typename Key, typename Value, typename Hash>
template <typename Predicate>
size_t PinnedLruCache<Key, Value, Hash>::EvictIf(const Predicate& goes) {
  Entries evicted;
  size_t evicted_bytes = 0;
  {
    base::MutexLock lock(mutex_);
    for (Position next = idle_.begin(); next != idle_.end();) {
      const Position position = next++;
      if (!goes(std::as_const(position->key))) continue;
      evicted_bytes += position->charge_bytes;
      DetachLocked(table_.find(position->key), evicted);
      ++evictions_;
    }
  }
  Report(evicted);
  return evicted_bytes;
}

template <typename Key, typename Value, typename Hash>
auto PinnedLruCache<Key, Value, Hash>::stats() const -> Stats {
  base::MutexLock lock(mutex_);
  return {.hits = hits_,
          .misses = misses_,
          .evictions = evictions_,
          .entries = table_.size(),
          .pinned = pinned_.size(),
          .charge_bytes = charge_bytes_};
}

template <typename Key, typename Value, typename Hash>
void PinnedLruCache<Key, Value, Hash>::Unpin(Position position) {
  Entries gone;  // outlives the lock, as in Clear
  base::MutexLock lock(mutex_);
  if (--position->pins != 0) return;
  if (position->detached) {
    charge_bytes_ -= position->charge_bytes;
    gone.splice(gone.end(), pinned_, position);
  } else {
    idle_bytes_ += position->charge_bytes;
    idle_.splice(idle_.end(), pinned_, position);
  }
}

template <typename Key, typename Value, typename Hash>
base::Status PinnedLruCache<Key, Value, Hash>::FitsLocked(
    size_t charge_bytes, size_t freed_bytes) const {
  const size_t fixed_bytes = charge_bytes_ - idle_bytes_ - freed_bytes;
  if (charge_bytes <= budget_bytes_ &&
      fixed_bytes <= budget_bytes_ - charge_bytes) {
    return {};
  }
  return base::Fail(base::Code::kResourceExhausted,
                    std::to_string(charge_bytes) +
                        " bytes do not fit: " + std::to_string(fixed_bytes) +
                        " of the budget of " + std::to_string(budget_bytes_) +
                        " are in use; raise the budget");
}

template <typename Key, typename Value, typename Hash>
void PinnedLruCache<Key, Value, Hash>::PinLocked(Position position) {
  if (position->pins++ != 0) return;
  idle_bytes_ -= position->charge_bytes;
  pinned_.splice(pinned_.end(), idle_, position);
}

template <typename Key, typename Value, typename Hash>
void PinnedLruCache<Key, Value, Hash>::DetachLocked(
    typename Table::iterator found, Entries& gone) {
  const Position position = found->second;
  table_.erase(found);
  if (position->pins != 0) {
    position->detached = true;
    return;
  }
  idle_bytes_ -= position->charge_bytes;
  charge_bytes_ -= position->charge_bytes;
  gone.splice(gone.end(), idle_, position);
}

template <typename Key, typename Value, typename Hash>
void PinnedLruCache<Key, Value, Hash>::TrimLocked(size_t target_bytes,
                                                  Entries& evicted) {
  while (charge_bytes_ > target_bytes && !idle_.empty()) {
    DetachLocked(table_.find(idle_.front().key), evicted);
    ++evictions_;
  }
}

template <typename Key, typename Value, typename Hash>
void PinnedLruCache<Key, Value, Hash>::Report(Entries& evicted) {
  if (!on_evict_) return;
  for (Entry& entry : evicted) on_evict_(entry.key, entry.value);
}

}  // namespace reprise::cache

#endif  // REPRISE_CACHE_LRU_CACHE_H_
