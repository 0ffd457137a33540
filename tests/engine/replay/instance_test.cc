// An instance's life on an executor that writes down what it is told: when it
// may be launched, where its values lie, how far ahead it runs, what a squash
// undoes.

#include "engine/replay/instance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "engine/replay/plan.h"
#include "tests/engine/fake_executor.h"
#include "tests/engine/fake_frontend.h"
#include "tests/engine/trace_builder.h"

namespace reprise::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Readiness = Instance::Readiness;

class InstanceTest : public testing::Test {
 protected:
  // x → a → b = f(a, weight), then a is written in place, then c = f(b, late).
  InstanceTest() : builder_(&frontend_, kSizeBytes) {
    x_ = builder_.External();
    a_ = builder_.Op({x_}, {}, 1);
    weight_ = builder_.External();
    b_ = builder_.Op({a_, weight_}, {}, 1);
    builder_.Op({}, {a_});
    late_ = builder_.External();
    c_ = builder_.Op({b_, late_}, {}, 1);
    Give(weight_, First(weight_));
    inputs_ = {late_};
  }

  static uint64_t First(ValueId value) {
    return TraceBuilder::AddressOf(value);
  }
  static uint64_t Place(ValueId value) { return kArena + value * 512; }

  // The frontend has the storage of `value` at `base`.
  void Give(ValueId value, uint64_t base) {
    frontend_.bases[Token(value + 1)] = base;
  }

  void Build(std::vector<Segment> segments = {{0, 4, 4}}) {
    auto program = std::make_shared<Program>(builder_.Take());
    const Trace& trace = *program->trace;
    InstanceParts parts;
    parts.arena = Block(kArena, &arena_releases_,
                        [](void* releases) { ++*static_cast<int*>(releases); });
    program->movable.assign(trace.values.size(), true);
    for (const auto value : immovable_) program->movable[value] = false;
    parts.places.assign(trace.values.size(), 0);
    program->place_bytes.assign(trace.values.size(), kSizeBytes);
    for (ValueId v = 0; v < trace.values.size(); ++v) {
      if (!trace.values[v].external) parts.places[v] = Place(v);
    }
    program->segments = std::move(segments);
    program->effects =
        Effects(&trace, inputs_, slots_, Effects::Remake::kWhatLasts,
                Draws::Ahead(trace, second_));
    program->lasting = lasting_;
    parts.executor = std::make_unique<FakeExecutor>(&log_);
    plan_ = std::make_unique<Plan>(std::move(program), std::move(parts));
    instance_ = &plan_->instance(0);
  }

  // The op drew 4, from there in each recording.
  void DrawsAt(uint32_t op, const GeneratorState& first,
               const GeneratorState& second) {
    second_.ops.resize(builder_.ops());
    second_.ops[op].generator.before = second;
    builder_.trace().ops[op].generator = {
        .draws = true, .before = first, .increment = 4};
  }
  // Ops 1 and 3 do, from 40 and 44 on, then from 80 and 84 on; the head does
  // not.
  void DrawTwice() {
    builder_.trace().generator = {7, 40};
    second_.generator = {7, 80};
    DrawsAt(1, {7, 40}, {7, 80});
    DrawsAt(3, {7, 44}, {7, 84});
    frontend_.generator = {7, 100};
    inputs_.clear();
    Give(late_, First(late_));
  }

  // The trace's op `index` on operands at `addresses`.
  struct Call {
    std::vector<uint64_t> words;
    std::vector<Operand> operands;
    std::vector<Scalar> scalars;
    OpView view;
  };
  std::unique_ptr<Call> OpAt(uint32_t index, std::vector<uint64_t> addresses) {
    auto call = std::make_unique<Call>();
    call->words = plan_->trace().ops[index].words;
    for (const uint64_t address : addresses) {
      const size_t i = call->operands.size();
      Operand& operand = call->operands.emplace_back();
      operand.storage = TokenAt(index, i);
      operand.base = address - 8;
      operand.offset_bytes = 8;
    }
    call->view.op = index;
    call->view.words = call->words;
    call->view.operands = call->operands;
    return call;
  }

  Readiness Resolve(uint64_t x_address) {
    return Resolve(OpAt(0, {x_address})->view);
  }
  Readiness Resolve(const OpView& head) {
    return instance_->Resolve(head, holds_);
  }
  StorageToken TokenAt(uint32_t op, size_t operand) const {
    const TracedOp& traced = plan_->trace().ops[op];
    if (operand >= traced.operands.size()) return nullptr;
    return Token(traced.operands[operand].value + 1);
  }

  static constexpr uint64_t kSizeBytes = 64;
  static constexpr uint64_t kArena = 0x7f10'0000'0000;
  FakeFrontend frontend_;
  StorageHolds holds_{&frontend_};
  TraceBuilder builder_;
  FakeExecutor::Log log_;
  int arena_releases_ = 0;
  std::vector<ValueId> immovable_;
  std::vector<SlotSet> slots_;
  Trace second_{&frontend_};  // what it says of the generator
  std::shared_ptr<MemoryWatch> lasting_;
  std::unique_ptr<Plan> plan_;
  Instance* instance_ = nullptr;
  std::vector<ValueId> inputs_;
  ValueId x_, a_, weight_, b_, late_, c_;
};

