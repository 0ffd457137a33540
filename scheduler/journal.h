// What a session tells people about: counters, cuts, rejections, squashes.

#ifndef REPRISE_SCHEDULER_JOURNAL_H_
#define REPRISE_SCHEDULER_JOURNAL_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "cache/lru_map.h"
#include "engine/trace/op.h"
#include "scheduler/places.h"
#include "scheduler/stats.h"

namespace reprise::scheduler {

// How often each thing was counted, a thing being a text, or a pair or tuple of
// numbers and texts. What was not counted for longest is forgotten where all of
// them would take more than kMostBytes. Iteration gives pairs, what was counted
// last first.
template <typename Key>
class Tally {
 public:
  static constexpr size_t kMostBytes = size_t{1} << 18;

  // Its count; 0 if it is new.
  uint64_t& operator[](const Key& key) {
    return counts_.Put(key, 0, HostBytes(key));
  }
  // 0 if it is not known.
  uint64_t count(const Key& key) const {
    const uint64_t* count = counts_.Peek(key);
    return count == nullptr ? 0 : *count;
  }
  auto begin() const { return counts_.begin(); }
  auto end() const { return counts_.end(); }
  size_t size() const { return counts_.size(); }
  uint64_t forgotten() const { return counts_.forgotten(); }
  void Clear() { counts_.Clear(); }

 private:
  // A node, its place in a table, and what allocations take.
  static constexpr size_t kNode = 96;

  static std::tuple<const std::string&> PartsOf(const std::string& text) {
    return {text};
  }
  template <typename Parts>
  static const Parts& PartsOf(const Parts& parts) {
    return parts;
  }
  static size_t BytesOf(const std::string& text) { return text.capacity(); }
  static size_t BytesOf(uint32_t) { return 0; }
  static size_t HostBytes(const Key& key) {
    return std::apply(
        [](const auto&... parts) {
          return sizeof(Key) + kNode + (BytesOf(parts) + ...);
        },
        PartsOf(key));
  }
  struct Hash {
    size_t operator()(const Key& key) const noexcept {
      size_t hash = 0;
      const auto add = [&hash](const auto& part) {
        using Part = std::decay_t<decltype(part)>;
        hash = hash * 0x9E3779B97F4A7C15u + std::hash<Part>()(part);
      };
      std::apply([&](const auto&... parts) { (add(parts), ...); },
                 PartsOf(key));
      return hash;
    }
  };

  cache::LruMap<Key, uint64_t, Hash> counts_{kMostBytes};
};

// Counted under the session's lock, read under it too.
struct Journal {
  Stats stats;
  // (operator, reason) -> times.
  Tally<std::pair<engine::OpId, std::string>> cuts;
  // (signature as hex, reason) -> times.
  Tally<std::pair<std::string, std::string>> rejections;
  // (signature as hex, op index, what was found instead) -> times.
  Tally<std::tuple<std::string, uint32_t, std::string>> squashes;
  // A sentence -> times.
  Tally<std::string> notes;
  Places places;

  // The signature of the trace that the stream was in last.
  uint64_t last_trace = 0;

  // True if it was not met before.
  bool CountCut(engine::OpId op, std::string_view reason) {
    const uint64_t count = ++cuts[{op, std::string(reason)}];
    places.MeetCut(op, reason, last_trace);
    return count == 1;
  }
  void CountSquash(const std::string& signature, uint32_t op,
                   const std::string& found) {
    if (++squashes[{signature, op, found}] == 1) {
      places.MeetSquash(signature, op, found);
    }
  }

  uint64_t forgotten() const {
    return cuts.forgotten() + rejections.forgotten() + squashes.forgotten() +
           notes.forgotten();
  }
  void Clear() {
    stats = Stats{};
    cuts.Clear();
    rejections.Clear();
    squashes.Clear();
    notes.Clear();
    places.Clear();
    last_trace = 0;
  }
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_JOURNAL_H_
