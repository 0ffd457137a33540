// What a call is given: tensors by their registers, and copies of what is a
// value.

#include "bindings/torch/region/tape_arguments.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace reprise::bindings {
namespace {

using Kind = TapeArgument::Kind;
using Values = std::vector<c10::IValue>;
using Registers = std::vector<int32_t>;

class TapeArgumentsTest : public testing::Test {
 protected:
  std::vector<TapeArgument> Of(const char* name, const char* overload,
                               const Values& values) {
    return ArgumentsOf(
        c10::Dispatcher::singleton().findSchemaOrThrow(name, overload), values,
        names_, fault_);
  }
  const TapeRegister& At(int32_t reg) {
    return record_.registers.at(static_cast<size_t>(reg));
  }

  TapeRecord record_;
  TapeFault fault_;
  LeafGradients gradients_;
  WatchedBefore watched_;
  TapeNames names_{record_, fault_, gradients_, watched_};
  const at::Tensor x_ = at::randn({4, 3});
};

TEST_F(TapeArgumentsTest, TensorsAreNamedAndNumbersAreKept) {
  const auto arguments = Of("aten::add", "Tensor", {x_, x_, 2});
  ASSERT_EQ(arguments.size(), 3u);
  EXPECT_EQ(arguments[0].kind, Kind::kTensor);
  EXPECT_EQ(arguments[0].registers, Registers{names_.RegisterOf(x_)});
  EXPECT_EQ(arguments[1].registers, arguments[0].registers);
  EXPECT_EQ(arguments[2].kind, Kind::kValue);
  EXPECT_EQ(arguments[2].value.toInt(), 2);
  EXPECT_TRUE(arguments[2].registers.empty());
}

TEST_F(TapeArgumentsTest, TensorsOfAListAreNamedInOrder) {
  const at::Tensor y = at::randn({4, 3});
  const auto arguments =
      Of("aten::cat", "", {c10::List<at::Tensor>({x_, y, x_}), 0});
  EXPECT_EQ(arguments[0].kind, Kind::kTensors);
  EXPECT_EQ(arguments[0].registers,
            (Registers{names_.RegisterOf(x_), names_.RegisterOf(y),
                       names_.RegisterOf(x_)}));
}

TEST_F(TapeArgumentsTest, AnIndexThatIsNotGivenIsNone) {
  const at::Tensor index = at::zeros({1}, at::kLong);
  c10::List<std::optional<at::Tensor>> indices;
  indices.push_back(std::nullopt);
  indices.push_back(index);
  const auto arguments = Of("aten::index", "Tensor", {x_, indices});
  EXPECT_EQ(arguments[1].kind, Kind::kOptionalTensors);
  EXPECT_EQ(arguments[1].registers,
            (Registers{TapeArgument::kNone, names_.RegisterOf(index)}));
}

TEST_F(TapeArgumentsTest, ATensorThatIsUndefinedHasNoRegister) {
  const auto arguments = Of("aten::sin", "", {at::Tensor()});
  EXPECT_EQ(arguments[0].registers, Registers{TapeArgument::kUndefined});
  EXPECT_TRUE(record_.registers.empty());
}

TEST_F(TapeArgumentsTest, ANumberThatTorchHasWrappedIsTheNumber) {
  const at::Tensor two = at::scalar_tensor(2.5);
  two.unsafeGetTensorImpl()->set_wrapped_number(true);
  const auto arguments = Of("aten::mul", "Tensor", {x_, two});
  EXPECT_EQ(arguments[1].kind, Kind::kValue);
  EXPECT_TRUE(arguments[1].wrapped);
  EXPECT_EQ(arguments[1].value.toScalar().toDouble(), 2.5);
  EXPECT_TRUE(arguments[1].registers.empty());
  EXPECT_EQ(record_.registers.size(), 1u) << "x";
  EXPECT_FALSE(arguments[0].wrapped);
}

TEST_F(TapeArgumentsTest, AWrappedNumberThatIsNoOrdinaryTensorIsRefused) {
  const at::Tensor zero = at::_efficientzerotensor({});
  zero.unsafeGetTensorImpl()->set_wrapped_number(true);
  Of("aten::mul", "Tensor", {x_, zero});
  EXPECT_EQ(fault_.reason(), SentenceOf(Refusal::kNotOrdinaryUsed));
}

TEST_F(TapeArgumentsTest, AListThatIsChangedBehindTheCallStaysAsItWas) {
  c10::List<int64_t> sizes({12});
  const auto arguments = Of("aten::view", "", {x_, sizes});
  sizes.set(0, 99);
  EXPECT_EQ(arguments[1].value.toIntVector(), std::vector<int64_t>{12});
}

TEST_F(TapeArgumentsTest, WhatOnlyAFormIsAskedOfMayHoldAnything) {
  // The host fills it in, so that it is from outside when it is used.
  const auto unwritten = [this] {
    const at::Tensor made = at::zeros({3});
    names_.AddResult(made, 0);
    names_.NoteUnwritten(made);
    return made;
  };
  const auto form = Of("aten::zeros_like", "",
                       {unwritten(), c10::IValue(), c10::IValue(),
                        c10::IValue(), c10::IValue(), c10::IValue()});
  EXPECT_TRUE(At(form[0].registers[0]).unread);
  const auto data = Of("aten::sin", "", {unwritten()});
  EXPECT_FALSE(At(data[0].registers[0]).unread);
}

TEST_F(TapeArgumentsTest, ATensorThatMayBeOneOfTwoIsNamedByItsPlace) {
  const at::Tensor same = x_.detach();
  names_.AddInput(x_, 0);
  names_.AddInput(same, 1);
  const auto first = Of("aten::sin", "", {x_});
  EXPECT_FALSE(first[0].by_place);
  const auto either = Of("aten::sin", "", {x_.detach()});
  EXPECT_TRUE(either[0].by_place);
  EXPECT_EQ(either[0].registers, first[0].registers);
}

}  // namespace
}  // namespace reprise::bindings