TEST_F(InstanceTest, ResolveBindsWhatMovedAndNothingElse) {
  Build();
  EXPECT_EQ(Resolve(0x7f00'5000'0000), Readiness::kReady);
  EXPECT_THAT(log_.binds,
              ElementsAre(std::pair(x_, uint64_t{0x7f00'5000'0000})));
  EXPECT_EQ(instance_->binding().origin(x_), 0x7f00'5000'0000u);
  EXPECT_EQ(instance_->binding().origin(a_), Place(a_));
  EXPECT_EQ(instance_->binding().origin(weight_), First(weight_));
  log_.binds.clear();
  EXPECT_EQ(Resolve(0x7f00'5000'0000), Readiness::kReady);
  EXPECT_THAT(log_.binds, IsEmpty());
}

TEST_F(InstanceTest, OtherHeadIsAnotherOp) {
  Build();
  auto head = OpAt(0, {First(x_)});
  head->view.op = 5;
  EXPECT_EQ(Resolve(head->view), Readiness::kOtherOp);
  head = OpAt(0, {First(x_)});
  ++head->words[1];
  EXPECT_EQ(Resolve(head->view), Readiness::kOtherOp);
  head = OpAt(0, {First(x_), First(x_)});
  EXPECT_EQ(Resolve(head->view), Readiness::kOtherOp);
}

TEST_F(InstanceTest, OperandThatTheHeadUsedTwiceMustBeOneAgain) {
  builder_ = TraceBuilder(&frontend_);
  x_ = builder_.External();
  builder_.Op({x_, x_}, {}, 1);
  builder_.trace().ops[0].operands[1].offset_bytes = 16;
  inputs_.clear();
  Build({{0, 1, 1}});
  const uint64_t there = 0x7f00'5000'0000;
  EXPECT_EQ(Resolve(OpAt(0, {there, there + 16})->view), Readiness::kReady);
  EXPECT_EQ(Resolve(OpAt(0, {there, there + 32})->view), Readiness::kOtherOp);
}

TEST_F(InstanceTest, OperandThatNeverMovedIsUnprovenElsewhere) {
  immovable_ = {x_};
  Build();
  EXPECT_EQ(Resolve(First(x_)), Readiness::kReady);
  EXPECT_EQ(Resolve(First(x_) + 512), Readiness::kUnproven);
  EXPECT_THAT(instance_->unproven(), testing::ElementsAre(x_));
  EXPECT_EQ(Resolve(First(x_)), Readiness::kReady);
  EXPECT_EQ(instance_->binding().origin(x_), First(x_));
}

TEST_F(InstanceTest, WeightThatDiedOrMovedWasReplaced) {
  Build();
  Give(weight_, First(weight_) + 512);
  EXPECT_EQ(Resolve(First(x_)), Readiness::kReplaced);
  frontend_.bases.erase(Token(weight_ + 1));
  EXPECT_EQ(Resolve(First(x_)), Readiness::kReplaced);
  Give(weight_, First(weight_));
  EXPECT_EQ(Resolve(First(x_)), Readiness::kReady);
}

TEST_F(InstanceTest, NothingIsLaunchedOnceMemoryThatLaunchesNameIsFreed) {
  MemoryWatches watches;
  lasting_ = watches.Begin([] {
    return std::vector<MemoryWatches::Block>{{0x4000, 512}};
  });
  lasting_->Narrow(std::vector<uint64_t>{0x4010});
  Give(x_, First(x_) - 8);
  Build({{0, 1, 1}, {1, 3, 2}, {3, 4, 1, /*gated=*/true}});
  ASSERT_EQ(Resolve(First(x_)), Readiness::kReady);
  EXPECT_TRUE(instance_->RetainMemory());
  watches.Freed(0x4000, 512);
  EXPECT_TRUE(instance_->broken());
  EXPECT_FALSE(instance_->RetainMemory());
  instance_->Finish();
  EXPECT_EQ(Resolve(First(x_)), Readiness::kReplaced);
  plan_.reset();
  lasting_.reset();
}

TEST_F(InstanceTest, LateExternalIsBoundWhenItsOpComesAndNotBefore) {
  Build({{0, 3, 3}, {3, 4, 1, true}});
  ASSERT_EQ(Resolve(First(x_)), Readiness::kReady);
  ASSERT_TRUE(instance_->LaunchNext());
  EXPECT_EQ(instance_->next_launch_op(), 3u);  // not half-way through the first
  const auto op = OpAt(3, {Place(b_), 0x7f00'6000'0000});
  EXPECT_EQ(instance_->BindLate(op->view), Readiness::kReady);
  EXPECT_EQ(instance_->binding().origin(late_), 0x7f00'6000'0000u);
  EXPECT_TRUE(instance_->binding().Matches(3, op->view));
}

TEST_F(InstanceTest, LateExternalThatNeverMovedIsNotBoundElsewhere) {
  immovable_ = {late_};
  Build({{0, 3, 3}, {3, 4, 1, true}});
  ASSERT_EQ(Resolve(First(x_)), Readiness::kReady);
  ASSERT_TRUE(instance_->LaunchNext());
  EXPECT_EQ(instance_->BindLate(OpAt(3, {Place(b_), 0x7f00'6000'0000})->view),
            Readiness::kUnproven);
  EXPECT_THAT(instance_->unproven(), testing::ElementsAre(late_));
  EXPECT_EQ(instance_->BindLate(OpAt(3, {Place(b_), First(late_)})->view),
            Readiness::kReady);
}

