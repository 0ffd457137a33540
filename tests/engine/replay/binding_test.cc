// Proves where a launch finds its values and numbers, and which ops of a stream
// are the trace's on these.

#include "engine/replay/binding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
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
using ::testing::Pair;

class BindingTest : public testing::Test {
 protected:
  // a = f(x, weight); b = g(a, late), which writes `state` in place. The first
  // op has two numbers.
  BindingTest() {
    TraceBuilder builder(&frontend_, kSizeBytes);
    x_ = builder.External();
    weight_ = builder.External();
    a_ = builder.Op({x_, weight_}, {}, 1);
    state_ = builder.External();
    late_ = builder.External();
    b_ = builder.Op({a_, late_}, {state_}, 1);
    TracedOp& head = builder.trace().ops[0];
    for (const double number : {5.0, 0.25}) {
      const Scalar scalar{static_cast<uint32_t>(head.words.size()),
                          NumberType::kFloat64, std::bit_cast<uint64_t>(number),
                          Decides::kKernels};
      head.slots.push_back({static_cast<uint32_t>(head.slots.size()), scalar});
      head.words.push_back(scalar.bits);
    }
    program_ = std::make_unique<Program>(builder.Take());
    const Trace& trace = *program_->trace;
    for (const Value& value : trace.values) {
      frontend_.bases[value.storage] = value.base;
    }
    program_->place_bytes.assign(trace.values.size(), kSizeBytes);
    Bind({}, {});
  }

  void Bind(std::vector<SlotSet> changing, std::vector<ValueId> privates) {
    const Trace& trace = *program_->trace;
    program_->effects =
        Effects(&trace, {x_, late_}, std::move(changing),
                Effects::Remake::kWhatLasts, {}, std::move(privates));
    std::vector<uint64_t> places(trace.values.size(), 0);
    for (const ValueId v : {a_, state_, b_}) places[v] = PlaceOf(v);
    binding_ = std::make_unique<Binding>(program_.get(), std::move(places),
                                         &executor_);
  }
  static uint64_t PlaceOf(ValueId value) { return kArena + value * 512; }

  static Operand At(StorageToken storage, uint64_t base) {
    Operand operand;
    operand.storage = storage;
    operand.base = base;
    operand.storage_bytes = kSizeBytes;
    return operand;
  }
  void BindAt(ValueId value, uint64_t base) {
    binding_->BindExternal({.value = value}, At(Token(base), base));
  }
  // The trace's op on its operands as they are bound; those of the program's
  // arena are storages that nobody has seen.
  OpView OpOn(uint32_t index) {
    const TracedOp& op = program_->trace->ops[index];
    operands_.clear();
    for (const ValueRef& ref : op.operands) {
      const StoragePlace& place = binding_->place(ref.value);
      operands_.push_back(
          At(place.storage != nullptr ? place.storage : Token(99),
             binding_->origin(ref.value)));
    }
    words_ = op.words;
    scalars_.clear();
    for (const ScalarSlot& slot : op.slots) scalars_.push_back(slot.recorded);
    OpView view;
    view.op = op.op;
    view.words = words_;
    view.operands = operands_;
    view.scalars = scalars_;
    return view;
  }
  void SetNumber(size_t slot, double number) {
    scalars_[slot].bits = std::bit_cast<uint64_t>(number);
    words_[scalars_[slot].word] = scalars_[slot].bits;
  }

  static constexpr uint64_t kSizeBytes = 64;
  static constexpr uint64_t kArena = 0x7f10'0000'0000;
  static constexpr uint64_t kThere = 0x7f20'0000'0000;
  FakeFrontend frontend_;
  FakeExecutor::Log log_;
  FakeExecutor executor_{&log_};
  std::unique_ptr<Program> program_;
  std::unique_ptr<Binding> binding_;
  std::vector<Operand> operands_;
  std::vector<uint64_t> words_;
  std::vector<Scalar> scalars_;
  ValueId x_, weight_, a_, state_, late_, b_;
};

TEST_F(BindingTest, AllIsAsRecordedUntilSomethingElseIsBound) {
  EXPECT_EQ(binding_->origin(x_), TraceBuilder::AddressOf(x_));
  EXPECT_EQ(binding_->place(x_).storage, program_->trace->values[x_].storage);
  EXPECT_EQ(binding_->origin(a_), PlaceOf(a_));
  EXPECT_EQ(binding_->place(a_).storage, nullptr);
  EXPECT_FALSE(binding_->IsMoved(x_));
  EXPECT_THAT(log_.binds, IsEmpty());
}

