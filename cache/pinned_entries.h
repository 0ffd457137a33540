// The entries of a cache in which what is in use stays.

#ifndef REPRISE_CACHE_PINNED_ENTRIES_H_
#define REPRISE_CACHE_PINNED_ENTRIES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "engine/base/status.h"

namespace reprise::cache {

// Where each entry is, and what all of them are charged under a budget of
// bytes. An entry is in one of three states:
//
//   idle      in the table, no pin; may be evicted
//   pinned    in the table, one pin or more
//   detached  no longer in the table, still pinned
//
//   Add ─► pinned ◄─Find─ idle ─Trim, EvictIf, Detach─► gone
//            │ ──last pin──► ▲
//            └─Detach─► detached ─last pin─► gone
//
// Every entry that is not gone counts towards the charge, so the charge is what
// the values really hold.
//
// What goes is moved to a list of the caller's, and nothing of it is destroyed
// here: the caller may hold a lock. Thread-compatible. A position holds until
// its entry goes. Cost: one hash a call; only Make and Add allocate.
template <typename Key, typename Value, typename Hash = std::hash<Key>>
class PinnedEntries {
 public:
  struct Entry {
    Key key;
    Value value;
    size_t charge_bytes;
    size_t pins;
    bool detached;
  };
  using Entries = std::list<Entry>;
  using Position = typename Entries::iterator;

  explicit PinnedEntries(size_t budget_bytes) : budget_bytes_(budget_bytes) {}
  PinnedEntries(const PinnedEntries&) = delete;
  PinnedEntries& operator=(const PinnedEntries&) = delete;

  // An entry with one pin, for Add.
  static Entries Make(Key key, Value value, size_t charge_bytes) {
    Entries made;
    made.push_back({std::move(key), std::move(value), charge_bytes, 1, false});
    return made;
  }
  // Takes the place of an entry with the same key, if there is one, and evicts
  // idle entries until the charge is within the budget. If even that is not
  // enough, kResourceExhausted: nothing has changed then, `made` included.
  base::Status Add(Entries& made, Entries& replaced, Entries& evicted);

  // Pins it; none if there is no such entry.
  std::optional<Position> Find(const Key& key);
  bool Contains(const Key& key) const { return table_.contains(key); }
  void Unpin(Position position, Entries& gone);

  // From now on the pinned entry counts for `charge_bytes`. Evicts and fails as
  // Add. Charging less never fails.
  base::Status Recharge(Position position, size_t charge_bytes,
                        Entries& evicted);

  // Takes it out of the table; it goes if no pin holds it. False if there is no
  // such entry.
  bool Detach(const Key& key, Entries& gone);
  void DetachAll(Entries& gone) {
    while (!table_.empty()) Detach(table_.begin(), gone);
  }

  // Evicts idle entries, least recently used first, until the charge is at most
  // `target_bytes` or none is left.
  void Trim(size_t target_bytes, Entries& evicted);
  // Evicts every idle entry whose key `goes` accepts, and returns what they
  // were charged.
  template <typename Predicate>
  size_t EvictIf(const Predicate& goes, Entries& evicted);

  size_t charge_bytes() const { return charge_bytes_; }
  uint64_t evictions() const { return evictions_; }
  size_t size() const { return table_.size(); }     // in the table
  size_t pinned() const { return pinned_.size(); }  // and detached
  // In the table, whose key `counts` accepts.
  template <typename Predicate>
  size_t CountIf(const Predicate& counts) const {
    return static_cast<size_t>(std::count_if(
        table_.begin(), table_.end(),
        [&counts](const auto& entry) { return counts(entry.first); }));
  }

 private:
  using Table = std::unordered_map<Key, Position, Hash>;

  // kResourceExhausted if `charge_bytes` more than what is pinned, less
  // `freed_bytes` of that, would be over the budget.
  base::Status Fits(size_t charge_bytes, size_t freed_bytes) const;
  void Detach(typename Table::iterator found, Entries& gone);

  const size_t budget_bytes_;
  size_t charge_bytes_ = 0;
  size_t idle_bytes_ = 0;
  Entries idle_;    // least recently used first
  Entries pinned_;  // and detached; no order
  Table table_;
  uint64_t evictions_ = 0;
};

template <typename Key, typename Value, typename Hash>
base::Status PinnedEntries<Key, Value, Hash>::Add(Entries& made,
                                                  Entries& replaced,
                                                  Entries& evicted) {
  const Position position = made.begin();
  const auto found = table_.find(position->key);
  REPRISE_RETURN_IF_ERROR(Fits(position->charge_bytes, /*freed_bytes=*/0));
  if (found != table_.end()) Detach(found, replaced);
  Trim(budget_bytes_ - position->charge_bytes, evicted);
  charge_bytes_ += position->charge_bytes;
  pinned_.splice(pinned_.end(), made);
  table_.emplace(position->key, position);
  return {};
}

template <typename Key, typename Value, typename Hash>
auto PinnedEntries<Key, Value, Hash>::Find(const Key& key)
    -> std::optional<Position> {
  const auto found = table_.find(key);
  if (found == table_.end()) return std::nullopt;
  const Position position = found->second;
  if (position->pins++ == 0) {
    idle_bytes_ -= position->charge_bytes;
    pinned_.splice(pinned_.end(), idle_, position);
  }
  return position;
}

template <typename Key, typename Value, typename Hash>
void PinnedEntries<Key, Value, Hash>::Unpin(Position position, Entries& gone) {
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
base::Status PinnedEntries<Key, Value, Hash>::Recharge(Position position,
                                                       size_t charge_bytes,
                                                       Entries& evicted) {
  Entry& entry = *position;
  if (charge_bytes > entry.charge_bytes) {
    REPRISE_RETURN_IF_ERROR(Fits(charge_bytes, entry.charge_bytes));
  }
  charge_bytes_ = charge_bytes_ - entry.charge_bytes + charge_bytes;
  entry.charge_bytes = charge_bytes;
  Trim(budget_bytes_, evicted);
  return {};
}

template <typename Key, typename Value, typename Hash>
bool PinnedEntries<Key, Value, Hash>::Detach(const Key& key, Entries& gone) {
  const auto found = table_.find(key);
  if (found == table_.end()) return false;
  Detach(found, gone);
  return true;
}

template <typename Key, typename Value, typename Hash>
void PinnedEntries<Key, Value, Hash>::Trim(size_t target_bytes,
                                           Entries& evicted) {
  while (charge_bytes_ > target_bytes && !idle_.empty()) {
    Detach(table_.find(idle_.front().key), evicted);
    ++evictions_;
  }
}

template <typename Key, typename Value, typename Hash>
template <typename Predicate>
size_t PinnedEntries<Key, Value, Hash>::EvictIf(const Predicate& goes,
                                                Entries& evicted) {
  size_t evicted_bytes = 0;
  for (Position next = idle_.begin(); next != idle_.end();) {
    const Position position = next++;
    if (!goes(std::as_const(position->key))) continue;
    evicted_bytes += position->charge_bytes;
    Detach(table_.find(position->key), evicted);
    ++evictions_;
  }
  return evicted_bytes;
}

template <typename Key, typename Value, typename Hash>
base::Status PinnedEntries<Key, Value, Hash>::Fits(size_t charge_bytes,
                                                   size_t freed_bytes) const {
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
void PinnedEntries<Key, Value, Hash>::Detach(typename Table::iterator found,
                                             Entries& gone) {
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

}  // namespace reprise::cache

#endif  // REPRISE_CACHE_PINNED_ENTRIES_H_
