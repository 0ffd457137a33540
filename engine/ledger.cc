#include "engine/ledger.h"

#include <utility>

namespace reprise::engine {

Ledger::Handle Ledger::Create(Block arena, size_t places) {
  return Handle(new Ledger(std::move(arena), places));
}

Ledger::Ledger(Block arena, size_t places)
    : arena_(std::move(arena)), leases_(new Entry[places]) {
  for (size_t i = 0; i < places; ++i) leases_[i].ledger = this;
}

Block Ledger::Lease(ValueId value, uint64_t address) {
  // Relaxed: the lock of the session orders leases against each other, and the
  // reference that the plan holds keeps the count above zero.
  leases_[value].live.store(1, std::memory_order_relaxed);
  refs_.fetch_add(1, std::memory_order_relaxed);
  return Block(address, &leases_[value], &EndLease);
}

void Ledger::EndLease(void* entry) {
  auto* lease = static_cast<Entry*>(entry);
  Ledger* ledger = lease->ledger;
  lease->live.store(0, std::memory_order_release);
  ledger->Unref();
}

void Ledger::Unref() {
  // Release publishes this holder's last use; acquire in the last one makes all
  // of them happen before the arena is released.
  if (refs_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
}

}  // namespace reprise::engine
