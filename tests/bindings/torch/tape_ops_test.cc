// What tapes ask of operators, by name, schema and what a call is given.

#include "bindings/torch/region/tape_ops.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>
#include <torch/library.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace reprise::bindings {
namespace {

using Values = std::vector<c10::IValue>;

TORCH_LIBRARY(reprise_tape_ops, m) { m.def("own(Tensor a) -> Tensor"); }

c10::OperatorHandle Op(const char* name, const char* overload = "") {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, overload);
}

size_t ArgumentOf(const c10::OperatorHandle& op, const std::string& name) {
  const auto& arguments = op.schema().arguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].name() == name) return i;
  }
  ADD_FAILURE() << op.schema().name() << " has no " << name;
  return 0;
}

// Those of the schema's defaults, but for what is named.
Values Given(const c10::OperatorHandle& op, const std::string& name,
             const c10::IValue& value) {
  Values values;
  for (const c10::Argument& argument : op.schema().arguments()) {
    values.push_back(argument.name() == name
                         ? value
                         : argument.default_value().value_or(c10::IValue()));
  }
  return values;
}

TEST(TapeOpsTest, ReadsGiveANumberAndNothingElse) {
  EXPECT_TRUE(Reads(Op("aten::item")));
  EXPECT_TRUE(Reads(Op("aten::_local_scalar_dense")));
  EXPECT_TRUE(Reads(Op("aten::equal")));
  EXPECT_FALSE(Reads(Op("aten::eq", "Tensor")));
  EXPECT_TRUE(HandsDataOut(Op("aten::item")));
  EXPECT_FALSE(HandsDataOut(Op("aten::sum")));
}

TEST(TapeOpsTest, SomeArgumentsGiveTheirFormAlone) {
  const at::Tensor x = at::zeros({2});
  EXPECT_TRUE(ReadsOnlyForm(Op("aten::view"), Values{x, 2}, 0));
  EXPECT_TRUE(ReadsOnlyForm(Op("aten::zeros_like"), Values{x}, 0));
  EXPECT_FALSE(ReadsOnlyForm(Op("aten::clone"), Values{x}, 0));
  EXPECT_FALSE(ReadsOnlyForm(Op("aten::copy_"), Values{x, x}, 1));
  const auto backward = Op("aten::convolution_backward");
  const auto reads = [&](const std::string& name, std::vector<bool> mask) {
    return !ReadsOnlyForm(
        backward,
        Given(backward, "output_mask",
              c10::List<bool>({bool(mask[0]), bool(mask[1]), bool(mask[2])})),
        ArgumentOf(backward, name));
  };
  EXPECT_TRUE(reads("weight", {true, false, false}));
  EXPECT_FALSE(reads("weight", {false, true, true}));
  EXPECT_TRUE(reads("input", {false, true, false}));
  EXPECT_FALSE(reads("input", {true, false, true}));
  EXPECT_TRUE(reads("grad_output", {false, false, true}));
}

TEST(TapeOpsTest, DrawsForGoodWhereNobodyPutsTheGeneratorBack) {
  const auto draw = Op("aten::bernoulli");
  EXPECT_FALSE(DrawsForGood(draw, Given(draw, "", {})));
  const at::Generator own = at::make_generator<at::CPUGeneratorImpl>();
  EXPECT_FALSE(DrawsForGood(draw, Given(draw, "generator", own)));
  const auto state = Op("aten::_cudnn_init_dropout_state");
  EXPECT_TRUE(DrawsForGood(state, Given(state, "", {})));
  const auto recurrent = Op("aten::_cudnn_rnn");
  EXPECT_TRUE(DrawsForGood(recurrent, Given(recurrent, "", {})));
  const auto none = Op("aten::sin");
  EXPECT_FALSE(DrawsForGood(none, Given(none, "", {})));
}

TEST(TapeOpsTest, SizesFollowFromDataWhereMasksPick) {
  const auto index = Op("aten::index", "Tensor");
  using Indices = c10::List<std::optional<at::Tensor>>;
  const at::Tensor x = at::zeros({2});
  const Values by_numbers = {x, Indices({std::nullopt, at::tensor({0, 1})})};
  const Values by_mask = {x, Indices({at::ones({2}, at::kBool)})};
  EXPECT_FALSE(SizesByData(index, by_numbers));
  EXPECT_TRUE(SizesByData(index, by_mask));
  EXPECT_TRUE(SizesByData(Op("aten::nonzero"), Values{x}));
  EXPECT_FALSE(SizesByData(Op("aten::sin"), Values{x}));
}

TEST(TapeOpsTest, ValuesOfTheHostDecideWhereTheyAreTensors) {
  const auto split = Op("aten::tensor_split", "tensor_indices_or_sections");
  EXPECT_TRUE(DecidesByValues(split));
  EXPECT_TRUE(
      DecidesByValues(split, ArgumentOf(split, "tensor_indices_or_sections")));
  EXPECT_FALSE(DecidesByValues(split, ArgumentOf(split, "self")));
  EXPECT_FALSE(DecidesByValues(Op("aten::tensor_split", "sections")));
  // Lengths of a batch: a list of numbers, or a tensor.
  EXPECT_TRUE(DecidesByValues(Op("aten::ctc_loss", "Tensor")));
  EXPECT_FALSE(DecidesByValues(Op("aten::ctc_loss", "IntList")));
}

