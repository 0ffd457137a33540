// Which places of an arena hold tensors that the program still has.

#ifndef REPRISE_ENGINE_REPLAY_LEDGER_H_
#define REPRISE_ENGINE_REPLAY_LEDGER_H_

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "engine/base/mutex.h"
#include "engine/device/driver.h"
#include "engine/device/unique_handle.h"
#include "engine/trace/block.h"
#include "engine/trace/trace.h"

namespace reprise::engine {

// Where an arena is. None on the host, where nothing is lent.
struct ArenaDevice {
  const device::Driver* driver = nullptr;
  CUcontext context = nullptr;
  KeepMemory keep = nullptr;  // of the arena's allocator, which has it
};

// Owns an arena and counts the leases on it. The arena is released when those
// who use it have dropped the ledger (Close) and the last lease has ended, on
// whichever thread that happens. Leases end on any thread; the rest is called
// under the session's lock, unless said otherwise.
//
// Instances of several plans may take turns in an arena: each begins its turn
// by Enter, and all leases that are alive are of whoever is in.
//
// Each place has two states: free and leased. Lease: free → leased. The release
// function of the block: leased → free, with release order, so that a thread
// that sees `free` (acquire) also sees all that the tensor's last user did.
//
// A lease may be lent to other streams. What they were given by its end is
// marked there by events: afterwards the program may end those streams, and no
// handle of theirs is kept. An end that cannot be marked waits for the device.
// A stream that is being captured then would take the event for a part of its
// graph, and nobody may wait for it: it is marked once that is over, and lives
// until then.
class Ledger {
 public:
  struct Closer {
    void operator()(Ledger* ledger) const { ledger->Close(); }
  };
  using Handle = std::unique_ptr<Ledger, Closer>;

  static Handle Create(Block arena, size_t places, ArenaDevice device = {});

  uint64_t address() const { return arena_.address(); }
  size_t places() const { return places_; }

  using Tenant = uint64_t;
  // One more that takes turns here; never the same again. Any thread.
  Tenant Join() { return 1 + joined_.fetch_add(1, std::memory_order_relaxed); }
  // It is that tenant's turn. False, and nothing has changed, while leases of
  // another one are alive.
  bool Enter(Tenant tenant) {
    if (tenant_ == tenant) [[likely]]
      return true;
    if (leased()) return false;
    tenant_ = tenant;
    return true;
  }
  bool IsIn(Tenant tenant) const { return tenant_ == tenant; }

  // A block over the place of `value` at `address`; its release ends the lease.
  Block Lease(ValueId value, uint64_t address) {
    // Relaxed: the lock of the session orders leases against each other.
    leases_[value].live.store(1, std::memory_order_relaxed);
    ++leased_;
    return Block(address, &leases_[value], &EndLease);
  }

  bool leased(ValueId value) const {
    return leases_[value].live.load(std::memory_order_acquire) != 0;
  }
  // A block with that release function is a lease.
  static bool IsLease(Block::Release release) { return release == &EndLease; }

  // The memory of a block, by its context and release function, is read by
  // `stream` until the program drops it, and for as long as what that stream
  // was given by then takes; the stream lives until then. False if the block is
  // no lease. Any thread, while the lease lives.
  static bool Lend(void* context, Block::Release release, CUstream stream);
  // The uses of leases that were lent and have ended since the last call:
  // before their places are written, the device must have come to them. None
  // are taken and nothing may be written while one cannot be marked, because
  // its stream is being captured.
  std::optional<std::vector<device::UniqueEvent>> TakeUses();
  void ReturnUses(std::vector<device::UniqueEvent> uses);

  // Any place is. Acquire: as for one place.
  bool leased() const { return leases() != 0; }
  // How many are.
  uint64_t leases() const {
    return leased_ - (kOpen - references_.load(std::memory_order_acquire));
  }

 private:
  struct Entry {
    Ledger* ledger = nullptr;
    std::atomic<uint32_t> live{0};
    std::atomic<bool> lent{false};
  };
  struct Loan {
    const Entry* lease;
    CUstream stream;
  };

  Ledger(Block arena, size_t places, ArenaDevice device);
  // Waits on the host for uses that nobody has taken: the allocator that gets
  // the arena knows nothing of them.
  ~Ledger();
  void Close();
  static void EndLease(void* entry);
  // Marks what the streams of a lease that ends were given.
  void EndLoans(Entry& lease);
  // What leases that have ended left behind.
  struct Ended {
    std::vector<device::UniqueEvent> uses;
    std::vector<CUstream> captured;  // not marked yet
  };
  // Marks what these streams were given.
  Ended Mark(const std::vector<CUstream>& streams);
  Ended TakeEnded();
  void Return(Ended ended);
  // Whoever brings the count to nothing deletes.
  void Drop(uint64_t references);

  Block arena_;
  const size_t places_;
  std::unique_ptr<Entry[]> leases_;
  // Far more than leases can be: how many there were is known at the end, and a
  // lease costs no atomic operation.
  static constexpr uint64_t kOpen = uint64_t{1} << 62;
  std::atomic<uint64_t> references_{kOpen};
  uint64_t leased_ = 0;  // in all
  std::atomic<Tenant> joined_{0};
  Tenant tenant_ = 0;  // who is in

  const ArenaDevice device_;
  base::Mutex mutex_;
  std::vector<Loan> loans_ REPRISE_GUARDED_BY(mutex_);
  Ended ended_ REPRISE_GUARDED_BY(mutex_);
  // There is something: what a launch looks at. Released before the lease ends.
  std::atomic<bool> any_ended_{false};
};

}  // namespace reprise::engine

#endif  // REPRISE_ENGINE_REPLAY_LEDGER_H_
