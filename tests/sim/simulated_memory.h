// The memory of a simulated device under a caching allocator.

#ifndef REPRISE_TESTS_SIM_SIMULATED_MEMORY_H_
#define REPRISE_TESTS_SIM_SIMULATED_MEMORY_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "engine/trace/memory_watch.h"

namespace reprise::sim {

// Blocks belong to a pool (a stream's own, or a private one). What is freed
// goes to the next allocation of its pool that it fits best, at once and with
// its bytes: whoever uses it enqueues behind what was enqueued before. What is
// given back to the device is poisoned and never lent again, and nobody may
// touch it. Guards behind every block tell who wrote past its end.
// Thread-compatible.
class SimulatedMemory {
 public:
  using Pool = uint64_t;

  explicit SimulatedMemory(size_t size_bytes = size_t{8} << 20)
      : memory_(size_bytes, std::byte{kGuard}) {
    next_ = RoundUp(begin());
  }

  Pool NewPool() { return ++pools_; }

  uint64_t Allocate(size_t size_bytes, Pool pool = 0) {
    uint64_t best = 0;
    for (const uint64_t address : free_) {
      const Block& block = blocks_[address];
      if (block.pool != pool || block.size_bytes < size_bytes) continue;
      if (best == 0 || block.size_bytes <= blocks_[best].size_bytes) {
        best = address;
      }
    }
    if (best != 0) {
      std::erase(free_, best);
      blocks_[best].lent = true;
      return best;
    }
    const uint64_t address = next_;
    next_ = RoundUp(address + size_bytes + kGuardBytes);
    if (next_ > end()) {
      ADD_FAILURE() << "the simulated device is full";
      next_ = RoundUp(begin());
    }
    blocks_[address] = {size_bytes, pool, true};
    Fill(address, size_bytes, kPoison);
    return address;
  }
  bool IsFree(uint64_t address) const {
    return std::find(free_.begin(), free_.end(), address) != free_.end();
  }
  // Lends the block that begins there; false if none does that is free and
  // large enough.
  bool Take(uint64_t address, size_t size_bytes) {
    if (!IsFree(address) || SizeOf(address) < size_bytes) return false;
    std::erase(free_, address);
    blocks_[address].lent = true;
    return true;
  }
  void Free(uint64_t address) {
    Block& block = blocks_.at(address);
    EXPECT_TRUE(block.lent) << "freed twice";
    block.lent = false;
    free_.push_back(address);
    watches_.Freed(address, block.size_bytes);
  }

  // As engine::Frontend::WatchMemory.
  std::shared_ptr<engine::MemoryWatch> Watch() {
    return watches_.Begin([this] {
      std::vector<engine::MemoryWatches::Block> in_use;
      for (const auto& [address, block] : blocks_) {
        if (block.lent) in_use.push_back({address, block.size_bytes});
      }
      return in_use;
    });
  }

  // All that is free goes back to the device, which has to be at rest.
  void GiveBack() {
    for (const uint64_t address : free_) {
      blocks_[address].gone = true;
      Fill(address, blocks_[address].size_bytes, kPoison);
    }
    free_.clear();
  }

  // A device address.
  bool Owns(uint64_t address) const {
    return address >= begin() && address < end();
  }
  // Within one block. Freed ones count: what was enqueued before may touch
  // them.
  bool Accessible(uint64_t address, size_t size_bytes) const {
    auto block = blocks_.upper_bound(address);
    if (block == blocks_.begin()) return false;
    --block;
    return !block->second.gone &&
           address + size_bytes <= block->first + block->second.size_bytes;
  }
  size_t SizeOf(uint64_t address) const {
    return blocks_.at(address).size_bytes;
  }
  size_t lent() const {
    size_t count = 0;
    for (const auto& [address, block] : blocks_) count += block.lent ? 1 : 0;
    return count;
  }

  bool GuardsAreIntact() const {
    for (const auto& [address, block] : blocks_) {
      const auto* guard =
          reinterpret_cast<const std::byte*>(address) + block.size_bytes;
      for (size_t i = 0; i < kGuardBytes; ++i) {
        if (guard[i] != std::byte{kGuard}) return false;
      }
    }
    return true;
  }

  static constexpr unsigned char kPoison = 0xA5;

 private:
  struct Block {
    size_t size_bytes = 0;
    Pool pool = 0;
    bool lent = false;
    bool gone = false;  // back to the device
  };

  static constexpr size_t kGuardBytes = 1024;
  static constexpr unsigned char kGuard = 0xEE;

  static uint64_t RoundUp(uint64_t address) {
    return (address + 511) / 512 * 512;
  }
  static void Fill(uint64_t address, size_t size_bytes, unsigned char byte) {
    std::memset(reinterpret_cast<void*>(address), byte, size_bytes);
  }
  uint64_t begin() const { return reinterpret_cast<uint64_t>(memory_.data()); }
  uint64_t end() const { return begin() + memory_.size(); }

  std::vector<std::byte> memory_;
  uint64_t next_;
  Pool pools_ = 0;
  std::map<uint64_t, Block> blocks_;  // by address
  std::vector<uint64_t> free_;
  engine::MemoryWatches watches_;
};

}  // namespace reprise::sim

#endif  // REPRISE_TESTS_SIM_SIMULATED_MEMORY_H_