// What an op writes outside is shared by no other operand that it reads, unless
// both are one value.
TEST_F(InstanceTest, OpThatWritesOutsideKeepsWhatItWritesApart) {
  builder_.Op({late_}, {weight_}, 0);
  Build({{0, 3, 3}, {3, 4, 1, true}, {4, 5, 1, true}});
  ASSERT_EQ(Resolve(First(x_)), Readiness::kReady);
  ASSERT_TRUE(instance_->LaunchNext());
  const uint64_t place = 0x7f00'6000'0000;
  ASSERT_EQ(instance_->BindLate(OpAt(3, {Place(b_), place})->view),
            Readiness::kReady);
  ASSERT_TRUE(instance_->LaunchNext());
  const auto bind = [this](uint64_t base) {
    const auto op = OpAt(4, {First(weight_), base});
    op->operands[0].storage_bytes = op->operands[1].storage_bytes = 64;
    return instance_->BindLate(op->view);
  };
  EXPECT_EQ(bind(place), Readiness::kReady);
  EXPECT_EQ(bind(First(weight_) + 64), Readiness::kReady);
  EXPECT_EQ(bind(First(weight_) + 32), Readiness::kOtherOp);
  EXPECT_EQ(bind(First(weight_) - 32), Readiness::kOtherOp);
}

// A weight is elsewhere than it was recorded, where the pass writes.
TEST_F(InstanceTest, HeadOperandThatMovesOntoWhatThePassWritesIsAnotherOne) {
  const ValueId state = builder_.External();
  builder_.Op({c_}, {state}, 0);
  Give(state, First(state));
  Build({{0, 3, 3}, {3, 4, 1, true}, {4, 5, 1, true}});
  const auto resolve = [this](uint64_t address) {
    const auto head = OpAt(0, {address});
    head->operands[0].storage_bytes = 64;
    const Readiness readiness = Resolve(head->view);
    instance_->Finish();
    return readiness;
  };
  EXPECT_EQ(resolve(0x7f00'6000'0000), Readiness::kReady);
  EXPECT_EQ(resolve(First(state) + 32), Readiness::kOtherOp);
  EXPECT_EQ(resolve(First(state) + 128), Readiness::kReady);
}

// The op's last word is a number, which was 4.5 when the trace was recorded.
class InstanceNumbersTest : public InstanceTest {
 protected:
  static constexpr uint32_t kOp = 1;

  void BuildWithNumber(bool changes) {
    TracedOp& op = builder_.trace().ops[kOp];
    const auto word = static_cast<uint32_t>(op.words.size());
    op.words.push_back(std::bit_cast<uint64_t>(4.5));
    op.slots = {{0, {word, NumberType::kFloat64, op.words.back()}}};
    slots_ = {{}, changes ? SlotSet{true} : SlotSet{}, {}, {}};
    Build({{0, 1, 1}, {1, 4, 3, true}});
    ASSERT_EQ(Resolve(First(x_)), Readiness::kReady);
    ASSERT_TRUE(instance_->LaunchNext());
  }

  std::unique_ptr<Call> With(double number) {
    auto call = OpAt(kOp, {Place(a_), First(weight_)});
    call->words.back() = std::bit_cast<uint64_t>(number);
    call->scalars = {{static_cast<uint32_t>(call->words.size() - 1),
                      NumberType::kFloat64, call->words.back()}};
    call->view.scalars = call->scalars;
    return call;
  }
};

TEST_F(InstanceNumbersTest, NumberThatChangesIsBoundWhenItsOpComes) {
  BuildWithNumber(true);
  EXPECT_THAT(log_.scalars, IsEmpty());
  const std::vector<uint64_t> bits = {std::bit_cast<uint64_t>(7.25)};
  EXPECT_EQ(instance_->BindLate(With(7.25)->view), Readiness::kReady);
  EXPECT_THAT(log_.scalars, ElementsAre(std::pair(kOp, bits)));
  EXPECT_TRUE(instance_->binding().Matches(kOp, With(7.25)->view));
  EXPECT_FALSE(instance_->binding().OtherNumbers(kOp, With(7.25)->view));
  // The one that was recorded as well: another one may stand there now.
  EXPECT_EQ(instance_->BindLate(With(4.5)->view), Readiness::kReady);
  EXPECT_THAT(log_.scalars, SizeIs(2));
}

TEST_F(InstanceNumbersTest, NumberThatStayedIsAConstant) {
  BuildWithNumber(false);
  EXPECT_TRUE(instance_->binding().Matches(kOp, With(4.5)->view));
  EXPECT_FALSE(instance_->binding().Matches(kOp, With(7.25)->view));
  EXPECT_TRUE(instance_->binding().OtherNumbers(kOp, With(7.25)->view));
  EXPECT_EQ(instance_->BindLate(With(4.5)->view), Readiness::kReady);
  EXPECT_THAT(log_.scalars, IsEmpty());
}

TEST_F(InstanceNumbersTest, OtherSignsAndNumbersWithoutMarkerAreOtherOps) {
  BuildWithNumber(true);
  for (const double number : {-7.25, 0.0, 1.0, 1e6, 1e300}) {
    EXPECT_FALSE(instance_->binding().Matches(kOp, With(number)->view))
        << number;
    EXPECT_FALSE(instance_->binding().OtherNumbers(kOp, With(number)->view))
        << number;
  }
  auto other = With(7.25);
  ++other->words[1];
  EXPECT_FALSE(instance_->binding().Matches(kOp, other->view));
  // Nor has every op with as many words numbers that may change.
  other = With(7.25);
  other->view.scalars = {};
  EXPECT_FALSE(instance_->binding().Matches(kOp, other->view));
}

TEST_F(InstanceNumbersTest, WhatTheExecutorDoesNotTakeIsTold) {
  BuildWithNumber(true);
  log_.fit = Executor::Fit::kUntold;
  EXPECT_EQ(instance_->BindLate(With(7.25)->view), Readiness::kUntold);
  log_.fit = Executor::Fit::kOutside;
  EXPECT_EQ(instance_->BindLate(With(7.25)->view), Readiness::kOtherOp);
}

