#include "engine/ledger.h"

#include <algorithm>
#include <utility>

namespace reprise::engine {

Ledger::Handle Ledger::Create(Block arena, size_t places) {
  return Handle(new Ledger(std::move(arena), places));
}

Ledger::Ledger(Block arena, size_t places)
    : arena_(std::move(arena)), leases_(new Entry[places]) {
  for (size_t i = 0; i < places; ++i) leases_[i].ledger = this;
}

void Ledger::EndLease(void* entry) {
  auto* lease = static_cast<Entry*>(entry);
  Ledger* ledger = lease->ledger;
  lease->live.store(0, std::memory_order_release);
  ledger->Drop(1);
}

uint64_t Ledger::Lend(void* context, Block::Release release, CUstream stream) {
  if (!IsLease(release)) return 0;
  Ledger& ledger = *static_cast<Entry*>(context)->ledger;
  ledger.Lend({stream});
  return ledger.arena_.address();
}

void Ledger::Lend(const std::vector<CUstream>& streams) {
  const base::MutexLock lock(mutex_);
  for (CUstream stream : streams) {
    if (std::find(lent_.begin(), lent_.end(), stream) == lent_.end()) {
      lent_.push_back(stream);
    }
  }
  any_lent_.store(true, std::memory_order_release);
}

std::vector<CUstream> Ledger::TakeLent() {
  if (!any_lent_.load(std::memory_order_acquire)) [[likely]]
    return {};
  const base::MutexLock lock(mutex_);
  any_lent_.store(false, std::memory_order_relaxed);
  return std::exchange(lent_, {});
}

void Ledger::Close() { Drop(kOpen - leased_); }

void Ledger::Drop(uint64_t references) {
  // Release publishes this holder's last use; acquire in the last one makes all
  // of them happen before the arena is released.
  if (references_.fetch_sub(references, std::memory_order_acq_rel) ==
      references) {
    delete this;
  }
}

}  // namespace reprise::engine
