// Proves that work runs in the modes that it is given, and leaves none behind.

#include "bindings/torch/runtime/thread_modes.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

namespace reprise::bindings {
namespace {

class ThreadModesTest : public ::testing::Test {
 protected:
  ~ThreadModesTest() override {
    at::globalContext().setFlushDenormal(false);
    at::set_num_threads(threads_);
    at::GradMode::set_enabled(true);
  }

  const int threads_ = at::get_num_threads();
};

TEST_F(ThreadModesTest, AreThoseThatTheProgramSets) {
  const ThreadModes before = ThreadModes::Now();
  const uint32_t bits = ControlBits();
  EXPECT_EQ(ThreadModes::Now(), before);
  ASSERT_TRUE(at::globalContext().setFlushDenormal(true));
  EXPECT_NE(ThreadModes::Now(), before);
  EXPECT_NE(ControlBits(), bits);
  EXPECT_LT(ControlBits(), 16u);
  at::globalContext().setFlushDenormal(false);
  at::set_num_threads(threads_ + 2);
  EXPECT_NE(ThreadModes::Now(), before);
  at::set_num_threads(threads_);
  {
    const at::NoGradGuard none;
    EXPECT_NE(ThreadModes::Now(), before);
  }
  EXPECT_EQ(ThreadModes::Now(), before);
}

TEST_F(ThreadModesTest, HoldWhileTheGuardLives) {
  const ThreadModes plain = ThreadModes::Now();
  const auto tiny = at::full({4}, 1e-39);
  ASSERT_TRUE(at::globalContext().setFlushDenormal(true));
  at::set_num_threads(threads_ + 2);
  at::GradMode::set_enabled(false);
  const ThreadModes other = ThreadModes::Now();
  {
    const ThreadModesGuard guard(plain);
    EXPECT_EQ(ThreadModes::Now(), plain);
    EXPECT_GT((tiny * 0.5).max().item<float>(), 0);
  }
  EXPECT_EQ(ThreadModes::Now(), other);
  EXPECT_EQ((tiny * 0.5).max().item<float>(), 0);
}

}  // namespace
}  // namespace reprise::bindings