TEST_F(InstanceTest, MatchesComparesOpAndAddresses) {
  Build();
  ASSERT_EQ(Resolve(First(x_)), Readiness::kReady);
  EXPECT_TRUE(instance_->binding().Matches(
      1, OpAt(1, {Place(a_), First(weight_)})->view));
  EXPECT_FALSE(instance_->binding().Matches(
      1, OpAt(1, {Place(a_) + 8, First(weight_)})->view));
  EXPECT_FALSE(
      instance_->binding().Matches(1, OpAt(1, {Place(a_), First(x_)})->view));
  EXPECT_FALSE(instance_->binding().Matches(1, OpAt(1, {Place(a_)})->view));
  auto op = OpAt(1, {Place(a_), First(weight_)});
  op->words.back() ^= 1;
  EXPECT_FALSE(instance_->binding().Matches(1, op->view));
  // Beside eager, own values are where eager put them.
  instance_->Shadow(a_, {TokenAt(1, 0), 0x7f00'7000'0000});
  EXPECT_TRUE(instance_->binding().MatchesShadow(
      1, OpAt(1, {0x7f00'7000'0000, First(weight_)})->view));
  EXPECT_FALSE(instance_->binding().MatchesShadow(
      1, OpAt(1, {Place(a_), First(weight_)})->view));
  EXPECT_FALSE(instance_->binding().MatchesShadow(
      1, OpAt(1, {0x7f00'7000'0000, First(weight_) + 8})->view));
  // Freed, and taken by another storage.
  auto taken = OpAt(1, {0x7f00'7000'0000, First(weight_)});
  taken->operands[0].storage = Token(99);
  EXPECT_FALSE(instance_->binding().MatchesShadow(1, taken->view));
}

TEST_F(InstanceTest, LastWriterIsBirthOrTheLastWriteInPlace) {
  Build();
  EXPECT_EQ(plan_->effects().last_writer(a_), 2u);
  EXPECT_EQ(plan_->effects().last_writer(b_), 1u);
  EXPECT_EQ(plan_->effects().last_writer(c_), 3u);
}

TEST_F(InstanceTest,
       OutputsLieInTheArenaWhileTheyAreLeasedAndItOutlivesThePlan) {
  Build();
  ASSERT_EQ(Resolve(First(x_)), Readiness::kReady);
  Block block = instance_->TakeBlock(b_);
  EXPECT_EQ(block.address(), Place(b_));
  plan_.reset();
  EXPECT_EQ(arena_releases_, 0);
  block = Block();
  EXPECT_EQ(arena_releases_, 1);
}

TEST_F(InstanceTest, OutputThatIsStillAliveEscapesFromThenOn) {
  Build();
  ASSERT_EQ(Resolve(First(x_)), Readiness::kReady);
  Block first = instance_->TakeBlock(b_);
  instance_->Finish();
  log_.binds.clear();
  ASSERT_EQ(Resolve(First(x_)), Readiness::kReady);
  EXPECT_EQ(instance_->escapes(), 1u);
  ASSERT_THAT(frontend_.lent(), SizeIs(1));
  const uint64_t fresh = *frontend_.lent().begin();
  EXPECT_THAT(log_.binds, ElementsAre(std::pair(b_, fresh)));
  Block second = instance_->TakeBlock(b_);
  EXPECT_EQ(second.address(), fresh);
  instance_->Finish();
  // The first one is gone; the value goes on escaping.
  first = Block();
  ASSERT_EQ(Resolve(First(x_)), Readiness::kReady);
  EXPECT_EQ(instance_->escapes(), 2u);
  EXPECT_NE(instance_->binding().origin(b_), fresh);
  EXPECT_NE(instance_->binding().origin(b_), Place(b_));
  plan_.reset();
  // What was not taken goes with the plan, what was taken stays.
  EXPECT_THAT(frontend_.lent(), ElementsAre(fresh));
  second = Block();
  EXPECT_THAT(frontend_.lent(), IsEmpty());
  EXPECT_EQ(arena_releases_, 1);
}

TEST_F(InstanceTest, OutputThatEscapedAndWasNotTakenIsUsedAgain) {
  Build();
  ASSERT_EQ(Resolve(First(x_)), Readiness::kReady);
  const Block held = instance_->TakeBlock(b_);
  instance_->Finish();
  ASSERT_EQ(Resolve(First(x_)), Readiness::kReady);
  const uint64_t fresh = instance_->binding().origin(b_);
  ASSERT_TRUE(instance_->LaunchNext());
  ASSERT_TRUE(instance_->Squash(1));
  ASSERT_EQ(Resolve(First(x_)), Readiness::kReady);
  EXPECT_EQ(instance_->binding().origin(b_), fresh);
  EXPECT_EQ(instance_->escapes(), 1u);
}

TEST_F(InstanceTest, OutputWithoutMemoryNeverEscapes) {
  builder_.trace().values[b_].size_bytes = 0;
  Build();
  ASSERT_EQ(Resolve(First(x_)), Readiness::kReady);
  const Block held = instance_->TakeBlock(b_);
  instance_->Finish();
  ASSERT_EQ(Resolve(First(x_)), Readiness::kReady);
  EXPECT_EQ(instance_->escapes(), 0u);
}

TEST_F(InstanceTest, WithoutMemoryForAnEscapeItIsNotReady) {
  Build();
  ASSERT_EQ(Resolve(First(x_)), Readiness::kReady);
  const Block a = instance_->TakeBlock(a_);
  const Block b = instance_->TakeBlock(b_);
  instance_->Finish();
  frontend_.allocations_left = 1;
  EXPECT_EQ(Resolve(First(x_)), Readiness::kNoMemory);
  frontend_.allocations_left = 1;
  ASSERT_EQ(Resolve(First(x_)), Readiness::kReady);
  EXPECT_EQ(instance_->escapes(), 2u);
  EXPECT_NE(instance_->binding().origin(a_), a.address());
  EXPECT_NE(instance_->binding().origin(b_), b.address());
}

