// Which instance a launch takes, and what instances learn from each other, on
// executors that write down what they are told.

#include "engine/replay/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
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
using ::testing::SizeIs;

class PlanTest : public testing::Test {
 protected:
  static constexpr size_t kInstances = 3;
  static constexpr uint64_t kSizeBytes = 64;

  // x → a → b, then a is written in place, then c = f(b); d has no memory.
  PlanTest() {
    TraceBuilder builder(&frontend_, kSizeBytes);
    x_ = builder.External();
    a_ = builder.Op({x_}, {}, 1);
    b_ = builder.Op({a_}, {}, 1);
    builder.Op({}, {a_});
    c_ = builder.Op({b_}, {}, 1);
    d_ = builder.Op({b_}, {}, 1);
    builder.trace().values[d_].size_bytes = 0;
    auto program = std::make_shared<Program>(builder.Take());
    const Trace& trace = *program->trace;
    program->movable.assign(trace.values.size(), true);
    program->place_bytes.assign(trace.values.size(), kSizeBytes);
    program->effects = Effects(&trace, {}, {}, Effects::Remake::kWhatLasts);
    program->segments = {{0, 5, 5}};
    plan_ = std::make_unique<Plan>(program, Parts(trace, 0));
    plan_->Add(Parts(trace, 1));
  }

  static uint64_t Arena(size_t index) {
    return 0x7f10'0000'0000 + index * 0x10'0000;
  }
  static uint64_t Place(size_t index, ValueId value) {
    return Arena(index) + value * 512;
  }

  InstanceParts Parts(const Trace& trace, size_t index) {
    InstanceParts parts;
    parts.arena = Block(Arena(index), &arena_releases_[index],
                        [](void* releases) { ++*static_cast<int*>(releases); });
    parts.places.assign(trace.values.size(), 0);
    for (ValueId v = 0; v < trace.values.size(); ++v) {
      if (!trace.values[v].external) parts.places[v] = Place(index, v);
    }
    parts.executor = std::make_unique<FakeExecutor>(&logs_[index]);
    return parts;
  }

  // A pass of the instance from head to end; what it made of `kept`.
  std::vector<Block> Run(size_t index, const std::vector<ValueId>& kept) {
    Launch(index);
    std::vector<Block> blocks;
    for (const ValueId v : kept) {
      blocks.push_back(plan_->instance(index).TakeBlock(v));
    }
    plan_->instance(index).Finish();
    return blocks;
  }
  void Launch(size_t index) {
    const TracedOp& first = plan_->trace().ops[0];
    Operand operand;
    operand.storage = plan_->trace().values[x_].storage;
    operand.base = TraceBuilder::AddressOf(x_);
    OpView head;
    head.op = first.op;
    head.words = first.words;
    head.operands = {&operand, 1};
    ASSERT_EQ(plan_->instance(index).Resolve(head, holds_),
              Instance::Readiness::kReady);
    ASSERT_TRUE(plan_->instance(index).LaunchNext());
  }

  FakeFrontend frontend_;
  StorageHolds holds_{&frontend_};
  FakeExecutor::Log logs_[kInstances];
  int arena_releases_[kInstances] = {};
  std::unique_ptr<Plan> plan_;
  ValueId x_, a_, b_, c_, d_;
};

TEST_F(PlanTest, FirstInstanceThatHoldsNothingIsTaken) {
  EXPECT_EQ(plan_->Choose().index, 0u);
  std::vector<Block> held = Run(0, {b_});
  const Plan::Choice choice = plan_->Choose();
  EXPECT_EQ(choice.index, 1u);
  EXPECT_EQ(choice.instance, &plan_->instance(1));
  EXPECT_EQ(choice.held, 0u);
  const std::vector<Block> second = Run(1, {b_});
  EXPECT_EQ(second[0].address(), Place(1, b_));
  EXPECT_EQ(held[0].address(), Place(0, b_));
  held.clear();
  EXPECT_EQ(plan_->Choose().index, 0u);
  EXPECT_EQ(plan_->Choose().held, 0u);
}

