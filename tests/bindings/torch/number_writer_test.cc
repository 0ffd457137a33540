// Numbers that Python reads while calls are written down, and what it computes
// from them.

#include "bindings/torch/region/number_writer.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace reprise::bindings {
namespace {

using Values = std::vector<c10::IValue>;

c10::OperatorHandle Op(const char* name, const char* overload = "") {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, overload);
}

// A recording of a call that is given the number 7.
class NumberWriterTest : public testing::Test {
 protected:
  NumberWriterTest() {
    writer_.Begin(std::vector{counter_, integer_, vector_});
  }

  TapeCall& AddCall(const c10::OperatorHandle& op) {
    return record_.calls.emplace_back(TapeCall{.op = op});
  }
  // A call that adds to that tensor, or does something else to it.
  void Write(const at::Tensor& tensor, double number,
             const char* name = "aten::add_") {
    Values arguments = {tensor, number};
    if (name == std::string("aten::add_")) arguments.emplace_back(1);  // alpha
    TapeCall& call = AddCall(Op(name, "Scalar"));
    call.arguments.resize(arguments.size());
    call.arguments[0].kind = TapeArgument::Kind::kTensor;
    call.arguments[0].registers = {names_.RegisterOf(tensor)};
    writer_.NoteWrite(arguments, 0);
  }
  bool MayReadAhead(
      const at::Tensor& tensor,
      const c10::OperatorHandle& op = Op("aten::_local_scalar_dense")) {
    return writer_.MayReadAhead(op, Values{tensor});
  }
  // A call reads the counter, which gives this.
  void Read(const c10::IValue& value) {
    ASSERT_TRUE(MayReadAhead(counter_));
    AddCall(Op("aten::_local_scalar_dense"));
    writer_.NoteCall();
    writer_.NoteRead(value);
  }
  const std::vector<NumberRead>& reads() const {
    return record_.arithmetic.reads;
  }
  std::string HandsOut() {
    TapeFault fault;
    fault.Refuse(Refusal::kHandsDataOut, Op("aten::_local_scalar_dense"));
    return fault.reason();
  }

  const at::Tensor counter_ = at::full({}, 3.0);
  const at::Tensor integer_ = at::zeros({}, at::kLong);
  const at::Tensor vector_ = at::zeros({2});
  TapeRecord record_{.numbers = TapeNumbers::Of({7}, 1)};
  TapeFault fault_;
  LeafGradients gradients_;
  WatchedBefore watched_;
  TapeNames names_{record_, fault_, gradients_, watched_};
  NumberWriter writer_{record_, fault_, names_};
};

TEST_F(NumberWriterTest, OneWatchedFloatOfTheHostIsACounter) {
  EXPECT_TRUE(writer_.IsCounter(counter_));
  EXPECT_FALSE(writer_.IsCounter(integer_));
  EXPECT_FALSE(writer_.IsCounter(vector_));
  EXPECT_FALSE(writer_.IsCounter(at::full({}, 3.0))) << "nobody watches it";
  EXPECT_FALSE(writer_.IsCounter(3.0));
}

TEST_F(NumberWriterTest, OnlyReadsOfCountersAreMadeAhead) {
  EXPECT_TRUE(MayReadAhead(counter_));
  EXPECT_TRUE(MayReadAhead(counter_, Op("aten::item")));
  EXPECT_FALSE(MayReadAhead(counter_, Op("aten::is_nonzero")));
  EXPECT_FALSE(MayReadAhead(at::full({}, 3.0)));
}

TEST_F(NumberWriterTest, WithoutNumbersNothingIsReadAhead) {
  record_.numbers = TapeNumbers::Of({}, 0);
  EXPECT_FALSE(MayReadAhead(counter_));
}

TEST_F(NumberWriterTest, PartsOfAPassReadNothingAhead) {
  for (const TapePass pass : {TapePass::kForward, TapePass::kBackward}) {
    record_.pass = pass;
    EXPECT_FALSE(MayReadAhead(counter_));
  }
}

TEST_F(NumberWriterTest, WhatCallsAddIsKnown) {
  Write(counter_, 1);
  Write(counter_, 0.5);
  Read(4.5);
  EXPECT_FALSE(fault_.refused()) << fault_.reason();
  ASSERT_EQ(reads().size(), 1u);
  EXPECT_EQ(reads()[0].value, 4.5);
  ASSERT_EQ(reads()[0].added.size(), 2u);
  EXPECT_EQ(reads()[0].added[1].value, 0.5);
  EXPECT_TRUE(record_.calls.back().read_ahead);
}

TEST_F(NumberWriterTest, WhatCallsDoOtherwiseIsNotReadAhead) {
  Write(counter_, 2, "aten::mul_");
  EXPECT_FALSE(MayReadAhead(counter_));
}

TEST_F(NumberWriterTest, ACallThatReadsNothingAheadAddsNoRead) {
  for (const size_t before : {0, 1}) {
    AddCall(Op("aten::sin"));
    writer_.NoteCall();
    EXPECT_FALSE(record_.calls.back().read_ahead);
    EXPECT_EQ(reads().size(), before);
    Read(3.0);
  }
}

TEST_F(NumberWriterTest, TheFirstReadKnowsWhatWasNamedBefore) {
  names_.RegisterOf(vector_);
  Read(3.0);
  EXPECT_EQ(record_.arithmetic.registers_before, 2u) << "and the counter";
  names_.RegisterOf(integer_);
  Read(3.0);
  EXPECT_EQ(record_.arithmetic.registers_before, 2u);
}