TEST_F(InstanceTest, SegmentsAreLaunchedHalfASegmentAhead) {
  Build({{0, 2, 2}, {2, 3, 1}, {3, 4, 1}});
  ASSERT_EQ(Resolve(First(x_)), Readiness::kReady);
  ASSERT_TRUE(instance_->LaunchNext());
  EXPECT_EQ(instance_->next_launch_op(), 1u);
  ASSERT_TRUE(instance_->LaunchNext());
  // A single op is no half: the next one follows it.
  EXPECT_EQ(instance_->next_launch_op(), 3u);
  ASSERT_TRUE(instance_->LaunchNext());
  EXPECT_EQ(instance_->next_launch_op(), Instance::kNoLaunch);
  EXPECT_THAT(log_.segments, ElementsAre(0, 1, 2));
  instance_->Finish();
  // The next launch begins with the first segment again.
  ASSERT_EQ(Resolve(First(x_)), Readiness::kReady);
  EXPECT_EQ(instance_->next_launch_op(), Instance::kNoLaunch);
  ASSERT_TRUE(instance_->LaunchNext());
  EXPECT_THAT(log_.segments, ElementsAre(0, 1, 2, 0));
  EXPECT_EQ(instance_->next_launch_op(), 1u);
}

// The session launches the first segment at the head and each further one when
// it comes to next_launch_op(): no op is answered whose segment is not
// launched.
TEST_F(InstanceTest, NoOpIsReachedBeforeItsSegmentHoweverTheyAreCut) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    builder_ = TraceBuilder(&frontend_);
    inputs_.clear();
    builder_.External();
    const uint32_t ops = 1 + random() % 12;
    for (uint32_t k = 0; k < ops; ++k) builder_.Op({0}, {}, 1);
    std::vector<Segment> segments;
    for (uint32_t begin = 0; begin < ops;) {
      const auto end =
          std::min<uint32_t>(ops, begin + 1 + uint32_t(random() % 4));
      segments.push_back({begin, end, end - begin});
      begin = end;
    }
    Build(segments);
    log_ = {};
    ASSERT_EQ(Resolve(First(0)), Readiness::kReady);
    ASSERT_TRUE(instance_->LaunchNext());
    for (uint32_t k = 1; k < ops; ++k) {
      if (k == instance_->next_launch_op()) {
        ASSERT_TRUE(instance_->LaunchNext());
      }
      ASSERT_GT(segments[log_.segments.size() - 1].end_op, k);
    }
    ASSERT_EQ(log_.segments.size(), segments.size());
  }
}

TEST_F(InstanceTest, LaunchThatFailedMayBeTriedAgain) {
  Build({{0, 2, 2}, {2, 4, 2}});
  ASSERT_EQ(Resolve(First(x_)), Readiness::kReady);
  log_.fail = true;
  EXPECT_FALSE(instance_->LaunchNext());
  log_.fail = false;
  ASSERT_TRUE(instance_->LaunchNext());
  EXPECT_THAT(log_.segments, ElementsAre(0));
}

// Ops that have run are followed, and the launch goes on where it got stuck
// when the program is there, not before.
TEST_F(InstanceTest, LaunchThatGetsStuckGoesOnWhereItDid) {
  Build({{0, 4, 4}});
  ASSERT_EQ(Resolve(First(x_)), Readiness::kReady);
  log_.stuck_at = 2;
  EXPECT_FALSE(instance_->LaunchNext());
  EXPECT_EQ(instance_->launched_ops(), 2u);
  EXPECT_EQ(instance_->next_launch_op(), 2u);
  EXPECT_FALSE(instance_->LaunchNext());  // and is stuck there once more
  EXPECT_EQ(instance_->launched_ops(), 2u);
  log_.stuck_at.reset();
  ASSERT_TRUE(instance_->LaunchNext());
  EXPECT_EQ(instance_->launched_ops(), 4u);
  EXPECT_EQ(instance_->next_launch_op(), Instance::kNoLaunch);
}

// The op at which the next segment is due has not passed by then.
TEST_F(InstanceTest, SegmentBehindOneThatGotStuckIsStillDue) {
  Build({{0, 3, 3}, {3, 4, 1}});
  ASSERT_EQ(Resolve(First(x_)), Readiness::kReady);
  log_.stuck_at = 2;
  EXPECT_FALSE(instance_->LaunchNext());
  log_.stuck_at.reset();
  ASSERT_TRUE(instance_->LaunchNext());
  EXPECT_EQ(instance_->next_launch_op(), 3u);
}

// What was overwritten by ops that ran before a launch got stuck is rebuilt.
TEST_F(InstanceTest, SquashRestoresWhatAStuckLaunchOverwrote) {
  Build({{0, 4, 4}});
  ASSERT_EQ(Resolve(First(x_)), Readiness::kReady);
  log_.stuck_at = 3;  // behind op 2, which writes over a
  EXPECT_FALSE(instance_->LaunchNext());
  const Block a = instance_->TakeBlock(a_);
  ASSERT_TRUE(instance_->Squash(1));
  EXPECT_THAT(log_.ops, ElementsAre(0));
}

