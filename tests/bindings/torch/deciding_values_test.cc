// Numbers and tensors of the host by which operators decide.

#include "bindings/torch/region/deciding_values.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "tests/bindings/torch/fake_session.h"

namespace reprise::bindings {
namespace {

using Values = std::vector<c10::IValue>;

c10::OperatorHandle Op(const char* name, const char* overload = "") {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, overload);
}

class DecidingValuesTest : public testing::Test {
 protected:
  DecidingValuesTest() { names_.AddInput(inputs_[0], 0); }

  // A call that was made of that tensor.
  at::Tensor Call(const c10::OperatorHandle& op, const at::Tensor& from,
                  const at::Tensor& made) {
    TapeArgument argument;
    argument.kind = TapeArgument::Kind::kTensor;
    argument.registers = {names_.RegisterOf(from)};
    record_.calls.push_back(TapeCall{.op = op, .arguments = {argument}});
    const size_t call = record_.calls.size() - 1;
    record_.calls[call].results = {names_.AddResult(made, call)};
    return made;
  }
  void NoteSplit(const at::Tensor& indices) {
    deciding_.NoteTensors(
        Op("aten::tensor_split", "tensor_indices_or_sections"),
        Values{at::randn({8}), indices, 0});
  }

  FakeSession session_;  // may have run ahead
  TapeRecord record_;
  TapeFault fault_;
  LeafGradients gradients_;
  WatchedBefore watched_;
  TapeNames names_{record_, fault_, gradients_, watched_};
  TapeEffects effects_{record_, names_};
  const std::vector<at::Tensor> inputs_ = {at::arange(1, 4)};
  DecidingValues deciding_{record_, fault_, names_, effects_, inputs_};
};

TEST_F(DecidingValuesTest, ContentOfAnArgumentIsNoted) {
  NoteSplit(inputs_[0]);
  ASSERT_EQ(record_.contents.size(), 1u);
  EXPECT_EQ(record_.contents[0].reg, 0);
  EXPECT_TRUE(record_.contents[0].content.equal(inputs_[0]));
  NoteSplit(inputs_[0]);
  EXPECT_EQ(record_.contents.size(), 1u) << "once";
  EXPECT_EQ(session_.interrupts(), 2u) << "before each look";
  EXPECT_FALSE(fault_.refused());
}

TEST_F(DecidingValuesTest, ContentIsNotedWhereCallsBegan) {
  const at::Tensor made = Call(Op("aten::sin"), inputs_[0], at::arange(2, 5));
  NoteSplit(made);
  ASSERT_EQ(record_.contents.size(), 1u);
  EXPECT_EQ(record_.contents[0].reg, 0);
}

TEST_F(DecidingValuesTest, WhatIsDrawnCannotDecide) {
  NoteSplit(Call(Op("aten::bernoulli"), inputs_[0], at::arange(2, 5)));
  EXPECT_TRUE(fault_.refused());
  EXPECT_NE(fault_.reason().find(SentenceOf(Refusal::kDecidedByDrawn)),
            std::string::npos);
  EXPECT_TRUE(fault_.reason().starts_with("aten::tensor_split"));
}

TEST_F(DecidingValuesTest, WhatIsLargeCannotDecide) {
  NoteSplit(at::zeros({1 << 16}));
  EXPECT_NE(fault_.reason().find(SentenceOf(Refusal::kDecidedByDistant)),
            std::string::npos);
}

TEST_F(DecidingValuesTest, NumbersOfCompositeOperatorsAreNoted) {
  record_.numbers = TapeNumbers::Of({0.5, 0.25, 3}, 3);
  c10::List<double> scales({-0.25});
  deciding_.NoteNumbers(Values{at::randn({3}), 3.0, scales});
  EXPECT_EQ(record_.numbers.decides, (std::vector<bool>{false, true, true}));
}

TEST_F(DecidingValuesTest, FloatsThatAreGivenMayVary) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  record_.numbers = TapeNumbers::Of({0.5, nan}, 2);
  for (const double value : {0.25, 0.5, -0.5, nan}) {
    TapeArgument argument;
    argument.value = value;
    record_.calls.push_back(
        TapeCall{.op = Op("aten::mul", "Scalar"), .arguments = {{}, argument}});
  }
  EXPECT_FALSE(deciding_.MayVary(0));
  for (size_t call = 1; call < 4; ++call) EXPECT_TRUE(deciding_.MayVary(call));
}

}  // namespace
}  // namespace reprise::bindings
