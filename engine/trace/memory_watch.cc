#include "engine/trace/memory_watch.h"

#include <algorithm>
#include <iterator>

namespace reprise::engine {

void AddressSet::Insert(uint64_t begin, uint64_t end) {
  if (begin >= end) return;
  auto next = ranges_.upper_bound(begin);
  if (next != ranges_.begin()) {
    if (auto before = std::prev(next); before->second >= begin) {
      begin = before->first;
      end = std::max(end, before->second);
      ranges_.erase(before);
    }
  }
  while (next != ranges_.end() && next->first <= end) {
    end = std::max(end, next->second);
    next = ranges_.erase(next);
  }
  ranges_.emplace(begin, end);
}

void AddressSet::Erase(uint64_t begin, uint64_t end) {
  auto next = ranges_.upper_bound(begin);
  if (next != ranges_.begin()) --next;
  while (next != ranges_.end() && next->first < end) {
    const auto [from, to] = *next;
    if (to <= begin) {
      ++next;
      continue;
    }
    next = ranges_.erase(next);
    if (from < begin) ranges_.emplace(from, begin);
    if (to > end) ranges_.emplace(end, to);
  }
}

bool AddressSet::Contains(uint64_t address) const {
  auto after = ranges_.upper_bound(address);
  return after != ranges_.begin() && address < std::prev(after)->second;
}

MemoryWatch::~MemoryWatch() { watches_->End(*this); }

void MemoryWatch::Narrow(std::span<const uint64_t> addresses) {
  watches_->Narrow(*this, addresses);
}

bool MemoryWatch::Knows(uint64_t address) const {
  return watches_->Knows(*this, address);
}

std::shared_ptr<MemoryWatch> MemoryWatches::Begin(
    const std::function<std::vector<Block>()>& in_use) {
  std::shared_ptr<MemoryWatch> watch(new MemoryWatch(this));
  {
    const base::MutexLock lock(mutex_);
    wide_.push_back(watch.get());
    watching_.fetch_add(1, std::memory_order_relaxed);
  }
  const std::vector<Block> blocks = in_use();
  const base::MutexLock lock(mutex_);
  for (const Block& block : blocks) {
    watch->in_use_.Insert(block.address, block.address + block.size_bytes);
  }
  return watch;
}

void MemoryWatches::NoteFreed(uint64_t address, uint64_t size_bytes) {
  const base::MutexLock lock(mutex_);
  for (MemoryWatch* watch : wide_) {
    watch->freed_.Insert(address, address + size_bytes);
  }
  for (auto it = narrow_.lower_bound(address);
       it != narrow_.end() && it->first < address + size_bytes; ++it) {
    it->second->broken_.store(true, std::memory_order_release);
  }
}

void MemoryWatches::Narrow(MemoryWatch& watch,
                           std::span<const uint64_t> addresses) {
  const base::MutexLock lock(mutex_);
  if (watch.narrowed_) return;
  watch.narrowed_ = true;
  Forget(watch);
  for (const uint64_t address : addresses) {
    if (!watch.in_use_.Contains(address)) continue;
    if (watch.freed_.Contains(address)) {
      watch.broken_.store(true, std::memory_order_release);
    }
    watch.addresses_.push_back(address);
  }
  std::sort(watch.addresses_.begin(), watch.addresses_.end());
  watch.addresses_.erase(
      std::unique(watch.addresses_.begin(), watch.addresses_.end()),
      watch.addresses_.end());
  watch.in_use_ = {};
  watch.freed_ = {};
  if (watch.addresses_.empty()) return;
  for (const uint64_t address : watch.addresses_) {
    narrow_.emplace(address, &watch);
  }
  watching_.fetch_add(1, std::memory_order_relaxed);
}

bool MemoryWatches::Knows(const MemoryWatch& watch, uint64_t address) {
  const base::MutexLock lock(mutex_);
  return watch.in_use_.Contains(address) || watch.freed_.Contains(address);
}

void MemoryWatches::End(MemoryWatch& watch) {
  const base::MutexLock lock(mutex_);
  Forget(watch);
}

void MemoryWatches::Forget(MemoryWatch& watch) {
  size_t known = std::erase(wide_, &watch);
  for (const uint64_t address : watch.addresses_) {
    const auto [begin, end] = narrow_.equal_range(address);
    for (auto it = begin; it != end; ++it) {
      if (it->second != &watch) continue;
      narrow_.erase(it);
      known = 1;
      break;
    }
  }
  watching_.fetch_sub(known, std::memory_order_relaxed);
}

}  // namespace reprise::engine
