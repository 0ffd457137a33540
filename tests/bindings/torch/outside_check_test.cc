// Tensors from outside, and what a callable has done to them.

#include "bindings/torch/region/outside_check.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <vector>

namespace reprise::bindings {
namespace {

class OutsideCheckTest : public testing::Test {
 protected:
  OutsideCheckTest() {
    watched_.emplace(seen_.unsafeGetTensorImpl(), TensorBefore::Of(seen_));
    names_.AddInput(inputs_[0], 0);
    names_.RegisterOf(weight_);
  }

  TapeRecord record_;
  TapeFault fault_;
  LeafGradients gradients_;
  WatchedBefore watched_;
  TapeNames names_{record_, fault_, gradients_, watched_};
  const BackwardInside backward_;
  std::vector<at::Tensor> inputs_ = {at::randn({3})};
  at::Tensor weight_ = at::randn({4});
  at::Tensor seen_ = at::randn({5});
  OutsideCheck check_{record_, fault_, names_, gradients_, inputs_};
};

TEST_F(OutsideCheckTest, WhatStaysAsItWasIsInOrder) {
  weight_.add_(1);  // by a call
  EXPECT_FALSE(check_.CheckRegisters(backward_));
  check_.CheckWatched(std::vector<at::Tensor>{seen_}, watched_);
  EXPECT_FALSE(fault_.refused()) << fault_.reason();
  EXPECT_TRUE(record_.watched.Has(seen_.unsafeGetTensorImpl()));
  EXPECT_FALSE(record_.watched.Has(weight_.unsafeGetTensorImpl()));
}

TEST_F(OutsideCheckTest, OtherMemoryIsRefused) {
  weight_.set_data(at::randn({4}));
  check_.CheckRegisters(backward_);
  EXPECT_EQ(fault_.reason(), SentenceOf(Refusal::kOutsideOtherForm));
}

TEST_F(OutsideCheckTest, HooksAreRefused) {
  weight_.requires_grad_();
  names_.NoteHistory(1, weight_);
  weight_.register_hook([](const at::Tensor& gradient) { return gradient; });
  check_.CheckRegisters(backward_);
  EXPECT_EQ(fault_.reason(), SentenceOf(Refusal::kOutsideHooks));
}

TEST_F(OutsideCheckTest, AHistoryIsTrackedAtAnotherLevel) {
  const at::Tensor leaf = at::randn({3}).requires_grad_();
  inputs_[0].mul_(leaf);
  EXPECT_TRUE(check_.CheckRegisters(backward_));
  EXPECT_FALSE(fault_.refused());
  record_.pass = TapePass::kForward;
  EXPECT_FALSE(check_.CheckRegisters(backward_));
  EXPECT_EQ(fault_.reason(), SentenceOf(Refusal::kOutsideOtherHistory));
}

TEST_F(OutsideCheckTest, AnArgumentInMemoryFromOutsideIsRefused) {
  names_.RegisterOf(inputs_[0].slice(0, 0, 2));
  check_.CheckRegisters(backward_);
  EXPECT_EQ(fault_.reason(), SentenceOf(Refusal::kOutsideSharesMemory));
}

TEST_F(OutsideCheckTest, AGradientThatIsGivenAHistoryIsTrackedToo) {
  at::Tensor leaf = at::zeros({3}).requires_grad_();
  leaf.mutable_grad() = at::ones({3});
  gradients_.Add(leaf);
  names_.RegisterOf(leaf.grad());
  EXPECT_FALSE(check_.CheckRegisters(backward_));
  leaf.mutable_grad().mul_(at::randn({3}).requires_grad_());
  EXPECT_TRUE(check_.CheckRegisters(backward_));
  EXPECT_FALSE(fault_.refused()) << fault_.reason();
}

TEST_F(OutsideCheckTest, WatchedTensorsKeepTheirForm) {
  seen_.set_data(at::randn({6}));
  check_.CheckWatched(std::vector<at::Tensor>{seen_}, watched_);
  EXPECT_EQ(fault_.reason(), SentenceOf(Refusal::kWatchedChanged));
}

TEST_F(OutsideCheckTest, WatchedTensorsKeepTheirMemory) {
  seen_.set_data(at::randn({5}));
  check_.CheckWatched(std::vector<at::Tensor>{seen_}, watched_);
  EXPECT_EQ(fault_.reason(), SentenceOf(Refusal::kOutsideOtherForm));
}

TEST_F(OutsideCheckTest, MemoryAtTheSameAddressIsAnother) {
  for (int i = 0; i < 4; ++i) seen_.set_data(at::randn({5}));
  check_.CheckWatched(std::vector<at::Tensor>{seen_}, watched_);
  EXPECT_EQ(fault_.reason(), SentenceOf(Refusal::kOutsideOtherForm));
}

TEST_F(OutsideCheckTest, WatchedRegistersKeepTheirMemory) {
  seen_.set_data(at::randn({5}));
  names_.RegisterOf(seen_);  // a call uses it behind that
  check_.CheckWatched(std::vector<at::Tensor>{seen_}, watched_);
  EXPECT_EQ(fault_.reason(), SentenceOf(Refusal::kOutsideOtherForm));
}

TEST_F(OutsideCheckTest, ABackwardPassReadsWhatWasSaved) {
  TapeRecord record;
  TapeNames names(record, fault_, gradients_, watched_);
  OutsideCheck check(record, fault_, names, gradients_, inputs_);
  names.AddInput(inputs_[0], 0);
  names.RegisterOf(at::zeros({}));  // a formula's number
  check.CheckBackwardReads();
  EXPECT_FALSE(fault_.refused());
  names.RegisterOf(at::zeros({2}));
  check.CheckBackwardReads();
  EXPECT_EQ(fault_.reason(), SentenceOf(Refusal::kReadsUnsaved));
}

}  // namespace
}  // namespace reprise::bindings