TEST_F(InstanceTest, RestorationThatFailsIsBegunAgain) {
  Build({{0, 4, 4}});
  ASSERT_EQ(Resolve(First(x_)), Readiness::kReady);
  ASSERT_TRUE(instance_->LaunchNext());
  const Block a = instance_->TakeBlock(a_);
  log_.failing_ops = 1;
  const base::Status restored = instance_->Squash(1);
  ASSERT_FALSE(restored);
  EXPECT_THAT(restored.error().message(), testing::HasSubstr("tried again"));
  EXPECT_THAT(log_.ops, ElementsAre(0));

  ASSERT_EQ(Resolve(First(x_)), Readiness::kReady);
  ASSERT_TRUE(instance_->LaunchNext());
  const Block again = instance_->TakeBlock(a_);
  log_.failing_ops = 100;
  EXPECT_THAT(instance_->Squash(1).error().message(),
              testing::HasSubstr("could not be made right"));
}

// An input's memory is freed in mid-pass and taken by another storage.
TEST_F(InstanceTest, AnotherStorageAtTheAddressOfAnExternalIsAnother) {
  builder_.Op({x_}, {}, 1);
  inputs_ = {x_, late_};
  Build({{0, 3, 3}, {3, 5, 2, /*gated=*/true}});
  ASSERT_EQ(Resolve(First(x_)), Readiness::kReady);
  auto call = OpAt(4, {First(x_)});
  EXPECT_TRUE(instance_->binding().Matches(4, call->view));
  call->operands[0].storage = Token(99);
  EXPECT_FALSE(instance_->binding().Matches(4, call->view));
  EXPECT_FALSE(instance_->binding().MatchesShadow(4, call->view));
}

// So that the storage that takes it cannot have its name, too.
TEST_F(InstanceTest, StorageOfAnInputThatComesAgainKeepsItsName) {
  builder_.Op({x_}, {}, 1);
  inputs_ = {x_, late_};
  Build({{0, 3, 3}, {3, 5, 2, /*gated=*/true}});
  auto head = OpAt(0, {First(x_)});
  head->operands[0].storage = Token(77);
  ASSERT_EQ(Resolve(head->view), Readiness::kReady);
  EXPECT_EQ(frontend_.references.count(Token(77)), 1u);
  instance_->Finish();
  EXPECT_EQ(frontend_.references.count(Token(77)), 0u);
}

TEST_F(InstanceTest, LateExternalThatLiesInAValueOfThePassIsAnother) {
  Build({{0, 3, 3}, {3, 4, 1, /*gated=*/true}});
  ASSERT_EQ(Resolve(First(x_)), Readiness::kReady);
  ASSERT_TRUE(instance_->LaunchNext());
  const auto late_at = [&](uint64_t base, uint64_t bytes) {
    auto call = OpAt(3, {Place(b_), base + 8});
    call->operands[1].storage_bytes = bytes;
    return instance_->BindLate(call->view);
  };
  EXPECT_EQ(late_at(Place(a_), kSizeBytes), Readiness::kOtherOp);
  EXPECT_EQ(late_at(Place(a_) + kSizeBytes - 4, 64), Readiness::kOtherOp);
  EXPECT_EQ(late_at(Place(a_) - 60, 64), Readiness::kOtherOp);
  EXPECT_EQ(late_at(Place(a_) + kSizeBytes, 64), Readiness::kReady);
  EXPECT_EQ(late_at(First(late_), 64), Readiness::kReady);
  // Where eager has put the value counts beside eager, until the pass ends.
  Give(a_, First(late_));
  instance_->Shadow(a_, {Token(a_ + 1), First(late_)});
  EXPECT_EQ(late_at(First(late_), 64), Readiness::kOtherOp);
  // As long as the program has it: what comes next is often put there then.
  frontend_.bases.erase(Token(a_ + 1));
  EXPECT_EQ(late_at(First(late_), 64), Readiness::kReady);
  Give(a_, First(late_));
  EXPECT_EQ(late_at(First(late_), 64), Readiness::kOtherOp);
  instance_->Finish();
  ASSERT_EQ(Resolve(First(x_)), Readiness::kReady);
  ASSERT_TRUE(instance_->LaunchNext());
  EXPECT_EQ(late_at(First(late_), 64), Readiness::kReady);
}

TEST_F(InstanceTest, UsesWhatItsExternalsAreBoundTo) {
  Build();
  ASSERT_EQ(Resolve(First(x_) + 4096), Readiness::kReady);
  const auto uses = [&](uint64_t address) {
    return instance_->binding().Uses([address](uint64_t begin, uint64_t end) {
      return begin < address + 4 && address < end;
    });
  };
  EXPECT_TRUE(uses(First(weight_)));
  EXPECT_TRUE(uses(First(weight_) + kSizeBytes - 4));
  EXPECT_FALSE(uses(First(weight_) + kSizeBytes));
  EXPECT_TRUE(uses(First(x_) + 4096));
  EXPECT_FALSE(uses(First(x_)));
  EXPECT_FALSE(uses(Place(a_)));
}

