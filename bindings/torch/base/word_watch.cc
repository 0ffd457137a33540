#include "bindings/torch/base/word_watch.h"

#include <array>
#include <cstddef>
#include <cstdint>

namespace reprise::bindings {
namespace {

constexpr int kDictWordBits = 16;

// By a hash of a dictionary's address; accessed by atomic builtins.
std::array<uint64_t, size_t{1} << kDictWordBits> g_dict_words = {};

uint64_t* DictWordOf(uint64_t address) {
  constexpr uint64_t kGoldenRatio = 0x9E3779B97F4A7C15;  // Fibonacci hashing
  return &g_dict_words[(address * kGoldenRatio) >> (64 - kDictWordBits)];
}

// PyDict_WatchCallback: called before each change, with Python's lock. Whoever
// asks holds the dictionaries: one that goes is nobody's.
int Count(int event, void* dict, void* /*key*/, void* /*value*/) {
  constexpr int kDeallocated = 5;  // PyDict_EVENT_DEALLOCATED
  if (event != kDeallocated) {
    __atomic_fetch_add(DictWordOf(reinterpret_cast<uint64_t>(dict)), 1,
                       __ATOMIC_RELAXED);
  }
  return 0;
}

// Others may be writing it.
uint64_t Load(const uint64_t* word) {
  return __atomic_load_n(word, __ATOMIC_RELAXED);
}

}  // namespace

WordWatch::WordWatch(const std::vector<int64_t>& addresses) {
  for (const int64_t address : addresses) {
    words_.push_back(reinterpret_cast<const uint64_t*>(address));
    seen_.push_back(Load(words_.back()));
  }
}

bool WordWatch::Changed() const {
  uint64_t changed = 0;  // no branch, no store: it is the caches that take time
  for (size_t i = 0; i < words_.size(); ++i) {
    changed |= Load(words_[i]) ^ seen_[i];
  }
  return changed != 0;
}

WordWatch WordWatch::Anew() const {
  WordWatch anew(*this);
  for (size_t i = 0; i < words_.size(); ++i) anew.seen_[i] = Load(words_[i]);
  return anew;
}

int64_t WordWatch::DictWatcher() { return reinterpret_cast<int64_t>(&Count); }

int64_t WordWatch::DictWord(int64_t dict) {
  return reinterpret_cast<int64_t>(DictWordOf(static_cast<uint64_t>(dict)));
}

}  // namespace reprise::bindings
