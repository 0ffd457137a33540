// Stretches in what a run has shown of its calls.

#include "bindings/torch/region/tape_stretch.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/program/program.h"
#include "engine/trace/trace.h"

namespace reprise::bindings {
namespace {

using Plan = std::shared_ptr<const engine::Program>;

constexpr uint32_t kFirstOp = 10;
constexpr size_t kCalls = 6;

engine::ValueRef Ref(size_t value) {
  return {.value = static_cast<engine::ValueId>(value)};
}

// Register 0 is an input; call i makes register i + 1 of register i, and was op
// kFirstOp + i, which makes value i + 1 of value i. The last one is handed out.
class TapeStretchTest : public testing::Test {
 protected:
  TapeStretchTest() {
    auto trace = std::make_shared<engine::Trace>(nullptr);
    trace->ops.resize(kFirstOp + kCalls);
    for (size_t i = 0; i < kCalls; ++i) {
      engine::ResultSpec result;
      result.kind = engine::ResultSpec::Kind::kValue;
      result.value = static_cast<engine::ValueId>(i + 1);
      trace->ops[kFirstOp + i].results = {result};
    }
    plan_ = std::make_shared<const engine::Program>(trace);
    record_.registers.resize(kCalls + 1);
    record_.registers[0].origin = TapeRegister::Origin::kInput;
    const auto op =
        c10::Dispatcher::singleton().findSchemaOrThrow("aten::sin", "");
    for (size_t i = 0; i < kCalls; ++i) {
      const auto reg = static_cast<int32_t>(i);
      record_.registers[i + 1].index = static_cast<uint32_t>(i);
      TapeArgument argument;
      argument.kind = TapeArgument::Kind::kTensor;
      argument.registers = {reg};
      record_.calls.push_back(
          {.op = op, .arguments = {argument}, .results = {reg + 1}});
      const uint32_t index = kFirstOp + static_cast<uint32_t>(i);
      AnsweredCall call{.program = plan_, .op = index};
      call.operands = {{.reg = reg, .ref = Ref(i), .alignment = 16}};
      call.results = {{.reg = reg + 1, .op = index, .result = 0}};
      answered_.push_back(call);
    }
    record_.outputs = {kCalls};
    record_.drops_gradients_at = kCalls;
    record_.NoteUses();
  }

  // Call `c` gives a view of its argument.
  void MakeView(size_t c, bool same_each_time) {
    record_.calls[c].views = same_each_time;
    answered_[c] = {.views = true};
    for (size_t behind = c + 1; behind < kCalls; ++behind) {
      --answered_[behind].op;
      --answered_[behind].results[0].op;
    }
  }
  TapeStretchList Find() { return FindStretches(record_, answered_); }

  Plan plan_;
  TapeRecord record_;
  std::vector<AnsweredCall> answered_;
};

TEST_F(TapeStretchTest, OpsInARowAreOne) {
  const TapeStretchList found = Find();
  ASSERT_EQ(found.size(), 1u);
  const TapeStretch& stretch = *found[0];
  EXPECT_EQ(stretch.first_call, 0u);
  EXPECT_EQ(stretch.end_call, kCalls);
  EXPECT_EQ(stretch.first_op, kFirstOp);
  EXPECT_EQ(stretch.calls.size(), kCalls);
  EXPECT_EQ(stretch.program.lock(), plan_);
  ASSERT_EQ(stretch.given.size(), 1u) << "others are made inside";
  EXPECT_EQ(stretch.given[0].reg, 0);
  ASSERT_EQ(stretch.wanted.size(), 1u);
  EXPECT_EQ(stretch.wanted[0].reg, static_cast<int32_t>(kCalls));
  EXPECT_EQ(stretch.taken, std::vector<engine::ValueId>{kCalls});
  EXPECT_FALSE(stretch.writes);
}

TEST_F(TapeStretchTest, ResultsAreDroppedBehindTheirLastOp) {
  const TapeStretchList found = Find();
  ASSERT_EQ(found.size(), 1u);
  const std::vector<TapeStretch::Drop>& drops = found[0]->drops;
  ASSERT_EQ(drops.size(), kCalls);  // the last result is used behind
  for (const TapeStretch::Drop& drop : drops) {
    // The input is no result, and goes at the end.
    const uint32_t op = drop.reg == 0
                            ? ~uint32_t{0}
                            : kFirstOp + static_cast<uint32_t>(drop.reg);
    EXPECT_EQ(drop.op, op) << drop.reg;
  }
}

TEST_F(TapeStretchTest, FewOpsAreNone) {
  for (size_t c = kFewestOpsOfStretch - 1; c < kCalls; ++c) answered_[c] = {};
  EXPECT_TRUE(Find().empty());
}

TEST_F(TapeStretchTest, AnotherPlanBeginsAnother) {
  const Plan other = std::make_shared<const engine::Program>(plan_->trace);
  for (size_t c = 3; c < kCalls; ++c) answered_[c].program = other;
  const TapeStretchList found = Find();
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0]->end_call, 3u);
  ASSERT_EQ(found[0]->wanted.size(), 1u) << "the other one is given it";
  EXPECT_EQ(found[0]->wanted[0].reg, 3);
  EXPECT_EQ(found[1]->first_call, 3u);
  ASSERT_EQ(found[1]->given.size(), 1u);
  EXPECT_EQ(found[1]->given[0].reg, 3);
}

TEST_F(TapeStretchTest, AnOpThatIsLeftOutBeginsAnother) {
  for (size_t c = 3; c < kCalls; ++c) ++answered_[c].op;
  EXPECT_EQ(Find().size(), 2u);
}

TEST_F(TapeStretchTest, ViewsWithinAreGivenByTheirOffset) {
  MakeView(1, /*same_each_time=*/true);
  const TapeStretchList found = Find();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0]->calls, (std::vector<size_t>{0, 2, 3, 4, 5}));
  EXPECT_TRUE(found[0]->before.empty());
  EXPECT_EQ(found[0]->given.size(), 1u);
}

TEST_F(TapeStretchTest, ViewsOfWhatComesBeforeAreMadeFirst) {
  MakeView(1, /*same_each_time=*/false);
  record_.calls[1].arguments[0].registers = {0};
  const TapeStretchList found = Find();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0]->before, std::vector<size_t>{1});
  EXPECT_EQ(found[0]->given.size(), 2u) << "the view is given";
}

TEST_F(TapeStretchTest, ViewsOfResultsThatMoveEndIt) {
  MakeView(3, /*same_each_time=*/false);
  const TapeStretchList found = Find();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0]->end_call, 3u);
}

TEST_F(TapeStretchTest, GradientsAreDroppedBetweenTwo) {
  record_.drops_gradients_at = 3;
  const TapeStretchList found = Find();
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0]->end_call, 3u);
}

TEST_F(TapeStretchTest, WritesOutsideAreNoted) {
  answered_[0].operands[0].ref.written = true;
  answered_[0].bumps = {{.reg = 0, .op = kFirstOp, .times = 1}};
  const TapeStretchList found = Find();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_TRUE(found[0]->writes);
  ASSERT_EQ(found[0]->bumps.size(), 1u);
  EXPECT_EQ(found[0]->bumps[0].reg, 0);
}

}  // namespace
}  // namespace reprise::bindings
