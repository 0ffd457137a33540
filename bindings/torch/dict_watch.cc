#include "bindings/torch/dict_watch.h"

#include <atomic>
#include <cstddef>

namespace reprise::bindings {
namespace {

// Of PyDictObject, before Python 3.12: behind its own two words and the number
// of its entries.
constexpr size_t kVersionOffset = 24;

std::atomic<uint64_t> g_changes{0};

// PyDict_WatchCallback: called before each change, with Python's lock.
int Count(int /*event*/, void* /*dict*/, void* /*key*/, void* /*value*/) {
  g_changes.fetch_add(1, std::memory_order_relaxed);
  return 0;
}

}  // namespace

DictWatch::DictWatch(const std::vector<int64_t>& dicts) {
  for (const int64_t address : dicts) {
    versions_.push_back(
        reinterpret_cast<const uint64_t*>(address + kVersionOffset));
    seen_.push_back(*versions_.back());
  }
}

DictWatch::DictWatch() : count_(g_changes.load(std::memory_order_relaxed)) {}

bool DictWatch::Changed() {
  bool changed = false;
  if (versions_.empty()) {
    const uint64_t count = g_changes.load(std::memory_order_relaxed);
    changed = count != count_;
    count_ = count;
  }
  for (size_t i = 0; i < versions_.size(); ++i) {
    const uint64_t version = *versions_[i];
    changed |= version != seen_[i];
    seen_[i] = version;
  }
  return changed;
}

int64_t DictWatch::Watcher() { return reinterpret_cast<int64_t>(&Count); }

}  // namespace reprise::bindings