TEST_F(PlanTest, WhereNoneIsFreeTheOneThatHoldsLeastIsTaken) {
  const auto first = Run(0, {a_, b_, c_});
  const auto second = Run(1, {a_, c_});
  const Plan::Choice choice = plan_->Choose();
  EXPECT_EQ(choice.index, 1u);
  EXPECT_EQ(choice.held, 2u);
  EXPECT_EQ(choice.held_bytes, 2 * kSizeBytes);
  // Taken all the same, what is alive in it escapes, and nothing else.
  Launch(1);
  EXPECT_THAT(plan_->escaping(), ElementsAre(a_, c_));
  EXPECT_EQ(plan_->instance(1).escapes(), 2u);
  EXPECT_EQ(plan_->instance(1).binding().origin(b_), Place(1, b_));
}

TEST_F(PlanTest, OutputWithoutMemoryHoldsNoInstance) {
  const auto held = Run(0, {d_});
  EXPECT_EQ(plan_->Choose().index, 1u);  // free without a look at its outputs
  const auto also_held = Run(1, {d_});
  EXPECT_EQ(plan_->Choose().index, 0u);
  EXPECT_EQ(plan_->Choose().held, 0u);
}

TEST_F(PlanTest, EscapeThatOneInstanceLearnedHoldsForAll) {
  const auto held = Run(0, {b_});
  const auto fresh = Run(0, {b_});
  EXPECT_THAT(frontend_.lent(), ElementsAre(fresh[0].address()));
  // What is alive lies elsewhere, so that the instance is free again.
  EXPECT_EQ(plan_->Choose().index, 1u);
  const auto other = Run(1, {b_, c_});
  EXPECT_THAT(frontend_.lent(), SizeIs(2));
  EXPECT_NE(other[0].address(), Place(1, b_));
  EXPECT_EQ(other[1].address(), Place(1, c_));
  EXPECT_EQ(plan_->Choose().index, 0u);
  EXPECT_EQ(plan_->Choose().held, 0u);
}

TEST_F(PlanTest, SquashOfOneInstanceLeavesTheOthersAlone) {
  const auto first = Run(0, {a_, b_});
  for (auto& log : logs_) log = {};
  Launch(1);
  const Block a = plan_->instance(1).TakeBlock(a_);
  ASSERT_TRUE(plan_->instance(1).Squash(2));  // before the write in place
  EXPECT_THAT(logs_[1].ops, ElementsAre(0));
  EXPECT_THAT(logs_[0].ops, IsEmpty());
  EXPECT_THAT(logs_[0].binds, IsEmpty());
  // The op is run again where the second instance has its values.
  EXPECT_EQ(plan_->instance(1).binding().origin(a_), Place(1, a_));
  EXPECT_EQ(first[0].address(), Place(0, a_));
}

TEST_F(PlanTest, InstancesAreResolvedEachForItself) {
  Launch(0);
  plan_->instance(0).Finish();
  Launch(1);
  EXPECT_EQ(plan_->instance(0).binding().origin(c_), Place(0, c_));
  EXPECT_EQ(plan_->instance(1).binding().origin(c_), Place(1, c_));
  EXPECT_THAT(logs_[0].segments, ElementsAre(0));
  EXPECT_THAT(logs_[1].segments, ElementsAre(0));
}

TEST_F(PlanTest, ArenaOfADroppedInstanceLivesOnWhileItIsLeased) {
  auto held = Run(1, {b_});
  plan_->DropLast();
  EXPECT_EQ(plan_->instances(), 1u);
  EXPECT_EQ(arena_releases_[1], 0);
  held.clear();
  EXPECT_EQ(arena_releases_[1], 1);
  plan_.reset();
  EXPECT_EQ(arena_releases_[0], 1);
}

}  // namespace
}  // namespace reprise::engine
