#include "engine/trace/written_bytes.h"

#include <algorithm>

namespace reprise::engine {
namespace {

constexpr uint64_t kBits = 64;

// Of word `word`, those of [begin, end), which are counted from the first word
// on.
uint64_t MaskOf(uint64_t word, uint64_t begin, uint64_t end) {
  const uint64_t first = std::max(begin, word * kBits) - word * kBits;
  const uint64_t last = std::min(end, (word + 1) * kBits) - word * kBits;
  const uint64_t below_last =
      last == kBits ? ~uint64_t{0} : (uint64_t{1} << last) - 1;
  return below_last & ~((uint64_t{1} << first) - 1);
}

}  // namespace

bool ElementsAt::empty() const {
  return element_bytes == 0 ||
         std::ranges::any_of(sizes, [](int64_t size) { return size == 0; });
}

uint64_t ElementsAt::span_bytes() const {
  if (empty()) return 0;
  uint64_t last = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    last += static_cast<uint64_t>((sizes[i] - 1) * strides[i]);
  }
  return (last + 1) * element_bytes;
}

// Calls visit(offset_bytes, bytes) for runs of elements side by side, until it
// returns false, and returns whether it never did.
template <typename Visit>
bool WrittenBytes::EachRun(const ElementsAt& elements, Visit visit) {
  if (elements.empty()) return true;
  struct Dimension {
    int64_t size;
    int64_t stride;
  };
  std::vector<Dimension> outer;
  for (size_t i = 0; i < elements.sizes.size(); ++i) {
    if (elements.sizes[i] == 1 || elements.strides[i] == 0) continue;
    outer.push_back({elements.sizes[i], elements.strides[i]});
  }
  std::ranges::sort(outer, {}, &Dimension::stride);
  int64_t run = 1;
  size_t inner = 0;
  while (inner < outer.size() && outer[inner].stride == run) {
    run *= outer[inner++].size;
  }
  outer.erase(outer.begin(), outer.begin() + static_cast<ptrdiff_t>(inner));
  std::vector<int64_t> index(outer.size(), 0);
  int64_t at = 0;
  while (true) {
    if (!visit(elements.offset_bytes +
                   static_cast<uint64_t>(at) * elements.element_bytes,
               static_cast<uint64_t>(run) * elements.element_bytes)) {
      return false;
    }
    size_t i = 0;
    for (; i < outer.size(); ++i) {
      at += outer[i].stride;
      if (++index[i] < outer[i].size) break;
      at -= outer[i].stride * outer[i].size;
      index[i] = 0;
    }
    if (i == outer.size()) return true;
  }
}

void WrittenBytes::Set(uint64_t begin, uint64_t count) {
  const uint64_t end = begin + count;
  for (uint64_t word = begin / kBits; word * kBits < end; ++word) {
    bits_[word] |= MaskOf(word, begin, end);
  }
}

bool WrittenBytes::AreSet(uint64_t begin, uint64_t count) const {
  const uint64_t end = begin + count;
  for (uint64_t word = begin / kBits; word * kBits < end; ++word) {
    const uint64_t mask = MaskOf(word, begin, end);
    if ((bits_[word] & mask) != mask) return false;
  }
  return true;
}

void WrittenBytes::Write(const ElementsAt& elements) {
  if (whole_) return;
  EachRun(elements, [&](uint64_t offset_bytes, uint64_t bytes) {
    if (offset_bytes + bytes > size_bytes_) return false;
    if (bytes == size_bytes_) {
      whole_ = true;
      bits_ = {};
      return false;
    }
    if (granule_bytes_ == 0) {
      granule_bytes_ = elements.element_bytes;
      bits_.resize(size_bytes_ / granule_bytes_ / kBits + 1, 0);
    }
    // The first granule that lies in it, and behind the last one.
    const uint64_t begin = (offset_bytes + granule_bytes_ - 1) / granule_bytes_;
    const uint64_t end = (offset_bytes + bytes) / granule_bytes_;
    if (begin < end) Set(begin, end - begin);
    return true;
  });
}

bool WrittenBytes::Has(const ElementsAt& elements) const {
  if (whole_ || elements.empty()) return true;
  if (granule_bytes_ == 0) return false;
  return EachRun(elements, [&](uint64_t offset_bytes, uint64_t bytes) {
    if (offset_bytes + bytes > size_bytes_) return false;
    const uint64_t begin = offset_bytes / granule_bytes_;
    const uint64_t end =
        (offset_bytes + bytes + granule_bytes_ - 1) / granule_bytes_;
    return AreSet(begin, end - begin);
  });
}

}  // namespace reprise::engine
