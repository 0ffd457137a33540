#include "engine/ledger.h"

#include <utility>

#include "engine/device/context_scope.h"
#include "engine/device/exiting.h"
#include "engine/device/launch_recorder.h"
#include "engine/device/relaxed_capture.h"

namespace reprise::engine {

Ledger::Handle Ledger::Create(Block arena, size_t places, ArenaDevice device) {
  return Handle(new Ledger(std::move(arena), places, device));
}

Ledger::Ledger(Block arena, size_t places, ArenaDevice device)
    : arena_(std::move(arena)), leases_(new Entry[places]), device_(device) {
  for (size_t i = 0; i < places; ++i) leases_[i].ledger = this;
}

Ledger::~Ledger() {
  const std::vector<device::UniqueEvent> uses = TakeUses();
  if (uses.empty() || device::Exiting()) return;
  const device::LaunchRecorder::Hidden hidden;
  const device::RelaxedCapture relaxed(*device_.driver);
  const device::ContextScope scope(*device_.driver, device_.context);
  for (const device::UniqueEvent& use : uses) {
    // Fails where the device does, and nothing reads any more.
    (void)device_.driver->cuEventSynchronize(use.get());
  }
}

void Ledger::EndLease(void* entry) {
  auto* lease = static_cast<Entry*>(entry);
  Ledger* ledger = lease->ledger;
  // Relaxed: Lend came before the program dropped what it had lent.
  if (lease->lent.load(std::memory_order_relaxed)) [[unlikely]] {
    ledger->EndLoans(*lease);
  }
  lease->live.store(0, std::memory_order_release);
  ledger->Drop(1);
}

bool Ledger::Lend(void* context, Block::Release release, CUstream stream) {
  if (!IsLease(release)) return false;
  auto* lease = static_cast<Entry*>(context);
  Ledger& ledger = *lease->ledger;
  const base::MutexLock lock(ledger.mutex_);
  for (const Loan& loan : ledger.loans_) {
    if (loan.lease == lease && loan.stream == stream) return true;
  }
  ledger.loans_.push_back({lease, stream});
  lease->lent.store(true, std::memory_order_relaxed);
  return true;
}

void Ledger::EndLoans(Entry& lease) {
  if (device::Exiting()) return;
  std::vector<CUstream> streams;
  {
    const base::MutexLock lock(mutex_);
    std::erase_if(loans_, [&](const Loan& loan) {
      if (loan.lease != &lease) return false;
      streams.push_back(loan.stream);
      return true;
    });
  }
  lease.lent.store(false, std::memory_order_relaxed);
  const device::Driver& driver = *device_.driver;
  const device::LaunchRecorder::Hidden hidden;
  const device::RelaxedCapture relaxed(driver);
  const device::ContextScope scope(driver, device_.context);
  for (const CUstream stream : streams) {
    CUevent event = nullptr;
    if (driver.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS) {
      driver.cuCtxSynchronize();
      continue;
    }
    device::UniqueEvent use(driver, event);
    if (driver.cuEventRecord(event, stream) != CUDA_SUCCESS) {
      driver.cuCtxSynchronize();
      continue;
    }
    const base::MutexLock lock(mutex_);
    uses_.push_back(std::move(use));
    any_uses_.store(true, std::memory_order_release);
  }
}

std::vector<device::UniqueEvent> Ledger::TakeUses() {
  if (!any_uses_.load(std::memory_order_acquire)) [[likely]]
    return {};
  const base::MutexLock lock(mutex_);
  any_uses_.store(false, std::memory_order_relaxed);
  return std::exchange(uses_, {});
}

void Ledger::ReturnUses(std::vector<device::UniqueEvent> uses) {
  const base::MutexLock lock(mutex_);
  for (device::UniqueEvent& use : uses) uses_.push_back(std::move(use));
  any_uses_.store(true, std::memory_order_release);
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
