// Whose calls are seen, and what the program does besides.

#include "bindings/torch/region/tape_recorder.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace reprise::bindings {
namespace {

using Tensors = std::vector<at::Tensor>;

TEST(TapeRecorderTest, OneRecordsAtATime) {
  const std::unique_ptr<TapeRecorder> first = TapeRecorder::Begin({});
  ASSERT_NE(first, nullptr);
  EXPECT_TRUE(TapeRecorder::RecordsHere());
  EXPECT_EQ(TapeRecorder::Begin({}), nullptr);
  EXPECT_TRUE(TapeRecorder::RecordsHere());
  TapeRecorder::NoteOutside("something");
  const auto outcome = first->End({}, {});
  EXPECT_EQ(outcome.tape, nullptr);
  EXPECT_EQ(outcome.reason, "something");
  EXPECT_FALSE(TapeRecorder::RecordsHere());
  EXPECT_NE(TapeRecorder::Begin({}), nullptr);  // and ends with its pointer
  EXPECT_FALSE(TapeRecorder::RecordsHere());
}

TEST(TapeRecorderTest, SeesCallsOfItsThread) {
  const at::NoGradGuard no_grad;
  const at::Tensor x = at::randn({3});
  auto recorder = TapeRecorder::Begin({.inputs = {x}});
  std::thread([&] {
    EXPECT_FALSE(TapeRecorder::RecordsHere());
    TapeRecorder::NoteOutside("another thread's");
    (void)x.cos();
  }).join();
  const at::Tensor sin = x.sin();
  const auto outcome = recorder->End(Tensors{sin}, {});
  ASSERT_NE(outcome.tape, nullptr) << outcome.reason;
  EXPECT_EQ(outcome.tape->calls(), 1u);
}

TEST(TapeRecorderTest, WhatAPausedFunctionCallsIsNotSeen) {
  const at::NoGradGuard no_grad;
  const at::Tensor x = at::randn({3});
  auto recorder = TapeRecorder::Begin({.inputs = {x}});
  EXPECT_EQ(TapeRecorder::Pause(), "");
  EXPECT_FALSE(TapeRecorder::RecordsHere());
  (void)x.cos();
  TapeRecorder::Resume({}, {}, "why not");
  EXPECT_TRUE(TapeRecorder::RecordsHere());
  const auto outcome = recorder->End(Tensors{x}, {});
  EXPECT_EQ(outcome.reason, "why not");
  EXPECT_EQ(TapeRecorder::Pause(), std::nullopt) << "nobody records";
}

TEST(TapeRecorderTest, AnErrorOfAnOperatorIsRefused) {
  const at::NoGradGuard no_grad;
  const at::Tensor x = -at::eye(3);
  auto recorder = TapeRecorder::Begin({.inputs = {x}});
  EXPECT_ANY_THROW((void)at::linalg_cholesky(x));
  const auto outcome = recorder->End(Tensors{x}, {});
  EXPECT_EQ(outcome.tape, nullptr);
  EXPECT_NE(outcome.reason.find("raised an error"), std::string::npos);
}

}  // namespace
}  // namespace reprise::bindings
