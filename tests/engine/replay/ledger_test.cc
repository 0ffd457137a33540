// An arena outlives its plan and every tensor over it, and is given back once.

#include "engine/replay/ledger.h"

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>
#include <utility>
#include <vector>

namespace reprise::engine {
namespace {

// Memory that counts how often it is released.
class LedgerTest : public testing::Test {
 protected:
  Block Arena() {
    return Block(0x1000, &releases_, [](void* releases) {
      static_cast<std::atomic<int>*>(releases)->fetch_add(1);
    });
  }

  std::atomic<int> releases_{0};
};

TEST_F(LedgerTest, ArenaGoesWithThePlanWhereNothingIsLeased) {
  Ledger::Handle ledger = Ledger::Create(Arena(), 3);
  EXPECT_EQ(releases_, 0);
  ledger.reset();
  EXPECT_EQ(releases_, 1);
}

TEST_F(LedgerTest, PlaceIsLeasedWhileItsBlockLives) {
  Ledger::Handle ledger = Ledger::Create(Arena(), 3);
  EXPECT_FALSE(ledger->leased(1));
  {
    const Block block = ledger->Lease(1, 0x1200);
    EXPECT_EQ(block.address(), 0x1200u);
    EXPECT_TRUE(ledger->leased(1));
    EXPECT_FALSE(ledger->leased(0));
    EXPECT_FALSE(ledger->leased(2));
  }
  EXPECT_FALSE(ledger->leased(1));
  const Block again = ledger->Lease(1, 0x1200);
  EXPECT_TRUE(ledger->leased(1));
}

TEST_F(LedgerTest, WhatIsNoLeaseIsNotLent) {
  int context = 0;
  EXPECT_FALSE(Ledger::Lend(
      &context, [](void*) {}, nullptr));
}

TEST_F(LedgerTest, LeaseThatOutlivesThePlanKeepsTheArena) {
  Ledger::Handle ledger = Ledger::Create(Arena(), 2);
  Block first = ledger->Lease(0, 0x1000);
  Block second = ledger->Lease(1, 0x1200);
  ledger.reset();
  EXPECT_EQ(releases_, 0);
  first = Block();
  EXPECT_EQ(releases_, 0);
  second = Block();
  EXPECT_EQ(releases_, 1);
}

// As a framework's tensor takes it: pointer, context and deleter.
TEST_F(LedgerTest, DetachedLeaseEndsThroughItsReleaseFunction) {
  Ledger::Handle ledger = Ledger::Create(Arena(), 1);
  Block block = ledger->Lease(0, 0x1000);
  const Block::Parts parts = block.Detach();
  EXPECT_FALSE(block);
  block = Block();
  EXPECT_TRUE(ledger->leased(0));
  parts.release(parts.context);
  EXPECT_FALSE(ledger->leased(0));
  EXPECT_EQ(releases_, 0);
}

TEST_F(LedgerTest, LeasesThatEndOnManyThreadsReleaseTheArenaOnce) {
  constexpr size_t kPlaces = 64;
  constexpr size_t kThreads = 4;
  for (uint32_t seed = 0; seed < 200; ++seed) {
    releases_ = 0;
    std::mt19937 random(seed);
    Ledger::Handle ledger = Ledger::Create(Arena(), kPlaces);
    std::vector<std::vector<Block>> held(kThreads);
    for (ValueId value = 0; value < kPlaces; ++value) {
      held[random() % kThreads].push_back(
          ledger->Lease(value, 0x1000 + uint64_t{value} * 512));
    }
    std::atomic<bool> go{false};
    std::vector<std::thread> threads;
    threads.reserve(kThreads);
    for (std::vector<Block>& blocks : held) {
      threads.emplace_back([&go, &blocks] {
        while (!go.load(std::memory_order_acquire)) std::this_thread::yield();
        for (Block& block : blocks) block = Block();
      });
    }
    go.store(true, std::memory_order_release);
    // The plan goes before, among or after them; until then it may ask.
    for (uint32_t i = random() % 100; i > 0; --i) {
      (void)ledger->leased(static_cast<ValueId>(random() % kPlaces));
    }
    ledger.reset();
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(releases_, 1) << "seed " << seed;
  }
}

// What a tensor's last user wrote is seen by whoever finds its place free.
TEST_F(LedgerTest, EndOfALeaseIsSeenWithAllThatCameBeforeIt) {
  Ledger::Handle ledger = Ledger::Create(Arena(), 1);
  for (int round = 0; round < 1000; ++round) {
    int written = 0;  // no atomic: the lease orders it
    std::thread user(
        [&written, round, block = ledger->Lease(0, 0x1000)]() mutable {
          written = round + 1;
          block = Block();
        });
    while (ledger->leased(0)) std::this_thread::yield();
    ASSERT_EQ(written, round + 1);
    user.join();
  }
}

}  // namespace
}  // namespace reprise::engine
