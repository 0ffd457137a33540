#include "bindings/native/memory_holds.h"

#include <iterator>
#include <utility>

namespace reprise::native {

MemoryHolds::Hold MemoryHolds::Begin() {
  const base::MutexLock lock(mutex_);
  const Hold hold{++begun_};
  kept_.try_emplace(hold);
  return hold;
}

std::vector<void*> MemoryHolds::End(Hold hold) {
  const base::MutexLock lock(mutex_);
  const auto ended = kept_.find(hold);
  std::vector<void*> memory = std::move(ended->second);
  if (ended != kept_.begin()) {
    std::vector<void*>& older = std::prev(ended)->second;
    older.insert(older.end(), memory.begin(), memory.end());
    memory.clear();
  }
  kept_.erase(ended);
  if (kept_.empty()) young_.clear();
  return memory;
}

void MemoryHolds::Note(void* memory) {
  const base::MutexLock lock(mutex_);
  if (!kept_.empty()) young_[memory] = begun_;
}

bool MemoryHolds::Keep(void* memory) {
  const base::MutexLock lock(mutex_);
  if (kept_.empty()) return false;
  if (const auto young = young_.find(memory); young != young_.end()) {
    const bool named_by_none = young->second == begun_;
    young_.erase(young);
    if (named_by_none) return false;
  }
  kept_.rbegin()->second.push_back(memory);
  return true;
}

std::vector<void*> MemoryHolds::GiveUp() {
  const base::MutexLock lock(mutex_);
  std::vector<void*> memory;
  for (auto& [hold, kept] : kept_) {
    memory.insert(memory.end(), kept.begin(), kept.end());
    kept.clear();
  }
  return memory;
}

}  // namespace reprise::native
