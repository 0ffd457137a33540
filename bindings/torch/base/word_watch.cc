#include "bindings/torch/base/word_watch.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace reprise::bindings {
namespace {

constexpr int kDictWordBits = 16;

// Accessed by atomic builtins: of all watched dictionaries, and by a hash of
// their addresses.
uint64_t g_dict_changes = 0;
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
    // Behind the word: who sees this sees that.
    __atomic_fetch_add(&g_dict_changes, 1, __ATOMIC_RELEASE);
  }
  return 0;
}

uint64_t DictChanges() {
  return __atomic_load_n(&g_dict_changes, __ATOMIC_ACQUIRE);
}

// Others may be writing it.
uint64_t Load(const uint64_t* word) {
  return __atomic_load_n(word, __ATOMIC_RELAXED);
}

std::vector<const uint64_t*> PointersTo(const std::vector<int64_t>& addresses) {
  std::vector<const uint64_t*> pointers;
  pointers.reserve(addresses.size());
  for (const int64_t address : addresses) {
    pointers.push_back(reinterpret_cast<const uint64_t*>(address));
  }
  return pointers;
}

}  // namespace

WordWatch::Words::Words(Pointers of) : words(std::move(of)) {
  for (const uint64_t* const word : words) seen.push_back(Load(word));
}

bool WordWatch::Words::Changed() const {
  uint64_t changed = 0;  // no branch, no store: it is the caches that take time
  for (size_t i = 0; i < words.size(); ++i) {
    changed |= Load(words[i]) ^ seen[i];
  }
  return changed != 0;
}

WordWatch::WordWatch(Words words, const Pointers& dict_words)
    : words_(std::move(words)),
      dict_changes_(DictChanges()),
      of_dicts_(dict_words) {}

WordWatch::WordWatch(const std::vector<int64_t>& words,
                     const std::vector<int64_t>& dict_words)
    : WordWatch(Words(PointersTo(words)), PointersTo(dict_words)) {}

bool WordWatch::Changed() const {
  if (words_.Changed()) return true;
  const uint64_t changes = DictChanges();
  if (changes == __atomic_load_n(&dict_changes_, __ATOMIC_RELAXED)) {
    return false;
  }
  if (of_dicts_.Changed()) return true;
  __atomic_store_n(&dict_changes_, changes, __ATOMIC_RELAXED);
  return false;
}

WordWatch WordWatch::Anew() const {
  return {Words(words_.words), of_dicts_.words};
}

int64_t WordWatch::DictWatcher() { return reinterpret_cast<int64_t>(&Count); }

int64_t WordWatch::DictWord(int64_t dict) {
  return reinterpret_cast<int64_t>(DictWordOf(static_cast<uint64_t>(dict)));
}

}  // namespace reprise::bindings
