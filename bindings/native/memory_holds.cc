#include "bindings/native/memory_holds.h"

#include <iterator>
#include <utility>

namespace reprise::native {

MemoryHolds::Hold MemoryHolds::Begin() {
  const base::MutexLock lock(mutex_);
  kept_.try_emplace(++begun_);
  return begun_;
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
  return memory;
}

bool MemoryHolds::Keep(void* memory) {
  const base::MutexLock lock(mutex_);
  if (kept_.empty()) return false;
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
