// ExternalBinder are bound where ops show them, if they may lie there.

#include "engine/replay/external_binder.h"

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
using ::testing::Pair;

class ExternalBinderTest : public testing::Test {
 protected:
  // a = f(x, weight); b = f(a, once, again); c = f(b, again). The last two are
  // late.
  ExternalBinderTest() {
    TraceBuilder builder(&frontend_, kSizeBytes);
    x_ = builder.External();
    weight_ = builder.External();
    a_ = builder.Op({x_, weight_}, {}, 1);
    once_ = builder.External();
    again_ = builder.External();
    b_ = builder.Op({a_, once_, again_}, {}, 1);
    c_ = builder.Op({b_, again_}, {}, 1);
    program_ = std::make_unique<Program>(builder.Take());
    const Trace& trace = *program_->trace;
    program_->movable.assign(trace.values.size(), true);
    program_->place_bytes.assign(trace.values.size(), kSizeBytes);
    std::vector<uint64_t> places(trace.values.size(), 0);
    for (const ValueId v : {a_, b_, c_}) places[v] = kArena + v * 512;
    program_->effects =
        Effects(&trace, {x_, once_, again_}, {}, Effects::Remake::kWhatLasts);
    binding_ = std::make_unique<Binding>(program_.get(), std::move(places),
                                         &executor_);
    binder_ = std::make_unique<ExternalBinder>(program_.get(), binding_.get());
    for (ValueId v = 0; v < trace.values.size(); ++v) {
      frontend_.bases[trace.values[v].storage] = trace.values[v].base;
    }
  }
  ~ExternalBinderTest() override { holds_.EndPass(); }

  // The trace's op `index` on operands at these addresses, each a storage of
  // its own that was not recorded; 0: as recorded.
  OpView OpAt(uint32_t index, const std::vector<uint64_t>& bases) {
    const TracedOp& op = program_->trace->ops[index];
    operands_.assign(bases.size(), {});
    for (size_t i = 0; i < bases.size(); ++i) {
      const Value& value = program_->trace->values[op.operands[i].value];
      operands_[i].storage = bases[i] == 0 ? value.storage : Token(bases[i]);
      operands_[i].base = bases[i] == 0 ? value.base : bases[i];
      operands_[i].storage_bytes = kSizeBytes;
    }
    OpView view;
    view.op = op.op;
    view.words = op.words;
    view.operands = operands_;
    return view;
  }
  KnownOperand Known(uint32_t index, size_t operand, uint64_t base) {
    const ValueRef& ref = program_->trace->ops[index].operands[operand];
    KnownOperand known{ref, {}};
    known.at.storage =
        base == 0 ? program_->trace->values[ref.value].storage : Token(base);
    known.at.base = base == 0 ? program_->trace->values[ref.value].base : base;
    known.at.storage_bytes = kSizeBytes;
    return known;
  }
  bool IsWatched(uint64_t base) const {
    return frontend_.references.contains(Token(base));
  }

  static constexpr uint64_t kSizeBytes = 64;
  static constexpr uint64_t kArena = 0x7f10'0000'0000;
  static constexpr uint64_t kThere = 0x7f20'0000'0000;
  static constexpr uint64_t kElse = 0x7f30'0000'0000;
  FakeFrontend frontend_;
  StorageHolds holds_{&frontend_};
  FakeExecutor::Log log_;
  FakeExecutor executor_{&log_};
  std::unique_ptr<Program> program_;
  std::unique_ptr<Binding> binding_;
  std::unique_ptr<ExternalBinder> binder_;
  std::vector<Operand> operands_;
  ValueId x_, weight_, a_, once_, again_, b_, c_;
};

TEST_F(ExternalBinderTest, TheHeadsOperandsAreBoundAndConstantsWatched) {
  ASSERT_TRUE(binder_->BindHead(OpAt(0, {kThere, kElse}), holds_));
  EXPECT_THAT(log_.binds, ElementsAre(Pair(x_, kThere), Pair(weight_, kElse)));
  EXPECT_FALSE(IsWatched(kThere));  // no later op uses it
  EXPECT_TRUE(IsWatched(kElse));
}

TEST_F(ExternalBinderTest, NothingIsBoundWhereRecordedWorkCannotBePointed) {
  program_->movable[weight_] = false;
  EXPECT_FALSE(binder_->BindHead(OpAt(0, {kThere, kElse}), holds_));
  EXPECT_THAT(binder_->unproven(), ElementsAre(weight_));
  EXPECT_THAT(log_.binds, IsEmpty());
  EXPECT_TRUE(binder_->BindHead(OpAt(0, {kThere, 0}), holds_));
  EXPECT_THAT(binder_->unproven(), IsEmpty());
}

