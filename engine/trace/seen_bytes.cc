#include "engine/trace/seen_bytes.h"

#include <algorithm>
#include <cstddef>

#include "cache/signature.h"

namespace reprise::engine {

uint64_t SeenBytes::HashOf(const Known& known, uint64_t block) {
  const uint64_t begin = block * kBlockBytes;
  const uint64_t bytes = std::min(kBlockBytes, known.size_bytes - begin);
  const uint64_t hash = cache::HashBytes(
      {reinterpret_cast<const std::byte*>(known.base + begin), bytes});
  return hash == 0 ? 1 : hash;
}

template <typename Visit>
void SeenBytes::EachBlock(const Known& known, uint64_t begin, uint64_t end,
                          Visit visit) {
  begin = std::max(begin, known.base);
  end = std::min(end, known.base + known.size_bytes);
  if (begin >= end) return;
  const uint64_t last = (end - 1 - known.base) / kBlockBytes;
  for (uint64_t block = (begin - known.base) / kBlockBytes; block <= last;
       ++block) {
    visit(block);
  }
}

bool SeenBytes::Changed(const Place& place) const {
  if (place.value >= known_.size()) return false;
  const Known& known = known_[place.value];
  // What lies elsewhere now was moved by what is no op of a trace.
  if (known.base != place.base || known.size_bytes != place.size_bytes) {
    return false;
  }
  bool changed = false;
  EachBlock(known, place.begin, place.end, [&](uint64_t block) {
    const uint64_t hash = known.hashes[block];
    changed = changed || (hash != 0 && hash != HashOf(known, block));
  });
  return changed;
}

void SeenBytes::Wrote(const Place& place) {
  for (Known& known : known_) {
    if (known.hashes.empty()) continue;
    EachBlock(known, place.begin, place.end,
              [&](uint64_t block) { known.hashes[block] = 0; });
  }
}

void SeenBytes::Note(const Place& place) {
  if (place.base == 0 || place.size_bytes == 0) return;
  if (place.value >= known_.size()) known_.resize(place.value + 1);
  Known& known = known_[place.value];
  if (known.base != place.base || known.size_bytes != place.size_bytes) {
    known.base = place.base;
    known.size_bytes = place.size_bytes;
    known.hashes.assign((place.size_bytes - 1) / kBlockBytes + 1, 0);
  }
  EachBlock(known, place.begin, place.end, [&](uint64_t block) {
    if (known.hashes[block] == 0) known.hashes[block] = HashOf(known, block);
  });
}

}  // namespace reprise::engine