TEST(TapeOpsTest, DrawsAndTheProbabilityByWhichNoneIsDrawn) {
  const auto dropout = Op("aten::dropout");
  EXPECT_TRUE(Draws(dropout));
  EXPECT_TRUE(IsProbability(dropout, ArgumentOf(dropout, "p")));
  EXPECT_FALSE(IsProbability(dropout, ArgumentOf(dropout, "train")));
  const auto norm = Op("aten::norm", "Scalar");
  EXPECT_FALSE(Draws(norm));
  EXPECT_FALSE(IsProbability(norm, ArgumentOf(norm, "p")));
}

TEST(TapeOpsTest, StatisticsAreWrittenSecretly) {
  EXPECT_TRUE(WritesSecretly(Op("aten::batch_norm")));
  EXPECT_TRUE(WritesSecretly(Op("aten::instance_norm")));
  EXPECT_TRUE(WritesSecretly(Op("aten::embedding_renorm_")));
  EXPECT_FALSE(WritesSecretly(Op("aten::layer_norm")));
}

TEST(TapeOpsTest, OffIsWhatIsNotTrained) {
  const auto norm = Op("aten::batch_norm");
  EXPECT_TRUE(IsOff(norm, Given(norm, "training", false)));
  EXPECT_FALSE(IsOff(norm, Given(norm, "training", true)));
  const auto dropout = Op("aten::dropout");
  EXPECT_TRUE(IsOff(dropout, Given(dropout, "train", false)));
}

TEST(TapeOpsTest, OffIsAProbabilityOfZeroThatIsNotNegative) {
  const auto attention = Op("aten::scaled_dot_product_attention");
  EXPECT_TRUE(IsOff(attention, Given(attention, "dropout_p", 0.0)));
  EXPECT_FALSE(IsOff(attention, Given(attention, "dropout_p", -0.0)));
  EXPECT_FALSE(IsOff(attention, Given(attention, "dropout_p", 0.5)));
}

TEST(TapeOpsTest, KernelsOfTheHostMayRaise) {
  const at::Tensor x = at::zeros({2});
  const at::Tensor number = at::zeros({});
  const at::Tensor none;
  EXPECT_TRUE(MayRaise(Op("aten::sin"), Values{x}));
  EXPECT_TRUE(MayRaise(Op("aten::sin"), Values{number}));
  EXPECT_FALSE(MayRaise(Op("aten::sin"), Values{none})) << "of no tensor";
  // Lists are looked into.
  const c10::List<at::Tensor> list({x});
  EXPECT_TRUE(MayRaise(Op("aten::cat"), Values{list, 0}));
}

TEST(TapeOpsTest, LibrariesOfSolversAndOfOthersMayRaiseAlways) {
  EXPECT_TRUE(MayRaise(Op("aten::linalg_cholesky"), Values{at::Tensor()}));
  EXPECT_TRUE(MayRaise(Op("aten::_linalg_det"), Values{at::Tensor()}));
  EXPECT_TRUE(MayRaise(Op("reprise_tape_ops::own"), Values{at::Tensor()}));
}

TEST(TapeOpsTest, CopiesDoNothingElse) {
  EXPECT_TRUE(OnlyCopies(Op("aten::copy_")));
  EXPECT_TRUE(OnlyCopies(Op("aten::_to_copy")));
  EXPECT_TRUE(OnlyCopies(Op("aten::item")));
  EXPECT_FALSE(OnlyCopies(Op("aten::add", "Tensor")));
}

TEST(TapeOpsTest, DetachingInPlaceDoesNothingBelowAutograd) {
  EXPECT_TRUE(DoesNothing(Op("aten::detach_")));
  EXPECT_FALSE(DoesNothing(Op("aten::detach")));
  EXPECT_FALSE(DoesNothing(Op("aten::squeeze_")));
}

TEST(TapeOpsTest, ContentIsMissingOfWhatIsEmpty) {
  EXPECT_TRUE(LeavesUnwritten(Op("aten::empty", "memory_format")));
  EXPECT_TRUE(LeavesUnwritten(Op("aten::new_empty")));
  EXPECT_FALSE(LeavesUnwritten(Op("aten::zeros")));
}

TEST(TapeOpsTest, WritesAreThoseOfTheSchema) {
  const auto add = Op("aten::add_", "Tensor");
  EXPECT_TRUE(Writes(add, 0));
  EXPECT_FALSE(Writes(add, 1));
  const auto out = Op("aten::add", "out");
  EXPECT_TRUE(Writes(out, ArgumentOf(out, "out")));
  EXPECT_FALSE(Writes(Op("aten::t"), 0)) << "a view writes nothing";
}

TEST(TapeOpsTest, ViewsAreOfTheFirstArgumentAlone) {
  EXPECT_TRUE(GivesViews(Op("aten::t")));
  EXPECT_TRUE(GivesViews(Op("aten::unbind", "int")));
  EXPECT_TRUE(GivesViews(Op("aten::_unsafe_view")));
  EXPECT_FALSE(GivesViews(Op("aten::add_", "Tensor")));
  EXPECT_FALSE(GivesViews(Op("aten::add", "Tensor")));
  EXPECT_FALSE(GivesViews(Op("aten::add", "out")));
}

TEST(TapeOpsTest, ToolsComputeNothing) {
  EXPECT_TRUE(IsOfTools(Op("profiler::_record_function_exit")));
  EXPECT_FALSE(IsOfTools(Op("aten::sin")));
  EXPECT_FALSE(IsOfTools(Op("reprise_tape_ops::own"))) << "another namespace";
}

TEST(TapeOpsTest, AttentionTellsHowItDrew) {
  EXPECT_TRUE(TellsHowItDrew(Op("aten::_flash_attention_forward")));
  EXPECT_FALSE(TellsHowItDrew(Op("aten::native_dropout")));
}

}  // namespace
}  // namespace reprise::bindings
