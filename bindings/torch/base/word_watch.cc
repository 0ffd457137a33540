#include "bindings/torch/base/word_watch.h"

#include <cstddef>

namespace reprise::bindings {
namespace {

// By WordWatch::Dicts; accessed by atomic builtins.
uint64_t g_dict_changes[2] = {};

// PyDict_WatchCallback: called before each change, with Python's lock. Whoever
// asks holds the dictionaries: one that goes is nobody's.
template <size_t kDicts>
int Count(int event, void* /*dict*/, void* /*key*/, void* /*value*/) {
  constexpr int kDeallocated = 5;  // PyDict_EVENT_DEALLOCATED
  if (event != kDeallocated) {
    __atomic_fetch_add(&g_dict_changes[kDicts], 1, __ATOMIC_RELAXED);
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

int64_t WordWatch::DictWatcher(Dicts dicts) {
  return reinterpret_cast<int64_t>(dicts == Dicts::kOfCode ? &Count<0>
                                                           : &Count<1>);
}

int64_t WordWatch::DictChanges(Dicts dicts) {
  return reinterpret_cast<int64_t>(&g_dict_changes[static_cast<size_t>(dicts)]);
}

}  // namespace reprise::bindings