TEST_F(BindingTest, TheExecutorIsToldWhatIsElsewhereAndNothingElse) {
  const ValueRef ref{.value = x_, .offset_bytes = 16};
  Operand operand = At(Token(kThere), kThere);
  operand.offset_bytes = 48;
  binding_->BindExternal(ref, operand);
  EXPECT_EQ(binding_->origin(x_), kThere + 32);
  binding_->BindExternal(ref, operand);
  binding_->BindOutput(a_, kThere);
  binding_->BindOutput(b_, PlaceOf(b_));
  EXPECT_THAT(log_.binds, ElementsAre(Pair(x_, kThere + 32), Pair(a_, kThere)));
  EXPECT_TRUE(binding_->IsMoved(x_));
  EXPECT_FALSE(binding_->IsMoved(a_));  // the trace makes it
}

TEST_F(BindingTest, APrivateValueIsCopiedFromTheProgramsMemory) {
  Bind({}, {state_});
  BindAt(state_, kThere);
  EXPECT_EQ(binding_->origin(state_), PlaceOf(state_));
  EXPECT_THAT(log_.binds, IsEmpty());
  const kernels::RangeCopy copy = binding_->Taking(state_);
  EXPECT_EQ(copy.from, kThere);
  EXPECT_EQ(copy.to, PlaceOf(state_));
  EXPECT_EQ(copy.bytes, kSizeBytes);
}

TEST_F(BindingTest, AnExternalStandsWhileItIsAliveWhereItWasBound) {
  BindAt(x_, kThere);
  EXPECT_FALSE(binding_->Stands(x_));
  EXPECT_FALSE(binding_->IsReplaced(x_));  // what was recorded is still there
  frontend_.bases[Token(kThere)] = kThere;
  EXPECT_TRUE(binding_->Stands(x_));
  frontend_.bases[Token(kThere)] = kThere + 512;
  EXPECT_FALSE(binding_->Stands(x_));
  frontend_.bases.erase(program_->trace->values[x_].storage);
  EXPECT_TRUE(binding_->IsReplaced(x_));
  EXPECT_TRUE(binding_->Stands(a_));  // in the arena: no storage of anybody's
}

TEST_F(BindingTest, AnOpMatchesOnTheStoragesThatAreBound) {
  BindAt(late_, kThere);
  ASSERT_TRUE(binding_->Matches(1, OpOn(1)));
  OpView op = OpOn(1);
  operands_[2].offset_bytes = 8;
  EXPECT_FALSE(binding_->Matches(1, op)) << "another part of it";
  op = OpOn(1);
  operands_[2].storage = Token(7);
  EXPECT_FALSE(binding_->Matches(1, op)) << "another storage at its address";
  op = OpOn(1);
  words_[0] ^= 1;
  EXPECT_FALSE(binding_->Matches(1, op)) << "another word";
  op = OpOn(1);
  op.op = 7;
  EXPECT_FALSE(binding_->Matches(1, op)) << "another operator";
}

TEST_F(BindingTest, OnlyNumbersThatMayChangeDoNotCount) {
  Bind({{true, false}, {}}, {});
  OpView op = OpOn(0);
  SetNumber(0, 9.5);
  EXPECT_TRUE(binding_->SameWords(0, op));
  EXPECT_FALSE(binding_->OtherNumbers(0, op));
  SetNumber(0, -9.5);  // ops may refuse a sign
  EXPECT_FALSE(binding_->SameWords(0, op));
  op = OpOn(0);
  SetNumber(1, 0.75);
  EXPECT_FALSE(binding_->SameWords(0, op));
  EXPECT_TRUE(binding_->OtherNumbers(0, op));
  words_[0] ^= 1;
  EXPECT_FALSE(binding_->OtherNumbers(0, op));
}

TEST_F(BindingTest, AllNumbersOfAnOpAreBoundWhereSomeMayChange) {
  OpView op = OpOn(0);
  EXPECT_EQ(binding_->BindNumbers(0, op), Executor::Fit::kBound);
  EXPECT_THAT(log_.scalars, IsEmpty());
  Bind({{true, false}, {}}, {});
  op = OpOn(0);
  SetNumber(0, 9.5);
  log_.fit = Executor::Fit::kOutside;
  EXPECT_EQ(binding_->BindNumbers(0, op), Executor::Fit::kOutside);
  EXPECT_THAT(
      log_.scalars,
      ElementsAre(Pair(0u, ElementsAre(std::bit_cast<uint64_t>(9.5),
                                       std::bit_cast<uint64_t>(0.25)))));
}

