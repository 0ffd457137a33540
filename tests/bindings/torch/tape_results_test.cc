// What a callable leaves: gradients, outputs, saved tensors, writes.

#include "bindings/torch/region/tape_results.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace reprise::bindings {
namespace {

class TapeResultsTest : public testing::Test {
 protected:
  TapeResultsTest() { names_.AddInput(inputs_[0], 0); }

  TapeRecord record_;
  TapeFault fault_;
  LeafGradients gradients_;
  WatchedBefore watched_;
  TapeNames names_{record_, fault_, gradients_, watched_};
  const BackwardInside backward_;
  const std::vector<at::Tensor> inputs_ = {at::randn({3})};
  TapeResults results_{record_, fault_, names_, gradients_, inputs_};
};

TEST_F(TapeResultsTest, OutputsHaveRegisters) {
  const at::Tensor made = inputs_[0] + 1;
  names_.AddResult(made, 0);
  EXPECT_FALSE(results_.NoteOutput(made, backward_));
  EXPECT_FALSE(results_.NoteOutput(inputs_[0], backward_));
  EXPECT_EQ(record_.outputs, (std::vector<int32_t>{1, 0}));
  EXPECT_FALSE(fault_.refused()) << fault_.reason();
}

TEST_F(TapeResultsTest, DataOfAnArgumentIsNoOutput) {
  results_.NoteOutput(inputs_[0].detach(), backward_);
  EXPECT_EQ(fault_.reason(), SentenceOf(Refusal::kOutputIsDataOfArgument));
}

TEST_F(TapeResultsTest, HistoriesAreTrackedAboveAutograd) {
  const at::Tensor made = inputs_[0] * at::ones({3}).requires_grad_();
  names_.AddResult(made, 0);
  EXPECT_TRUE(results_.NoteOutput(made, backward_));
  record_.level = TapeLevel::kAboveAutograd;
  EXPECT_FALSE(results_.NoteOutput(made, backward_));
}

TEST_F(TapeResultsTest, AForwardPassHandsOutNoViewOfWhatIsOutside) {
  record_.pass = TapePass::kForward;
  const at::Tensor view = inputs_[0].slice(0, 0, 2);
  names_.AddResult(view, 0);
  results_.NoteOutput(view, backward_);
  EXPECT_EQ(fault_.reason(), SentenceOf(Refusal::kOutputIsViewOfOutside));
}

TEST_F(TapeResultsTest, GradientsThatAreNewAreLeft) {
  at::Tensor leaf = at::zeros({3}).requires_grad_();
  at::Tensor other = at::zeros({3}).requires_grad_();
  gradients_.Add(leaf);
  gradients_.Add(other);
  leaf.mutable_grad() = at::ones({3});
  names_.AddResult(leaf.grad(), 0);
  results_.NoteGradients(0, backward_);
  ASSERT_EQ(record_.gradients.size(), 1u);
  EXPECT_EQ(static_cast<int32_t>(record_.gradients[0].of),
            names_.RegisterOf(leaf));
  EXPECT_EQ(record_.gradients[0].after, names_.RegisterOf(leaf.grad()));
  EXPECT_FALSE(fault_.refused());
}

TEST_F(TapeResultsTest, GradientsFromOutsideAreRefused) {
  at::Tensor leaf = at::zeros({3}).requires_grad_();
  gradients_.Add(leaf);
  leaf.mutable_grad() = at::ones({3});
  results_.NoteGradients(0, backward_);
  EXPECT_EQ(fault_.reason(), SentenceOf(Refusal::kGradientFromOutside));
}

TEST_F(TapeResultsTest, GradientsWithHistoriesAreTrackedAboveAutograd) {
  at::Tensor leaf = at::zeros({3}).requires_grad_();
  gradients_.Add(leaf);
  leaf.mutable_grad() = leaf * 2;
  names_.AddResult(leaf.grad(), 0);
  EXPECT_TRUE(results_.NoteGradients(0, backward_));
  EXPECT_FALSE(fault_.refused());
  record_.pass = TapePass::kForward;
  EXPECT_FALSE(results_.NoteGradients(0, backward_));
  EXPECT_EQ(fault_.reason(), SentenceOf(Refusal::kGradientHasHistory));
}

TEST_F(TapeResultsTest, OutputsThatKeepAGradientAreRefused) {
  at::Tensor made = inputs_[0] + 1;
  made.mutable_grad() = at::ones({3});
  names_.AddResult(made, 0);
  results_.NoteOutput(made, backward_);
  EXPECT_EQ(fault_.reason(), SentenceOf(Refusal::kOutputIsLeaf));
}

TEST_F(TapeResultsTest, OutputsHaveData) {
  const at::Tensor zero = at::_efficientzerotensor({3}, at::kFloat);
  EXPECT_GE(names_.AddResult(zero, 0), 0);
  results_.NoteOutput(zero, backward_);
  EXPECT_EQ(fault_.reason(), SentenceOf(Refusal::kOutputNotOrdinary));
}

TEST_F(TapeResultsTest, GradientsAreDroppedBehindAllThatPythonReads) {
  record_.calls.resize(
      4, TapeCall{.op = c10::Dispatcher::singleton().findSchemaOrThrow(
                      "aten::sin", "")});
  at::Tensor leaf = at::zeros({3}).requires_grad_();
  leaf.mutable_grad() = at::ones({3});
  gradients_.Add(leaf);
  leaf.mutable_grad().reset();
  gradients_.LookForDropped(1);
  results_.NoteGradients(/*behind_reads=*/3, backward_);
  EXPECT_EQ(record_.drops_gradients_at, 3u);
  ASSERT_EQ(record_.gradients.size(), 1u);
  EXPECT_EQ(record_.gradients[0].after, TapeArgument::kUndefined);
}

TEST_F(TapeResultsTest, EachSavedTensorIsHandedOutOnce) {
  const at::Tensor made = inputs_[0] + 1;
  names_.AddResult(made, 0);
  results_.NoteOutput(made, backward_);
  record_.saved_from = 1;
  EXPECT_EQ(results_.NoteSaved(inputs_[0]), std::optional<size_t>(0));
  EXPECT_EQ(results_.NoteSaved(made), std::optional<size_t>(1));
  EXPECT_EQ(results_.NoteSaved(inputs_[0]), std::optional<size_t>(0));
  EXPECT_EQ(record_.outputs, (std::vector<int32_t>{1, 0, 1}));
}

TEST_F(TapeResultsTest, FindsWhatIsWrittenOutside) {
  const at::Tensor count = at::zeros({3});
  names_.RegisterOf(count);
  const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("aten::sin_", "");
  TapeEffects effects(record_, names_);
  const auto write = [&](const at::Tensor& tensor) {
    TapeArgument argument;
    argument.kind = TapeArgument::Kind::kTensor;
    argument.registers = {names_.RegisterOf(tensor)};
    record_.calls.push_back(TapeCall{.op = op, .arguments = {argument}});
    effects.Note(record_.calls.size() - 1, std::vector<c10::IValue>{tensor});
  };
  write(count);
  const std::vector<at::Tensor> found = results_.FindWritten(effects);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_TRUE(found[0].is_same(count));
  write(inputs_[0]);
  results_.FindWritten(effects);
  EXPECT_EQ(fault_.reason(), SentenceOf(Refusal::kWritesArgument));
}

}  // namespace
}  // namespace reprise::bindings
