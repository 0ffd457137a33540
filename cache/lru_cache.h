// A cache whose entries stay while they are in use.

#ifndef REPRISE_CACHE_LRU_CACHE_H_
#define REPRISE_CACHE_LRU_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "cache/pinned_entries.h"
#include "engine/base/mutex.h"
#include "engine/base/status.h"

namespace reprise::cache {

// Maps keys to values under a budget of bytes: what is looked up is pinned, and
// of what is not pinned the least recently used goes first.
//
// PinnedEntries has the states of an entry. What is erased or replaced goes
// with its last pin, and counts towards the charge until then. The charge never
// exceeds the budget.
//
// The cache must outlive its pins. Values are destroyed, and the eviction
// callback runs, under no lock of the cache's, on the thread whose call let the
// value go: both may use the cache. Thread-safe; a pinned value is as
// thread-safe as its type. Cost: one uncontended lock and one hash a call; only
// Insert allocates.
template <typename Key, typename Value, typename Hash = std::hash<Key>>
class PinnedLruCache {
  using Table = PinnedEntries<Key, Value, Hash>;
  using Entries = typename Table::Entries;
  using Position = typename Table::Position;

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
      : on_evict_(std::move(on_evict)),
        budget_bytes_(budget_bytes),
        entries_(budget_bytes) {}
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
  bool Contains(const Key& key) const REPRISE_EXCLUDES(mutex_) {
    const base::MutexLock lock(mutex_);
    return entries_.Contains(key);
  }

  // From now on the pinned value counts for `charge_bytes`. Evicts idle entries
  // until the charge is within the budget; kResourceExhausted, and nothing has
  // changed, if even that is not enough. Charging less never fails.
  base::Status Recharge(const Pin& pin, size_t charge_bytes)
      REPRISE_EXCLUDES(mutex_);

  // False if there is no such entry.
  bool Erase(const Key& key) REPRISE_EXCLUDES(mutex_) {
    Entries gone;  // outlives the lock, so that nothing is destroyed under it
    const base::MutexLock lock(mutex_);
    return entries_.Detach(key, gone);
  }

  // Erases all entries.
  void Clear() REPRISE_EXCLUDES(mutex_) {
    Entries gone;  // the same
    const base::MutexLock lock(mutex_);
    entries_.DetachAll(gone);
  }

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
    return entries_.CountIf(counts);
  }

 private:
  void Unpin(Position position) REPRISE_EXCLUDES(mutex_);
  // Runs the callback on each; the list destroys them.
  void Report(Entries& evicted) REPRISE_EXCLUDES(mutex_);

  const EvictionCallback on_evict_;
  const size_t budget_bytes_;
  mutable base::Mutex mutex_;
  Table entries_ REPRISE_GUARDED_BY(mutex_);
  uint64_t hits_ REPRISE_GUARDED_BY(mutex_) = 0;
  uint64_t misses_ REPRISE_GUARDED_BY(mutex_) = 0;
};

template <typename Key, typename Value, typename Hash>
auto PinnedLruCache<Key, Value, Hash>::Insert(Key key, Value value,
                                              size_t charge_bytes)
    -> base::Result<Pin> {
  Entries made = Table::Make(std::move(key), std::move(value), charge_bytes);
  const Position position = made.begin();
  Entries replaced;
  Entries evicted;
  {
    base::MutexLock lock(mutex_);
    REPRISE_RETURN_IF_ERROR(entries_.Add(made, replaced, evicted));
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
    REPRISE_RETURN_IF_ERROR(
        entries_.Recharge(pin.position_, charge_bytes, evicted));
  }
  Report(evicted);
  return {};
}

template <typename Key, typename Value, typename Hash>
auto PinnedLruCache<Key, Value, Hash>::Lookup(const Key& key) -> Pin {
  base::MutexLock lock(mutex_);
  const std::optional<Position> found = entries_.Find(key);
  ++(found.has_value() ? hits_ : misses_);
  return found.has_value() ? Pin(this, *found) : Pin();
}

template <typename Key, typename Value, typename Hash>
void PinnedLruCache<Key, Value, Hash>::Trim(size_t target_bytes) {
  Entries evicted;
  {
    base::MutexLock lock(mutex_);
    entries_.Trim(target_bytes, evicted);
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
    evicted_bytes = entries_.EvictIf(goes, evicted);
  }
  Report(evicted);
  return evicted_bytes;
}

template <typename Key, typename Value, typename Hash>
auto PinnedLruCache<Key, Value, Hash>::stats() const -> Stats {
  base::MutexLock lock(mutex_);
  return {.hits = hits_,
          .misses = misses_,
          .evictions = entries_.evictions(),
          .entries = entries_.size(),
          .pinned = entries_.pinned(),
          .charge_bytes = entries_.charge_bytes()};
}

template <typename Key, typename Value, typename Hash>
void PinnedLruCache<Key, Value, Hash>::Unpin(Position position) {
  Entries gone;  // outlives the lock, as in Erase
  base::MutexLock lock(mutex_);
  entries_.Unpin(position, gone);
}

template <typename Key, typename Value, typename Hash>
void PinnedLruCache<Key, Value, Hash>::Report(Entries& evicted) {
  if (!on_evict_) return;
  for (typename Table::Entry& entry : evicted)
    on_evict_(entry.key, entry.value);
}

}  // namespace reprise::cache

#endif  // REPRISE_CACHE_LRU_CACHE_H_