TEST_F(BindingTest, OwnValuesAreWhereEagerPutThemBesideEager) {
  OpView op = OpOn(1);
  EXPECT_TRUE(binding_->Made(1, 1, operands_[1]));
  EXPECT_FALSE(binding_->Made(1, 2, operands_[2]));  // an external
  binding_->Shadow(a_, {Token(kThere), kThere});
  EXPECT_FALSE(binding_->MatchesShadow(1, op));
  EXPECT_FALSE(binding_->Made(1, 1, operands_[1]));
  operands_[1] = At(Token(kThere), kThere);
  EXPECT_TRUE(binding_->MatchesShadow(1, op));
  EXPECT_TRUE(binding_->Made(1, 1, operands_[1]));
  operands_[1].storage = Token(7);
  EXPECT_FALSE(binding_->MatchesShadow(1, op));
  binding_->EndShadows();
  EXPECT_TRUE(binding_->Made(1, 1, At(Token(7), PlaceOf(a_))));
}

TEST_F(BindingTest, AStorageIsApartFromWhatThePassMakesOrKeeps) {
  Bind({}, {state_});
  const auto apart = [&](uint64_t base, std::vector<ValueId> elsewhere = {}) {
    return binding_->Apart(At(Token(7), base), x_, elsewhere);
  };
  EXPECT_TRUE(apart(kThere));
  EXPECT_FALSE(apart(PlaceOf(b_) + kSizeBytes - 1));
  EXPECT_TRUE(apart(PlaceOf(b_) + kSizeBytes));
  EXPECT_FALSE(apart(TraceBuilder::AddressOf(state_) + kSizeBytes - 1));
  EXPECT_TRUE(binding_->Apart(At(Token(7), TraceBuilder::AddressOf(state_)),
                              state_, {}));
  binding_->BindOutput(b_, kThere);
  EXPECT_FALSE(apart(kThere, {b_}));
  // Eager may lay an input over what the program has dropped, not over others.
  binding_->Shadow(a_, {Token(kThere), kThere + 512});
  EXPECT_TRUE(apart(kThere + 512));
  frontend_.bases[Token(kThere)] = kThere + 512;
  EXPECT_FALSE(apart(kThere + 512));
}

TEST_F(BindingTest, AnExternalThatMovedMayNotShareWhatIsWrittenOutside) {
  const uint64_t written = TraceBuilder::AddressOf(state_);
  EXPECT_TRUE(binding_->WritesApart(1));
  BindAt(late_, written + kSizeBytes);
  EXPECT_TRUE(binding_->WritesApart(1));
  EXPECT_TRUE(binding_->WritesApart(1, OpOn(1)));
  BindAt(late_, written + kSizeBytes - 1);
  EXPECT_FALSE(binding_->WritesApart(1));
  EXPECT_FALSE(binding_->WritesApart(1, OpOn(1)));
  EXPECT_TRUE(binding_->WritesApart(0));  // it writes nothing outside

  // The same of the head's, which are bound before anything is written.
  EXPECT_FALSE(binding_->MovesOntoWrites(OpOn(0)));
  BindAt(x_, written);  // an input is never made anything from again
  EXPECT_FALSE(binding_->MovesOntoWrites(OpOn(0)));
  BindAt(weight_, written + kSizeBytes - 1);
  EXPECT_TRUE(binding_->MovesOntoWrites(OpOn(0)));
}

TEST_F(BindingTest, MemoryOfExternalsAloneIsInUse) {
  BindAt(x_, kThere);
  const auto uses = [&](uint64_t address) {
    return binding_->Uses([address](uint64_t begin, uint64_t end) {
      return begin <= address && address < end;
    });
  };
  EXPECT_TRUE(uses(kThere + kSizeBytes - 1));
  EXPECT_FALSE(uses(kThere + kSizeBytes));
  EXPECT_FALSE(uses(TraceBuilder::AddressOf(x_)));
  EXPECT_FALSE(uses(PlaceOf(a_)));
}

}  // namespace
}  // namespace reprise::engine