TEST_F(InstanceTest, ASegmentRetainsWhatItReads) {
  Build({{0, 1, 1}, {1, 3, 2}, {3, 4, 1, /*gated=*/true}});
  Give(x_, First(x_) - 8);
  ASSERT_EQ(Resolve(First(x_)), Readiness::kReady);
  // Operands of the op at hand are alive.
  ASSERT_TRUE(instance_->RetainMemory());
  EXPECT_FALSE(holds_.any_held());
  ASSERT_TRUE(instance_->LaunchNext());
  ASSERT_TRUE(instance_->RetainMemory());
  EXPECT_THAT(frontend_.holds, ElementsAre(Token(weight_ + 1)));
  { const StorageHolds::Held held = holds_.TakeHeld(); }
  EXPECT_THAT(frontend_.holds, IsEmpty());
  Give(weight_, First(weight_) + 512);  // moved
  EXPECT_FALSE(instance_->RetainMemory());
  frontend_.bases.erase(Token(weight_ + 1));  // freed
  EXPECT_FALSE(instance_->RetainMemory());
  EXPECT_FALSE(instance_->Stands());
  Give(weight_, First(weight_));
  ASSERT_TRUE(instance_->RetainMemory());
  EXPECT_TRUE(instance_->Stands());
  ASSERT_TRUE(instance_->LaunchNext());
  ASSERT_EQ(instance_->BindLate(OpAt(3, {Place(b_), First(late_)})->view),
            Readiness::kReady);
  { const StorageHolds::Held held = holds_.TakeHeld(); }
  ASSERT_TRUE(instance_->RetainMemory());
  EXPECT_FALSE(holds_.any_held());
}

TEST_F(InstanceTest, InputIsAskedAfterWhileSegmentsReadIt) {
  builder_ = TraceBuilder(&frontend_, kSizeBytes);
  x_ = builder_.External();
  for (int k = 0; k < 3; ++k) builder_.Op({x_}, {}, 1);
  inputs_ = {x_};
  Build({{0, 1, 1}, {1, 2, 1}, {2, 3, 1}});
  const StorageToken other = Token(99);
  const auto head = OpAt(0, {First(x_) + 4096});
  head->operands[0].storage = other;
  frontend_.bases[other] = First(x_) + 4096 - 8;
  ASSERT_EQ(Resolve(head->view), Readiness::kReady);
  EXPECT_EQ(frontend_.references[other], 1);
  ASSERT_TRUE(instance_->LaunchNext());
  ASSERT_TRUE(instance_->RetainMemory());
  EXPECT_THAT(frontend_.holds, ElementsAre(other));
  frontend_.bases.erase(other);
  EXPECT_FALSE(instance_->RetainMemory());
  // Nothing is ever rebuilt from an input.
  EXPECT_TRUE(instance_->Stands());
  instance_->Finish();
  EXPECT_FALSE(frontend_.references.contains(other));
  { const StorageHolds::Held held = holds_.TakeHeld(); }
}

TEST_F(InstanceTest, EscapedOutputIsAskedAfterOnceTheProgramHasIt) {
  Build({{0, 1, 1}, {1, 3, 2}, {3, 4, 1, /*gated=*/true}});
  Give(x_, First(x_) - 8);
  ASSERT_EQ(Resolve(First(x_)), Readiness::kReady);
  const Block held = instance_->TakeBlock(a_);
  instance_->Finish();
  const StorageToken own = Token(99);
  for (const bool freed : {false, true}) {
    ASSERT_EQ(Resolve(First(x_)), Readiness::kReady);
    ASSERT_TRUE(instance_->LaunchNext());
    ASSERT_TRUE(instance_->RetainMemory());
    { const StorageHolds::Held held = holds_.TakeHeld(); }
    const Block block = instance_->TakeBlock(a_);
    frontend_.bases[own] = block.address();
    instance_->Own(a_, own);
    if (freed) frontend_.bases.erase(own);
    EXPECT_EQ(instance_->RetainMemory(), !freed);
    EXPECT_EQ(instance_->Stands(), !freed);
    EXPECT_EQ(frontend_.holds.count(own), freed ? 0u : 1u);
    { const StorageHolds::Held held = holds_.TakeHeld(); }
    instance_->Finish();
    EXPECT_FALSE(frontend_.references.contains(own));
  }
}

TEST_F(InstanceTest, SquashRestoresWhatTheProgramHolds) {
  Build();
  ASSERT_EQ(Resolve(First(x_)), Readiness::kReady);
  ASSERT_TRUE(instance_->LaunchNext());
  const Block a = instance_->TakeBlock(a_);
  const Block b = instance_->TakeBlock(b_);
  ASSERT_TRUE(instance_->Squash(2));  // before the write in place
  EXPECT_THAT(log_.ops, ElementsAre(0));
}

TEST_F(InstanceTest, SquashRestoresNothingThatNobodyHolds) {
  Build();
  ASSERT_EQ(Resolve(First(x_)), Readiness::kReady);
  ASSERT_TRUE(instance_->LaunchNext());
  { const Block dropped = instance_->TakeBlock(a_); }
  const Block b = instance_->TakeBlock(b_);
  ASSERT_TRUE(instance_->Squash(2));
  EXPECT_THAT(log_.ops, IsEmpty());
}

TEST_F(InstanceTest, SquashUndoesOnlyWhatWasLaunched) {
  Build({{0, 2, 2}, {2, 4, 2}});
  ASSERT_EQ(Resolve(First(x_)), Readiness::kReady);
  ASSERT_TRUE(instance_->LaunchNext());
  const Block a = instance_->TakeBlock(a_);
  ASSERT_TRUE(instance_->Squash(1));
  EXPECT_THAT(log_.ops, IsEmpty());
  // Nothing is launched any more, so there is nothing to undo.
  ASSERT_TRUE(instance_->Squash(1));
  EXPECT_THAT(log_.ops, IsEmpty());
}

TEST_F(InstanceTest, SquashRestoresEscapedOutputsThatWereTaken) {
  Build();
  ASSERT_EQ(Resolve(First(x_)), Readiness::kReady);
  const Block held = instance_->TakeBlock(a_);
  instance_->Finish();
  for (const bool taken : {false, true}) {
    ASSERT_EQ(Resolve(First(x_)), Readiness::kReady);
    ASSERT_TRUE(instance_->LaunchNext());
    Block a;
    if (taken) a = instance_->TakeBlock(a_);
    ASSERT_TRUE(instance_->Squash(2));
    EXPECT_THAT(log_.ops, SizeIs(taken ? 1 : 0));
  }
}

