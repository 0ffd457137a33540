// Which memory, of much of it.

#ifndef REPRISE_SCHEDULER_MEMORY_RANGES_H_
#define REPRISE_SCHEDULER_MEMORY_RANGES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <vector>

namespace reprise::scheduler {

// [begin, end), addresses.
struct MemoryRange {
  uint64_t begin = 0;
  uint64_t end = 0;
  bool operator==(const MemoryRange&) const = default;
};

// A set of addresses, as the fewest ranges: ascending, and none meets another.
// Cost: a binary search, and what lies behind is moved where one is added.
class MemoryRanges {
 public:
  MemoryRanges() = default;
  explicit MemoryRanges(std::span<const MemoryRange> ranges) {
    for (const MemoryRange& range : ranges) Add(range);
  }

  void Add(MemoryRange range) {
    if (range.begin >= range.end) return;
    const auto first =
        std::ranges::lower_bound(ranges_, range.begin, {}, &MemoryRange::end);
    if (first != ranges_.end() && first->begin <= range.begin &&
        range.end <= first->end) {
      return;
    }
    auto last = first;
    for (; last != ranges_.end() && last->begin <= range.end; ++last) {
      range.begin = std::min(range.begin, last->begin);
      range.end = std::max(range.end, last->end);
    }
    if (first == last) {
      ranges_.insert(first, range);
    } else {
      *first = range;
      ranges_.erase(std::next(first), last);
    }
  }

  // Some of [begin, end) is in it.
  bool Overlap(uint64_t begin, uint64_t end) const {
    const auto next =
        std::ranges::upper_bound(ranges_, begin, {}, &MemoryRange::end);
    return next != ranges_.end() && next->begin < end;
  }

  void Clear() { ranges_.clear(); }
  bool empty() const { return ranges_.empty(); }
  size_t size() const { return ranges_.size(); }
  std::span<const MemoryRange> all() const { return ranges_; }

 private:
  std::vector<MemoryRange> ranges_;
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_MEMORY_RANGES_H_
