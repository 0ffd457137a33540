// A framework of bare addresses: its memory is never looked into.

#ifndef REPRISE_TESTS_ENGINE_FAKE_FRONTEND_H_
#define REPRISE_TESTS_ENGINE_FAKE_FRONTEND_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/trace/frontend.h"

namespace reprise::engine {

// Storages are numbers; what is alive and where it lies is what the test says.
// Every reference that is given up more often than taken is a failure.
class FakeFrontend : public Frontend {
 public:
  std::string OpName(OpId op) const override {
    return "fake::op" + std::to_string(op);
  }

  bool MayRunBeside(OpId) const override { return true; }

  void Retain(StorageToken storage) override {
    EXPECT_NE(storage, nullptr);
    ++references[storage];
  }
  void Release(StorageToken storage) override {
    ASSERT_GT(references[storage], 0) << storage;
    if (--references[storage] == 0) references.erase(storage);
  }
  bool Alive(StorageToken storage) const override {
    return bases.contains(storage);
  }
  uint64_t Base(StorageToken storage) const override {
    const auto found = bases.find(storage);
    return found == bases.end() ? 0 : found->second;
  }

  size_t Hold(std::span<const StoragePlace> storages) override {
    size_t held = 0;
    for (const StoragePlace& place : storages) {
      EXPECT_TRUE(references.contains(place.storage)) << place.storage;
      if (!Alive(place.storage) || Base(place.storage) != place.base) break;
      holds.insert(place.storage);
      ++held;
    }
    return held;
  }
  void Drop(std::span<const StoragePlace> storages) override {
    for (const StoragePlace& place : storages) {
      const auto found = holds.find(place.storage);
      ASSERT_NE(found, holds.end()) << place.storage;
      holds.erase(found);
    }
  }

  base::Result<Block> Allocate(size_t size_bytes) override {
    if (allocations_left == 0) {
      return base::Fail(base::Code::kResourceExhausted, "told to fail");
    }
    --allocations_left;
    auto* lent = new Lent{this, next_address_};
    next_address_ += (size_bytes / 512 + 1) * 512;
    lent_.insert(lent->address);
    return Block(lent->address, lent, [](void* context) {
      auto* lent = static_cast<Lent*>(context);
      lent->frontend->lent_.erase(lent->address);
      delete lent;
    });
  }

  base::Status BeginPrivatePool(uint64_t) override {
    ++open_pools;
    return {};
  }
  void EndPrivatePool() override { --open_pools; }
  void BeginAllocations() override {}
  std::vector<Allocation> TakeAllocations() override {
    return std::exchange(allocations, {});
  }
  GeneratorState Generator() const override { return generator; }
  bool MoveGenerator(const GeneratorState& from,
                     const GeneratorState& to) override {
    if (generator != from) return false;
    generator = to;
    return true;
  }
  std::unique_ptr<KeptGenerator> KeepGenerator() override {
    struct Kept : KeptGenerator {
      void PutBack() const override { frontend->generator = state; }
      FakeFrontend* frontend = nullptr;
      GeneratorState state;
    };
    if (!keeps_generator) return nullptr;
    auto kept = std::make_unique<Kept>();
    kept->frontend = this;
    kept->state = generator;
    return kept;
  }
  bool OwnsAddress(uint64_t address) const override {
    return address >= kFirstAddress && address < kEndAddress;
  }

  // Addresses of blocks that Allocate lent and that were not given back.
  const std::set<uint64_t>& lent() const { return lent_; }

  static constexpr uint64_t kFirstAddress = 0x7f00'0000'0000;
  static constexpr uint64_t kEndAddress = 0x7fff'0000'0000;

  std::map<StorageToken, int> references;
  std::map<StorageToken, uint64_t> bases;  // of what is alive
  std::multiset<StorageToken> holds;
  std::vector<Allocation> allocations;  // for the next TakeAllocations
  int allocations_left = 1 << 30;
  int open_pools = 0;
  GeneratorState generator;
  bool keeps_generator = false;

 private:
  struct Lent {
    FakeFrontend* frontend;
    uint64_t address;
  };

  std::set<uint64_t> lent_;
  uint64_t next_address_ = kFirstAddress + 0x10'0000'0000;
};

// A storage's name.
inline StorageToken Token(uint64_t number) {
  return reinterpret_cast<StorageToken>(number);
}

}  // namespace reprise::engine

#endif  // REPRISE_TESTS_ENGINE_FAKE_FRONTEND_H_