TEST_F(NumberWriterTest, WhatSomebodyElseHasWrittenIsRefused) {
  Write(counter_, 1);
  Read(5.0);  // 3 + 1, and nobody has shown who wrote it
  EXPECT_EQ(fault_.reason(), HandsOut());
}

TEST_F(NumberWriterTest, NumbersAreComparedByTheirBits) {
  counter_.fill_(-0.0);
  NumberWriter writer(record_, fault_, names_);
  writer.Begin(std::vector{counter_});
  for (const double read : {-0.0, 0.0}) {
    EXPECT_FALSE(fault_.refused()) << fault_.reason();
    ASSERT_TRUE(writer.MayReadAhead(Op("aten::item"), Values{counter_}));
    AddCall(Op("aten::item"));
    writer.NoteCall();
    writer.NoteRead(read);
  }
  EXPECT_TRUE(fault_.refused()) << "0 is not -0";
}

TEST_F(NumberWriterTest, AReadThatGivesNoFloatIsRefused) {
  Read(int64_t{3});
  EXPECT_EQ(fault_.reason(), HandsOut());
}

TEST_F(NumberWriterTest, EachReadIsTakenOnceAndRightBehindItsCall) {
  EXPECT_EQ(writer_.TakeRead(), -1) << "there is none";
  Read(3.0);
  EXPECT_EQ(writer_.TakeRead(), 0);
  EXPECT_EQ(writer_.TakeRead(), -1) << "it is taken";
  Read(3.0);
  EXPECT_EQ(writer_.TakeRead(), 1);
  Read(3.0);
  AddCall(Op("aten::sin"));
  EXPECT_EQ(writer_.TakeRead(), -1) << "another call came behind it";
}

TEST_F(NumberWriterTest, OfARefusedRecordingNothingIsTaken) {
  Read(3.0);
  fault_.Refuse(Refusal::kSeeded);
  EXPECT_EQ(writer_.TakeRead(), -1);
}

TEST_F(NumberWriterTest, AReadThatNobodyTakesIsRefusedWhereFloatsNote) {
  Read(3.0);
  writer_.Check(/*notes=*/false);
  EXPECT_FALSE(fault_.refused()) << "ordinary floats tell nothing";
  writer_.Check(/*notes=*/true);
  EXPECT_EQ(fault_.reason(), HandsOut());
}

TEST_F(NumberWriterTest, ATakenReadOfWhichNobodyTellsMoreIsRefused) {
  Read(3.0);
  EXPECT_EQ(writer_.TakeRead(), 0);
  writer_.Check(/*notes=*/true);
  EXPECT_EQ(fault_.reason(), HandsOut());
}

// What the checks below are told: the number that is given times the one that
// is read.
std::vector<NumberNode> Product(uint32_t read) {
  return {{.op = NumberOp::kGiven, .left = 0},
          {.op = NumberOp::kRead, .left = read},
          {.op = NumberOp::kMultiply, .left = 0, .right = 1}};
}

TEST_F(NumberWriterTest, WhatIsComputedAlikeIsKept) {
  Read(3.0);
  writer_.TakeRead();
  writer_.NoteComputed(Product(0), {7, 3, 21});
  writer_.Check(/*notes=*/true);
  EXPECT_FALSE(fault_.refused()) << fault_.reason();
  EXPECT_EQ(record_.arithmetic.values, (std::vector<double>{7, 3, 21}));
  EXPECT_EQ(record_.arithmetic.nodes, Product(0));
}

TEST_F(NumberWriterTest, WhatPythonComputesOtherwiseIsRefused) {
  Read(3.0);
  writer_.TakeRead();
  writer_.NoteComputed(Product(0), {7, 3, 22});
  writer_.Check(/*notes=*/true);
  EXPECT_EQ(fault_.reason(), SentenceOf(Refusal::kNumberNotFollowed));
}

TEST_F(NumberWriterTest, ANumberThatIsNoneOfTheCallIsRefused) {
  Read(3.0);
  writer_.TakeRead();
  writer_.NoteComputed(Product(1), {7, 3, 21});
  writer_.Check(/*notes=*/true);
  EXPECT_EQ(fault_.reason(), SentenceOf(Refusal::kNumberNotFollowed));
}

TEST_F(NumberWriterTest, ANumberThatIsMadeOfItselfIsRefused) {
  writer_.NoteComputed({{.op = NumberOp::kGiven, .left = 0},
                        {.op = NumberOp::kLessEqual, .left = 1, .right = 1}},
                       {7, 1});
  writer_.Check(/*notes=*/true);
  EXPECT_EQ(fault_.reason(), SentenceOf(Refusal::kNumberNotFollowed));
}

TEST_F(NumberWriterTest, ANumberThatPythonWouldNotGiveIsRefused) {
  writer_.NoteComputed({{.op = NumberOp::kGiven, .left = 0},
                        {.op = NumberOp::kConstant, .value = 0},
                        {.op = NumberOp::kDivide, .left = 0, .right = 1}},
                       {7, 0, std::numeric_limits<double>::infinity()});
  writer_.Check(/*notes=*/true);
  EXPECT_EQ(fault_.reason(), SentenceOf(Refusal::kNumberNotFollowed))
      << "it raises an error";
}

}  // namespace
}  // namespace reprise::bindings
