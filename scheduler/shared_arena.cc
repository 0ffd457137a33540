#include "scheduler/shared_arena.h"

#include <algorithm>
#include <atomic>
#include <utility>

namespace reprise::scheduler {

base::Result<std::shared_ptr<engine::Ledger>> SharedArena::Take(
    const engine::Program& program, engine::Backend& backend) {
  const uint64_t bytes = program.layout.size_bytes;
  const size_t values = program.trace->values.size();
  if (bytes < least_bytes_) return std::shared_ptr<engine::Ledger>();
  uint64_t size_bytes = bytes;
  {
    const base::MutexLock lock(mutex_);
    std::shared_ptr<engine::Ledger> current = current_.lock();
    if (current != nullptr) {
      if (bytes_ >= bytes && current->places() >= values) return current;
      size_bytes = std::max(size_bytes, bytes_);
    }
  }
  // Nobody else makes one: builds of a session run one at a time.
  const PlanKey key = PlanKey::OfArena();
  MakeRoom(*plans_, size_bytes);
  REPRISE_ASSIGN_OR_RETURN(PlanCache::Pin charge,
                           plans_->Insert(key, nullptr, size_bytes));
  auto made = backend.MakeArena(size_bytes, values);
  if (!made) {
    plans_->Erase(key);
    return tl::unexpected(std::move(made).error());
  }
  // Charged until the last instance is gone; leases may live on, as those of a
  // plan that was evicted do.
  struct Closer {
    std::shared_ptr<PlanCache::Pin> charge;
    PlanCache* plans;
    void operator()(engine::Ledger* arena) {
      engine::Ledger::Closer()(arena);
      plans->Erase(charge->key());
      charge.reset();
    }
  };
  std::shared_ptr<engine::Ledger> arena(
      made->release(),
      Closer{std::make_shared<PlanCache::Pin>(std::move(charge)), plans_});
  const base::MutexLock lock(mutex_);
  current_ = arena;
  bytes_ = size_bytes;
  return arena;
}

bool SharedArena::IsCurrent(
    const std::shared_ptr<engine::Ledger>& arena) const {
  const base::MutexLock lock(mutex_);
  return current_.lock() == arena;
}

void SharedArena::Leave() {
  const base::MutexLock lock(mutex_);
  current_.reset();
}

}  // namespace reprise::scheduler
