// What begins between two calls that are written down is noticed.

#include "bindings/torch/region/tape_surroundings.h"

#include <ATen/ATen.h>
#include <ATen/SavedTensorHooks.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/anomaly_mode.h>

#include <string>
#include <vector>

namespace reprise::bindings {
namespace {

constexpr TapeLevel kBelow = TapeLevel::kBelowAutograd;
constexpr TapeLevel kAbove = TapeLevel::kAboveAutograd;

bool Differs(const TapeSurroundings& surroundings) {
  return surroundings.Difference({}) != nullptr;
}

std::vector<TapeCall> CallsUnder(GradientMode mode) {
  const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("aten::relu", "");
  return {TapeCall{.op = op, .grad_mode = mode}};
}

TEST(TapeSurroundingsTest, InferenceModeIsRoundAllCalls) {
  const TapeSurroundings outside(kBelow, TapePass::kWhole);
  const TapeSurroundings forward(kBelow, TapePass::kForward);
  const TapeSurroundings above(kAbove, TapePass::kWhole);
  const auto before = CallsUnder(GradientMode::kOff);
  const auto within = CallsUnder(GradientMode::kInference);
  EXPECT_EQ(outside.Difference({}), nullptr);
  EXPECT_EQ(outside.Difference(before), nullptr);
  EXPECT_NE(outside.Difference(within), nullptr) << "it has ended";
  const c10::InferenceMode inference;
  EXPECT_EQ(outside.Difference({}), nullptr) << "the first call decides";
  EXPECT_EQ(outside.Difference(within), nullptr);
  EXPECT_NE(outside.Difference(before), nullptr) << "it has begun";
  EXPECT_NE(forward.Difference({}), nullptr);
  EXPECT_EQ(above.Difference({}), nullptr);
  const TapeSurroundings inside(kBelow, TapePass::kWhole);
  EXPECT_EQ(inside.Difference({}), nullptr);
  const c10::InferenceMode ended(false);
  EXPECT_NE(inside.Difference({}), nullptr);
}

TEST(TapeSurroundingsTest, AnomalyDetectionBegins) {
  const TapeSurroundings surroundings(kBelow, TapePass::kForward);
  torch::autograd::AnomalyMode::set_enabled(true, /*check_nan=*/true);
  EXPECT_TRUE(Differs(surroundings));
  torch::autograd::AnomalyMode::set_enabled(false, /*check_nan=*/true);
  EXPECT_FALSE(Differs(surroundings));
}

TEST(TapeSurroundingsTest, AutocastCountsAboveAutograd) {
  const TapeSurroundings below(kBelow, TapePass::kWhole);
  const TapeSurroundings above(kAbove, TapePass::kWhole);
  at::autocast::set_autocast_enabled(at::kCPU, true);
  EXPECT_FALSE(Differs(below)) << "its casts are calls there";
  EXPECT_TRUE(Differs(above));
  at::autocast::set_autocast_enabled(at::kCPU, false);
  EXPECT_FALSE(Differs(above));
}

TEST(TapeSurroundingsTest, SwitchesOfKernelsChange) {
  const TapeSurroundings below(kBelow, TapePass::kWhole);
  at::globalContext().setDeterministicAlgorithms(true, false);
  EXPECT_TRUE(Differs(below));
  at::globalContext().setDeterministicAlgorithms(false, false);
  EXPECT_FALSE(Differs(below));
  const at::AutoGradMode other(!at::GradMode::is_enabled());
  EXPECT_FALSE(Differs(below)) << "each call has its own";
}

TEST(TapeSurroundingsTest, HooksOfSavedTensorsAreCounted) {
  const TapeSurroundings whole(kBelow, TapePass::kWhole);
  const TapeSurroundings forward(kBelow, TapePass::kForward);
  EXPECT_FALSE(whole.had_hooks());
  EXPECT_FALSE(whole.MoreHooks());
  EXPECT_FALSE(forward.OwnHooks()) << "they are set behind it";
  EXPECT_FALSE(TapeSurroundings::HooksAreDisabled());
  at::SavedTensorDefaultHooks::disable("none here");
  EXPECT_TRUE(TapeSurroundings::HooksAreDisabled());
  at::SavedTensorDefaultHooks::enable();
  EXPECT_FALSE(TapeSurroundings::HooksAreDisabled());
}

TEST(TapeSurroundingsTest, TheGeneratorIsSeeded) {
  at::manual_seed(1);
  const TapeSurroundings surroundings(kBelow, TapePass::kWhole);
  EXPECT_TRUE(surroundings.SeedIsKept());
  EXPECT_TRUE(surroundings.OnItsStream());
  (void)at::rand({3});
  EXPECT_TRUE(surroundings.SeedIsKept()) << "draws do not seed it";
  at::manual_seed(2);
  EXPECT_FALSE(surroundings.SeedIsKept());
}

}  // namespace
}  // namespace reprise::bindings
