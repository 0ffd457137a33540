#include "engine/replay/ledger.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "engine/device/context_scope.h"
#include "engine/device/exiting.h"
#include "engine/device/launch_recorder.h"
#include "engine/device/relaxed_capture.h"

namespace reprise::engine {
namespace {

// An event would become a part of its graph, and the host may not wait for it.
bool IsCaptured(const device::Driver& driver, CUstream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  const CUresult result = driver.cuStreamIsCapturing(stream, &status);
  // The default stream waits for others, one of which is captured.
  return result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT ||
         (result == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE);
}

}  // namespace

Ledger::Handle Ledger::Create(Block arena, size_t places, ArenaDevice device) {
  return Handle(new Ledger(std::move(arena), places, device));
}

Ledger::Ledger(Block arena, size_t places, ArenaDevice device)
    : arena_(std::move(arena)),
      places_(places),
      leases_(new Entry[places]),
      device_(device) {
  for (size_t i = 0; i < places; ++i) leases_[i].ledger = this;
}

Ledger::~Ledger() {
  if (!any_ended_.load(std::memory_order_acquire) || device::Exiting()) return;
  const Ended ended = TakeEnded();
  const device::Driver& driver = *device_.driver;
  const device::LaunchRecorder::Hidden hidden;
  const device::RelaxedCapture relaxed(driver);
  const device::ContextScope scope(driver, device_.context);
  for (const device::UniqueEvent& use : ended.uses) {
    // Fails where the device does, and nothing reads any more.
    (void)driver.cuEventSynchronize(use.get());
  }
  for (const CUstream stream : ended.captured) {
    device_.keep(arena_.address(), stream);
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
  Return(Mark(streams));
}

Ledger::Ended Ledger::Mark(const std::vector<CUstream>& streams) {
  const device::Driver& driver = *device_.driver;
  const device::LaunchRecorder::Hidden hidden;
  const device::RelaxedCapture relaxed(driver);
  const device::ContextScope scope(driver, device_.context);
  Ended ended;
  for (const CUstream stream : streams) {
    if (IsCaptured(driver, stream)) {
      ended.captured.push_back(stream);
      continue;
    }
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
    ended.uses.push_back(std::move(use));
  }
  return ended;
}

Ledger::Ended Ledger::TakeEnded() {
  Ended ended;
  {
    const base::MutexLock lock(mutex_);
    any_ended_.store(false, std::memory_order_relaxed);
    ended = std::exchange(ended_, {});
  }
  if (ended.captured.empty()) [[likely]]
    return ended;
  Ended marked = Mark(ended.captured);
  std::ranges::move(marked.uses, std::back_inserter(ended.uses));
  ended.captured = std::move(marked.captured);
  return ended;
}

void Ledger::Return(Ended ended) {
  if (ended.uses.empty() && ended.captured.empty()) return;
  const base::MutexLock lock(mutex_);
  std::ranges::move(ended.uses, std::back_inserter(ended_.uses));
  std::ranges::copy(ended.captured, std::back_inserter(ended_.captured));
  any_ended_.store(true, std::memory_order_release);
}

std::optional<std::vector<device::UniqueEvent>> Ledger::TakeUses() {
  std::vector<device::UniqueEvent> none;
  if (!any_ended_.load(std::memory_order_acquire)) [[likely]]
    return none;
  Ended ended = TakeEnded();
  if (ended.captured.empty()) return std::move(ended.uses);
  Return(std::move(ended));
  return std::nullopt;
}

void Ledger::ReturnUses(std::vector<device::UniqueEvent> uses) {
  Return({.uses = std::move(uses), .captured = {}});
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
