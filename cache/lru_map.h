// A map that forgets what has not been used for longest.

#ifndef REPRISE_CACHE_LRU_MAP_H_
#define REPRISE_CACHE_LRU_MAP_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <unordered_map>
#include <utility>

namespace reprise::cache {

// Keeps the sum of its entries' weights within a bound: beyond it the least
// recently used ones go, but never the one that was just put. Where each weighs
// 1, as it does unless said otherwise, the bound is a number of entries.
//
// A pointer to a value holds until its entry goes. Iteration begins at the most
// recently used one. Single-thread. Cost: one hash a look-up, and a few words
// written where it finds; one allocation an entry.
template <typename Key, typename Value, typename Hash = std::hash<Key>>
class LruMap {
  struct Node;
  using Element = std::pair<const Key, Node>;

 public:
  class const_iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = std::pair<const Key&, const Value&>;
    using difference_type = std::ptrdiff_t;
    using pointer = void;
    using reference = value_type;

    explicit const_iterator(const Element* element) : element_(element) {}
    value_type operator*() const {
      return {element_->first, element_->second.value};
    }
    const_iterator& operator++() {
      element_ = element_->second.older;
      return *this;
    }
    bool operator==(const const_iterator&) const = default;

   private:
    const Element* element_;
  };

  explicit LruMap(size_t most_weight) : most_weight_(most_weight) {}
  LruMap(const LruMap&) = delete;
  LruMap& operator=(const LruMap&) = delete;

  // The value, from now on the most recently used; null if there is none.
  Value* Find(const Key& key) {
    const auto found = table_.find(key);
    if (found == table_.end()) return nullptr;
    Use(*found);
    return &found->second.value;
  }
  // The same, and nothing is used by it.
  const Value* Peek(const Key& key) const {
    const auto found = table_.find(key);
    return found == table_.end() ? nullptr : &found->second.value;
  }

  // The value of `key`, from now on the most recently used; made from `value`,
  // with that weight, if there was none.
  Value& Put(const Key& key, Value value = {}, size_t weight = 1) {
    const auto [place, made] = table_.try_emplace(key, std::move(value));
    if (!made) {
      Use(*place);
      return place->second.value;
    }
    place->second.weight = weight;
    weight_ += weight;
    PushNewest(*place);
    while (weight_ > most_weight_ && oldest_ != newest_) ForgetOldest();
    return place->second.value;
  }

  // Forgets all, and that anything was forgotten.
  void Clear() {
    table_.clear();
    newest_ = oldest_ = nullptr;
    weight_ = 0;
    forgotten_ = 0;
  }

  bool empty() const { return table_.empty(); }
  size_t size() const { return table_.size(); }
  size_t weight() const { return weight_; }
  // Entries that went for the bound.
  uint64_t forgotten() const { return forgotten_; }
  const_iterator begin() const { return const_iterator(newest_); }
  const_iterator end() const { return const_iterator(nullptr); }

 private:
  struct Node {
    explicit Node(Value value) : value(std::move(value)) {}

    Value value;
    size_t weight = 0;
    Element* newer = nullptr;
    Element* older = nullptr;
  };

  void Use(Element& element) {
    if (newest_ == &element) return;
    Unlink(element);
    PushNewest(element);
  }
  void PushNewest(Element& element) {
    element.second.newer = nullptr;
    element.second.older = newest_;
    (newest_ == nullptr ? oldest_ : newest_->second.newer) = &element;
    newest_ = &element;
  }
  void Unlink(Element& element) {
    const Node& node = element.second;
    (node.newer == nullptr ? newest_ : node.newer->second.older) = node.older;
    (node.older == nullptr ? oldest_ : node.older->second.newer) = node.newer;
  }
  void ForgetOldest() {
    Element& element = *oldest_;
    Unlink(element);
    weight_ -= element.second.weight;
    ++forgotten_;
    table_.erase(table_.find(element.first));
  }

  const size_t most_weight_;
  size_t weight_ = 0;
  uint64_t forgotten_ = 0;
  std::unordered_map<Key, Node, Hash> table_;
  Element* newest_ = nullptr;
  Element* oldest_ = nullptr;
};

}  // namespace reprise::cache

#endif  // REPRISE_CACHE_LRU_MAP_H_