TEST_F(ExternalBinderTest, APrivateValueIsOneStorageForGood) {
  program_->effects = Effects(program_->trace.get(), {x_, once_, again_}, {},
                              Effects::Remake::kWhatLasts, {}, {weight_});
  EXPECT_TRUE(binder_->BindHead(OpAt(0, {kThere, 0}), holds_));
  OpView larger = OpAt(0, {kThere, 0});
  operands_[1].storage_bytes *= 2;
  EXPECT_FALSE(binder_->BindHead(larger, holds_));
  EXPECT_THAT(binder_->unproven(), IsEmpty());
  EXPECT_FALSE(binder_->BindHead(OpAt(0, {kThere, kElse}), holds_));
  EXPECT_THAT(binder_->unproven(), ElementsAre(weight_));
}

TEST_F(ExternalBinderTest, AnOpBindsTheLateOnesThatItBrings) {
  const ExternalBinder::Late late =
      binder_->BindLate(1, OpAt(1, {0, kThere, kElse}), {}, holds_);
  EXPECT_EQ(late.readiness, Readiness::kReady);
  EXPECT_TRUE(late.bound);
  EXPECT_THAT(log_.binds,
              ElementsAre(Pair(once_, kThere), Pair(again_, kElse)));
  EXPECT_FALSE(IsWatched(kThere));
  EXPECT_TRUE(IsWatched(kElse));
  EXPECT_FALSE(binder_->BindLate(2, OpAt(2, {0, kElse}), {}, holds_).bound);
}

TEST_F(ExternalBinderTest, ALateOneMayNotLieInTheArena) {
  const ExternalBinder::Late late =
      binder_->BindLate(1, OpAt(1, {0, kThere, kArena + c_ * 512}), {}, holds_);
  EXPECT_EQ(late.readiness, Readiness::kOtherOp);
  EXPECT_FALSE(late.bound);
  EXPECT_THAT(log_.binds, IsEmpty());
  EXPECT_TRUE(binder_->IsApart(OpAt(0, {kThere, 0}), {}));
  EXPECT_FALSE(binder_->IsApart(OpAt(0, {kArena + c_ * 512, 0}), {}));
}

TEST_F(ExternalBinderTest, ALateOneThatNeverMovedIsUnproven) {
  program_->movable[once_] = false;
  const ExternalBinder::Late late =
      binder_->BindLate(1, OpAt(1, {0, kThere, kElse}), {}, holds_);
  EXPECT_EQ(late.readiness, Readiness::kUnproven);
  EXPECT_THAT(binder_->unproven(), ElementsAre(once_));
  EXPECT_THAT(log_.binds, IsEmpty());
}

TEST_F(ExternalBinderTest, OpsAreToldOnceAllOfTheirLateOnesAre) {
  const KnownOperand once = Known(1, 1, kThere);
  const KnownOperand again = Known(1, 2, kElse);
  EXPECT_FALSE(binder_->Tell(1, 3, std::vector{once}, {}, holds_));
  EXPECT_FALSE(binder_->IsTold(1));
  // The second use of one is where the first has told.
  const std::vector all = {once, again, Known(2, 1, kElse)};
  ASSERT_TRUE(binder_->Tell(1, 3, all, {}, holds_));
  EXPECT_TRUE(binder_->told_late());
  EXPECT_TRUE(binder_->IsTold(2));
  EXPECT_FALSE(binder_->IsTold(3));
  binder_->ForgetTold();
  EXPECT_FALSE(binder_->told_late());
  EXPECT_FALSE(binder_->IsTold(1));
  const std::vector apart = {once, again, Known(2, 1, kThere)};
  EXPECT_FALSE(binder_->Tell(1, 3, apart, {}, holds_));
}

TEST_F(ExternalBinderTest, AnOperandThatIsToldLiesWhereItIsBound) {
  EXPECT_TRUE(binder_->Tell(0, 1, std::vector{Known(0, 1, 0)}, {}, holds_));
  EXPECT_FALSE(
      binder_->Tell(0, 1, std::vector{Known(0, 1, kThere)}, {}, holds_));
  const std::vector inside = {Known(1, 1, kArena + c_ * 512),
                              Known(1, 2, kElse)};
  EXPECT_FALSE(binder_->Tell(1, 2, inside, {}, holds_));
}

TEST_F(ExternalBinderTest, ConstantsStandWhileTheyAreAliveAndWhereTheyWere) {
  EXPECT_TRUE(binder_->Stand());
  frontend_.bases.erase(program_->trace->values[x_].storage);
  EXPECT_TRUE(binder_->Stand());  // another one comes at each pass
  frontend_.bases[program_->trace->values[weight_].storage] = kThere;
  EXPECT_FALSE(binder_->Stand());
}

}  // namespace
}  // namespace reprise::engine
