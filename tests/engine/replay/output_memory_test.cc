// Outputs lie in the arena, where the program leases them, or in fresh memory
// once they escape; and nothing is written over what the program still has.

#include "engine/replay/output_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "tests/engine/fake_executor.h"
#include "tests/engine/fake_frontend.h"
#include "tests/engine/trace_builder.h"

namespace reprise::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class OutputMemoryTest : public testing::Test {
 protected:
  // Four values, one an op, in two segments. The last takes the first's place.
  OutputMemoryTest() {
    TraceBuilder builder(&frontend_, kSizeBytes);
    for (int k = 0; k < 4; ++k) builder.Op({}, {}, 1);
    auto program = std::make_shared<Program>(builder.Take());
    program->effects =
        Effects(program->trace.get(), {}, {}, Effects::Remake::kWhatLasts);
    program->segments = {{0, 2, 2}, {2, 4, 2}};
    program->place_bytes.assign(4, kSizeBytes);
    plan_ = std::make_unique<PlanCore>(program);
    arena_ = Ledger::Create(Block(kArena, nullptr, [](void*) {}), 4);
    binding_ = std::make_unique<Binding>(program.get(), places_, &executor_);
    outputs_ = std::make_unique<OutputMemory>(plan_.get(), arena_, places_,
                                              binding_.get());
  }

  static constexpr uint64_t kSizeBytes = 512;
  static constexpr uint64_t kArena = 0x7f10'0000'0000;
  const std::vector<uint64_t> places_ = {kArena, kArena + 512, kArena + 1024,
                                         kArena};
  FakeFrontend frontend_;
  FakeExecutor::Log log_;
  FakeExecutor executor_{&log_};
  std::unique_ptr<PlanCore> plan_;
  std::shared_ptr<Ledger> arena_;
  std::unique_ptr<Binding> binding_;
  std::unique_ptr<OutputMemory> outputs_;
};

TEST_F(OutputMemoryTest, WhatTheProgramTakesIsLeasedUntilItDropsIt) {
  ASSERT_TRUE(outputs_->Enter());
  ASSERT_TRUE(outputs_->Bind());
  {
    const Block block = outputs_->Take(1);
    EXPECT_EQ(block.address(), kArena + 512);
    EXPECT_TRUE(outputs_->leased());
    EXPECT_TRUE(outputs_->leased(1));
    EXPECT_TRUE(outputs_->IsSeen(1));
    EXPECT_FALSE(outputs_->IsSeen(2));
  }
  EXPECT_FALSE(outputs_->leased());
  EXPECT_FALSE(outputs_->IsSeen(1));
}

TEST_F(OutputMemoryTest, WhatIsAliveAtTheNextLaunchEscapesToFreshMemory) {
  ASSERT_TRUE(outputs_->Enter());
  const Block kept = outputs_->Take(2);
  ASSERT_TRUE(outputs_->Bind());
  EXPECT_THAT(plan_->escaping(), ElementsAre(2));
  EXPECT_THAT(outputs_->outlived(), IsEmpty());
  EXPECT_EQ(outputs_->escapes(), 1u);
  EXPECT_EQ(frontend_.lent().size(), 1u);
  EXPECT_FALSE(outputs_->IsSeen(2));
  const Block fresh = outputs_->Take(2);
  EXPECT_EQ(fresh.address(), *frontend_.lent().begin());
  EXPECT_EQ(binding_->origin(2), fresh.address());
  EXPECT_TRUE(outputs_->IsSeen(2));
}

TEST_F(OutputMemoryTest, FreshMemoryThatNobodyTookServesTheNextLaunch) {
  ASSERT_TRUE(outputs_->Enter());
  plan_->Escape(1);
  ASSERT_TRUE(outputs_->Bind());
  ASSERT_TRUE(outputs_->Bind());
  EXPECT_EQ(outputs_->escapes(), 1u);
  const Block taken = outputs_->Take(1);
  frontend_.allocations_left = 0;
  EXPECT_FALSE(outputs_->Bind());
}

TEST_F(OutputMemoryTest, WhatSharesAPlaceWithAValueThatEscapesDoesToo) {
  ASSERT_TRUE(outputs_->Enter());
  const Block kept = outputs_->Take(3);
  ASSERT_TRUE(outputs_->Bind());
  EXPECT_THAT(plan_->escaping(), ElementsAre(3, 0));
  EXPECT_THAT(outputs_->outlived(), ElementsAre(3));
}

TEST_F(OutputMemoryTest, ASegmentHasRoomIfTheProgramHasDroppedWhatItFollows) {
  ASSERT_TRUE(outputs_->Enter());
  EXPECT_TRUE(outputs_->HasRoom(0, executor_));
  {
    const Block first = outputs_->Take(0);
    EXPECT_FALSE(outputs_->StaysFree(1, 2, {}));
    EXPECT_FALSE(outputs_->HasRoom(1, executor_));
    EXPECT_THAT(outputs_->outlived(), ElementsAre(0));
    plan_->Escape(3);  // lies elsewhere
    EXPECT_TRUE(outputs_->HasRoom(1, executor_));
    EXPECT_TRUE(outputs_->StaysFree(1, 2, {}));
  }
  EXPECT_THAT(outputs_->outlived(), ElementsAre(0));
}

TEST_F(OutputMemoryTest, WhatIsGivenOutFromALaunchTogetherKeepsItsPlace) {
  ASSERT_TRUE(outputs_->Enter());
  const std::vector<ValueId> taken = {0};
  EXPECT_TRUE(outputs_->StaysFree(1, 0, {}));
  EXPECT_FALSE(outputs_->StaysFree(1, 0, taken));
  EXPECT_TRUE(outputs_->StaysFree(1, 1, taken));  // made before the cursor
}

TEST_F(OutputMemoryTest, InstancesTakeTurnsInAnArena) {
  OutputMemory other(plan_.get(), arena_, places_, binding_.get());
  ASSERT_TRUE(outputs_->Enter());
  EXPECT_TRUE(outputs_->moved_in());
  ASSERT_TRUE(outputs_->Enter());
  EXPECT_FALSE(outputs_->moved_in());
  {
    const Block block = outputs_->Take(1);
    EXPECT_FALSE(other.Enter());
    EXPECT_FALSE(other.leased());
  }
  ASSERT_TRUE(other.Enter());
  EXPECT_TRUE(other.moved_in());
}

}  // namespace
}  // namespace reprise::engine
