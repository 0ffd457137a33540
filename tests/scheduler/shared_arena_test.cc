// Proves which instances are given the same memory, and for how long the cache
// is charged for it.

#include "scheduler/shared_arena.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>

#include "engine/backend/host_backend.h"
#include "tests/engine/fake_frontend.h"
#include "tests/engine/trace_builder.h"

namespace reprise::scheduler {
namespace {

class SharedArenaTest : public testing::Test {
 protected:
  using Arena = std::shared_ptr<engine::Ledger>;
  static constexpr uint64_t kBudget = 4096;

  base::Result<Arena> TryTake(uint64_t size_bytes, size_t values = 4) {
    engine::TraceBuilder builder(&frontend_);
    for (size_t i = 0; i < values; ++i) builder.External();
    engine::Program program(builder.Take());
    program.layout.size_bytes = size_bytes;
    return shared_.Take(program, backend_);
  }
  Arena Take(uint64_t size_bytes, size_t values = 4) {
    auto arena = TryTake(size_bytes, values);
    EXPECT_TRUE(arena);
    return arena ? *arena : nullptr;
  }
  size_t charged() const { return plans_.stats().charge_bytes; }

  engine::FakeFrontend frontend_;
  engine::HostBackend backend_{&frontend_, {}};
  PlanCache plans_{kBudget,
                   [this](const auto&, const auto&) { of_plan_.reset(); }};
  Arena of_plan_;  // goes when a plan is evicted
  SharedArena shared_{&plans_, 100};
};

TEST_F(SharedArenaTest, WhatFitsIsMadeInTheSame) {
  const Arena arena = Take(1000);
  ASSERT_NE(arena, nullptr);
  EXPECT_EQ(Take(1000), arena);
  EXPECT_EQ(Take(100), arena);
  EXPECT_TRUE(shared_.IsCurrent(arena));
  EXPECT_EQ(charged(), 1000u);
}

TEST_F(SharedArenaTest, SmallOnesShareNothing) {
  EXPECT_EQ(Take(99), nullptr);
  EXPECT_EQ(charged(), 0u);
}

TEST_F(SharedArenaTest, ALargerOneIsTheCurrentOneFromThenOn) {
  Arena small = Take(1000);
  const Arena large = Take(1001);
  EXPECT_NE(large, small);
  EXPECT_FALSE(shared_.IsCurrent(small));
  EXPECT_TRUE(shared_.IsCurrent(large));
  EXPECT_EQ(Take(500), large);
  EXPECT_EQ(charged(), 2001u);
  small.reset();
  EXPECT_EQ(charged(), 1001u);
}

TEST_F(SharedArenaTest, MoreValuesNeedAnotherThatIsNoSmaller) {
  const Arena few = Take(1000, 4);
  const Arena many = Take(200, 5);
  EXPECT_NE(many, few);
  EXPECT_GE(many->places(), 5u);
  EXPECT_EQ(Take(1000, 5), many);
}

TEST_F(SharedArenaTest, IsChargedUntilTheLastInstanceIsGone) {
  Arena one = Take(1000);
  Arena other = Take(1000);
  one.reset();
  plans_.Trim(0);
  EXPECT_EQ(charged(), 1000u);
  other.reset();
  EXPECT_EQ(charged(), 0u);
  EXPECT_NE(Take(1000), nullptr);
}

TEST_F(SharedArenaTest, ALeaseLivesOnBehindTheLastInstance) {
  Arena arena = Take(1000);
  const engine::Block lease = arena->Lease(0, arena->address());
  arena.reset();
  EXPECT_EQ(charged(), 0u);
  EXPECT_NE(lease.address(), 0u);
}

// An older arena goes with the last plan that has an instance there.
TEST_F(SharedArenaTest, PlansThatNobodyUsesMakeRoomWithTheirArenas) {
  of_plan_ = Take(1000);
  ASSERT_TRUE(plans_.Insert({.build = 1, .session = this}, nullptr, 100));
  EXPECT_EQ(charged(), 1100u);
  const Arena large = Take(kBudget - 500);
  EXPECT_NE(large, nullptr);
  EXPECT_EQ(charged(), kBudget - 500);
}

TEST_F(SharedArenaTest, WithoutBudgetOrMemoryThereIsNone) {
  const auto over = TryTake(kBudget + 1);
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error().code(), base::Code::kResourceExhausted);
  frontend_.allocations_left = 0;
  const auto without = TryTake(1000);
  ASSERT_FALSE(without);
  EXPECT_EQ(without.error().code(), base::Code::kResourceExhausted);
  EXPECT_EQ(charged(), 0u);
}

TEST_F(SharedArenaTest, NoneIsMadeInWhatWasLeft) {
  const Arena arena = Take(1000);
  shared_.Leave();
  EXPECT_FALSE(shared_.IsCurrent(arena));
  EXPECT_NE(Take(1000), arena);
}

}  // namespace
}  // namespace reprise::scheduler