TEST_F(InstanceTest, SquashThatCannotRestoreSaysSo) {
  Build();
  ASSERT_EQ(Resolve(First(x_)), Readiness::kReady);
  ASSERT_TRUE(instance_->LaunchNext());
  const Block a = instance_->TakeBlock(a_);
  log_.fail = true;
  EXPECT_FALSE(instance_->Squash(2));
}

// --- The generator ---

TEST_F(InstanceTest, DrawsAreBoundAheadAndTheGeneratorMovesWithTheProgram) {
  DrawTwice();
  Build();
  ASSERT_EQ(Resolve(First(x_)), Readiness::kReady);
  EXPECT_THAT(log_.generator,
              ElementsAre(std::pair(1u, GeneratorState{7, 100}),
                          std::pair(3u, GeneratorState{7, 104})));
  ASSERT_TRUE(instance_->LaunchNext());
  EXPECT_EQ(frontend_.generator.offset, 100u);
  EXPECT_EQ(instance_->next_draw_op(), 1u);
  EXPECT_EQ(instance_->next_stop_op(), 1u);
  EXPECT_TRUE(instance_->Draw());
  EXPECT_EQ(frontend_.generator.offset, 104u);
  EXPECT_EQ(instance_->next_stop_op(), 3u);
  EXPECT_TRUE(instance_->Draw());
  EXPECT_EQ(frontend_.generator.offset, 108u);
  EXPECT_EQ(instance_->next_stop_op(), Instance::kNoLaunch);
  instance_->Finish();
}

TEST_F(InstanceTest, GeneratorThatIsElsewhereIsLeftWhereItIs) {
  DrawTwice();
  Build();
  ASSERT_EQ(Resolve(First(x_)), Readiness::kReady);
  EXPECT_TRUE(instance_->Draw());
  frontend_.generator = {9, 0};
  EXPECT_FALSE(instance_->Draw());
  EXPECT_FALSE(instance_->DrawsBesideEager());
  EXPECT_EQ(frontend_.generator, (GeneratorState{9, 0}));
  EXPECT_EQ(instance_->next_draw_op(), 3u);
  instance_->Finish();
}

TEST_F(InstanceTest, DrawThatWasNotFollowedIsTakenBack) {
  DrawTwice();
  Build();
  ASSERT_EQ(Resolve(First(x_)), Readiness::kReady);
  ASSERT_TRUE(instance_->Draw());
  instance_->TakeBackDraw();
  EXPECT_EQ(frontend_.generator.offset, 100u);
  EXPECT_EQ(instance_->next_draw_op(), 1u);
  instance_->Finish();
}

TEST_F(InstanceTest, BesideEagerTheGeneratorIsOnlyLookedAt) {
  DrawTwice();
  Build();
  ASSERT_EQ(Resolve(First(x_)), Readiness::kReady);
  EXPECT_TRUE(instance_->DrawsBesideEager());
  EXPECT_EQ(frontend_.generator.offset, 100u);
  EXPECT_EQ(instance_->next_draw_op(), 3u);
  instance_->Finish();
}

// Another thread has drawn while eager ran the op: who drew what is not known.
TEST_F(InstanceTest, BesideEagerTheGeneratorIsWhereTheOpMovesIt) {
  DrawTwice();
  Build();
  ASSERT_EQ(Resolve(First(x_)), Readiness::kReady);
  EXPECT_TRUE(instance_->DrewBesideEager(0));
  ASSERT_TRUE(instance_->DrawsBesideEager());
  EXPECT_FALSE(instance_->DrewBesideEager(1));
  frontend_.generator.offset = 104;
  EXPECT_TRUE(instance_->DrewBesideEager(1));
  frontend_.generator.offset = 108;
  EXPECT_FALSE(instance_->DrewBesideEager(1));
  EXPECT_TRUE(instance_->DrewBesideEager(2));
  instance_->Finish();
}

TEST_F(InstanceTest, SeedThatNoRecordingSawChangeIsElsewhere) {
  DrawTwice();
  Build();
  frontend_.generator = {8, 100};
  EXPECT_EQ(Resolve(First(x_)), Readiness::kElsewhere);
  frontend_.generator = {7, 0};
  EXPECT_EQ(Resolve(First(x_)), Readiness::kReady);
  instance_->Finish();
}

// The program seeds it in another way each time before op 1.
TEST_F(InstanceTest, WhereTheOpTellsItIsBoundWhenThatComes) {
  DrawsAt(1, {1, 0}, {2, 0});
  DrawsAt(3, {1, 4}, {2, 4});
  inputs_.clear();
  Give(late_, First(late_));
  Give(x_, First(x_) - 8);
  Build({{0, 1, 1}, {1, 4, 3, /*gated=*/true}});
  ASSERT_EQ(Resolve(First(x_)), Readiness::kReady);
  ASSERT_TRUE(instance_->LaunchNext());
  EXPECT_THAT(log_.generator, IsEmpty());
  frontend_.generator = {3, 0};
  const auto op = OpAt(1, {Place(a_), First(weight_)});
  EXPECT_EQ(instance_->BindLate(op->view), Readiness::kReady);
  EXPECT_THAT(log_.generator, ElementsAre(std::pair(1u, GeneratorState{3, 0}),
                                          std::pair(3u, GeneratorState{3, 4})));
  frontend_.generator = {3, 8};
  EXPECT_EQ(instance_->BindLate(op->view), Readiness::kElsewhere);
  instance_->Finish();
}

}  // namespace
}  // namespace reprise::engine
