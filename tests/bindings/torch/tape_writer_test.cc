// A recording that is told of calls by hand.

#include "bindings/torch/region/tape_writer.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/core/stack.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace reprise::bindings {
namespace {

using Tensors = std::vector<at::Tensor>;
using Values = std::vector<c10::IValue>;

class TapeWriterTest : public testing::Test {
 protected:
  // Makes the call, and tells of it.
  static at::Tensor Call(TapeWriter& writer, const char* name,
                         const char* overload, Values arguments) {
    const auto op =
        c10::Dispatcher::singleton().findSchemaOrThrow(name, overload);
    const size_t call = writer.Before(op, arguments);
    torch::jit::Stack stack(arguments.begin(), arguments.end());
    op.callBoxed(stack);
    writer.After(call, stack);
    return stack[0].toTensor();
  }
  static at::Tensor Add(TapeWriter& writer, const at::Tensor& to,
                        const at::Tensor& other) {
    return Call(writer, "aten::add", "Tensor", {to, other, 1});
  }
  static TapeWriter::Outcome End(TapeWriter& writer, const Tensors& outputs) {
    return writer.End(outputs, {}, SIZE_MAX);
  }

  const at::NoGradGuard no_grad_;
  const at::Tensor x_ = at::randn({3});
};

TEST_F(TapeWriterTest, NamesWhatCallsTakeAndMake) {
  const at::Tensor weight = at::randn({1 << 16});
  TapeWriter writer({.inputs = {x_}});
  const at::Tensor sum = Add(writer, x_, x_);
  const at::Tensor large = Add(writer, weight, weight);
  const auto outcome = End(writer, {sum, large});
  ASSERT_NE(outcome.tape, nullptr) << outcome.reason;
  const TapeRecord& record = outcome.tape->record();
  ASSERT_EQ(record.calls.size(), 2u);
  EXPECT_EQ(record.calls[0].arguments[0].registers, std::vector<int32_t>{0});
  EXPECT_EQ(record.calls[0].results, std::vector<int32_t>{1});
  EXPECT_EQ(record.registers[2].origin, TapeRegister::Origin::kForeign);
  EXPECT_EQ(record.outputs, (std::vector<int32_t>{1, 3}));
  EXPECT_EQ(outcome.tape->foreign().size(), 1u);
}

TEST_F(TapeWriterTest, WritesOutsideAreEffects) {
  const at::Tensor count = at::zeros({3});
  TapeWriter writer({.inputs = {x_}});
  const at::Tensor sum = Add(writer, x_, x_);
  EXPECT_FALSE(writer.HasEffects());
  Call(writer, "aten::add_", "Tensor", {sum, x_, 1});
  EXPECT_FALSE(writer.HasEffects()) << "it is a result";
  Call(writer, "aten::add_", "Tensor", {count, x_, 1});
  EXPECT_TRUE(writer.HasEffects());
  const auto outcome = End(writer, {sum});
  ASSERT_NE(outcome.tape, nullptr) << outcome.reason;
  EXPECT_EQ(outcome.tape->record().first_effect, 2u);
}

TEST_F(TapeWriterTest, FloatsThatAreGivenMayVary) {
  TapeWriter writer({.inputs = {x_}, .numbers = {0.25}});
  Call(writer, "aten::mul", "Scalar", {x_, 0.5});
  EXPECT_FALSE(writer.MayVary(0));
  Call(writer, "aten::mul", "Scalar", {x_, -0.25});
  EXPECT_TRUE(writer.MayVary(1));
}

TEST_F(TapeWriterTest, NothingIsWrittenBehindARefusal) {
  TapeWriter writer({.inputs = {x_}});
  writer.fault().Refuse("something");
  const at::Tensor sum = Add(writer, x_, x_);
  const auto outcome = End(writer, {sum});
  EXPECT_EQ(outcome.tape, nullptr);
  EXPECT_EQ(outcome.reason, "something");
}

TEST_F(TapeWriterTest, PythonAsksWhatIsAnotherThingInAnotherCall) {
  TapeWriter made({.inputs = {x_}});
  const at::Tensor sum = Add(made, x_, x_);
  made.NoteAsked(*sum.unsafeGetTensorImpl(), TapeWriter::Asked::kMemory);
  EXPECT_FALSE(made.fault().refused());
  made.NoteAsked(*x_.unsafeGetTensorImpl(), TapeWriter::Asked::kMemory);
  EXPECT_EQ(made.fault().reason(), SentenceOf(Refusal::kAsksForMemory));

  TapeWriter offset({.inputs = {x_}});
  offset.NoteAsked(*x_.unsafeGetTensorImpl(), TapeWriter::Asked::kOffset);
  const auto outcome = End(offset, {Add(offset, x_, x_)});
  ASSERT_NE(outcome.tape, nullptr) << outcome.reason;
  EXPECT_TRUE(outcome.tape->record().placement.fixed_offsets);
}

TEST_F(TapeWriterTest, FunctionsRunWithoutGradients) {
  const TapeWriter writer({.inputs = {x_}});
  EXPECT_EQ(writer.WhyNoFunction(), "");
  const at::AutoGradMode grad(true);
  EXPECT_EQ(writer.WhyNoFunction(),
            SentenceOf(Refusal::kFunctionTracksGradients));
}

}  // namespace
}  // namespace reprise::bindings
