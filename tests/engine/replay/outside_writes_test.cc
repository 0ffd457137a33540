// What eager has written is what stays, whichever of the two ran first, and
// however often copies fail.

#include "engine/replay/outside_writes.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/engine/fake_executor.h"
#include "tests/engine/fake_frontend.h"
#include "tests/engine/trace_builder.h"

namespace reprise::engine {
namespace {

// Copies words that stand for memory, by address.
class CopyingExecutor : public FakeExecutor {
 public:
  explicit CopyingExecutor(Log* log) : FakeExecutor(log) {}
  base::Status Copy(uint64_t to, uint64_t from,
                    const kernels::Layout& layout) override {
    ++copies;
    if (failing_from <= copies && copies < failing_from + failing) {
      return base::Fail(base::Code::kInternal, "told to fail");
    }
    EXPECT_EQ(layout.span_bytes(), 12);
    words[to] = words[from];
    return {};
  }

  std::map<uint64_t, int> words;
  int copies = 0;
  int failing_from = 0;
  int failing = 0;
};

class OutsideWritesTest : public testing::Test {
 protected:
  static constexpr int kBefore = 1;
  static constexpr int kPlan = 2;
  static constexpr int kEager = 3;

  // An op that writes three elements of a weight, and reads something else.
  OutsideWritesTest() {
    const ValueId weight = builder_.External();
    const ValueId x = builder_.External();
    builder_.Op({x}, {weight}, 1);
    const std::array<int64_t, 1> sizes = {3};
    const std::array<int64_t, 1> strides = {1};
    op().written = {kernels::MakeLayout(sizes, strides, 4)};
    operands_.resize(2);
    operands_[0].base = kWeight;
    operands_[1].base = kWeight + 0x1000;
    view_.operands = operands_;
    executor_.words[kWeight] = kBefore;
  }

  base::Status Begin() {
    return outside_.Begin(op(), view_, builder_.trace(), executor_);
  }
  TracedOp& op() { return builder_.trace().ops.front(); }
  int& weight() { return executor_.words[kWeight]; }
  int kept() { return executor_.words[outside_.kept(0)]; }

  static constexpr uint64_t kWeight = 0x7f00'1234'0000;
  FakeFrontend frontend_;
  TraceBuilder builder_{&frontend_};
  std::vector<Operand> operands_;
  OpView view_;
  FakeExecutor::Log log_;
  CopyingExecutor executor_{&log_};
  OutsideWrites outside_{&frontend_};
};

TEST_F(OutsideWritesTest, WhatLiesTooFarApartIsNotCopied) {
  const auto can_copy = [](std::vector<int64_t> sizes,
                           std::vector<int64_t> strides) {
    Operand operand;
    operand.element_bytes = 4;
    operand.sizes = sizes;
    operand.strides = strides;
    return CanCopy(operand);
  };
  EXPECT_TRUE(can_copy({}, {}));
  EXPECT_TRUE(can_copy({0, 3}, {7, 1}));
  EXPECT_TRUE(can_copy({64}, {1 << 10}));       // a column of a small table
  EXPECT_TRUE(can_copy({1 << 24, 3}, {8, 1}));  // most of a large one
  EXPECT_FALSE(can_copy({1 << 20}, {1000}));    // a column of a large one
  EXPECT_FALSE(can_copy({4}, {-1}));
  const std::vector<int64_t> ones(13, 1);
  EXPECT_FALSE(can_copy(ones, ones));
}

TEST_F(OutsideWritesTest, PlanFirst) {
  ASSERT_TRUE(Begin());
  weight() = kPlan;
  ASSERT_TRUE(outside_.Keep(executor_));
  ASSERT_TRUE(outside_.PutBefore(executor_));
  EXPECT_EQ(weight(), kBefore);
  weight() = kEager;
  EXPECT_EQ(kept(), kPlan);
  EXPECT_EQ(outside_.kept(1), 0u);  // it is not written
  outside_.End();
  EXPECT_EQ(weight(), kEager);
  EXPECT_TRUE(frontend_.lent().empty());
}

TEST_F(OutsideWritesTest, EagerFirst) {
  ASSERT_TRUE(Begin());
  weight() = kEager;
  ASSERT_TRUE(outside_.Keep(executor_));
  ASSERT_TRUE(outside_.PutBefore(executor_));
  EXPECT_EQ(weight(), kBefore);
  weight() = kPlan;
  EXPECT_EQ(kept(), kEager);
  ASSERT_TRUE(outside_.PutKept(executor_));
  EXPECT_EQ(weight(), kEager);
}

TEST_F(OutsideWritesTest, WithoutMemoryNothingIsBegun) {
  frontend_.allocations_left = 0;
  EXPECT_FALSE(Begin());
  EXPECT_EQ(executor_.copies, 0);
  EXPECT_EQ(outside_.kept(0), 0u);
}

// What cannot be kept is not taken for something that was.
TEST_F(OutsideWritesTest, WhatWasNotKeptIsNotPut) {
  ASSERT_TRUE(Begin());
  weight() = kEager;
  executor_.failing_from = 2;
  executor_.failing = 1;
  EXPECT_FALSE(outside_.Keep(executor_));
  EXPECT_TRUE(outside_.PutKept(executor_));
  EXPECT_EQ(weight(), kEager);
}

TEST_F(OutsideWritesTest, PuttingBackIsTriedAgain) {
  for (const bool lasts : {false, true}) {
    executor_.copies = 0;
    executor_.failing = 0;
    weight() = kBefore;
    ASSERT_TRUE(Begin());
    weight() = kPlan;
    ASSERT_TRUE(outside_.Keep(executor_));
    executor_.failing_from = 3;
    executor_.failing = lasts ? 100 : 2;
    const base::Status put = outside_.PutBefore(executor_);
    ASSERT_FALSE(put);
    EXPECT_EQ(weight(), lasts ? kPlan : kBefore);
    EXPECT_NE(put.error().message().find(lasts ? "could not be put right"
                                               : "tried again"),
              std::string::npos);
  }
}

TEST_F(OutsideWritesTest, GeneratorIsWhereEagerLeftItWhicheverRanFirst) {
  frontend_.keeps_generator = true;
  op().may_draw = true;
  const GeneratorState before{7, 0};
  const GeneratorState after{7, 4};
  for (const bool plan_first : {true, false}) {
    frontend_.generator = before;
    ASSERT_TRUE(Begin());
    frontend_.generator = plan_first ? GeneratorState{8, 8} : after;
    ASSERT_TRUE(outside_.Keep(executor_));
    ASSERT_TRUE(outside_.PutBefore(executor_));
    EXPECT_EQ(frontend_.generator, before);
    frontend_.generator = plan_first ? after : GeneratorState{8, 8};
    if (!plan_first) {
      ASSERT_TRUE(outside_.PutKept(executor_));
    }
    outside_.End();
    EXPECT_EQ(frontend_.generator, after);
  }
}

TEST_F(OutsideWritesTest, GeneratorOfAnOpThatDoesNotDrawIsLeft) {
  frontend_.keeps_generator = true;
  ASSERT_TRUE(Begin());
  frontend_.generator = {7, 4};
  ASSERT_TRUE(outside_.Keep(executor_));
  ASSERT_TRUE(outside_.PutBefore(executor_));
  EXPECT_EQ(frontend_.generator.offset, 4u);
}

}  // namespace
}  // namespace reprise::engine
