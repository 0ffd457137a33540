// All threads find the runtime that was published as active.

#include "bindings/torch/runtime/torch_runtime.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "bindings/torch/runtime/op_table.h"
#include "bindings/torch/runtime/runtime_epoch.h"
#include "bindings/torch/runtime/torch_frontend.h"

namespace reprise::bindings {
namespace {

using scheduler::DeviceKind;

class TorchRuntimeTest : public ::testing::Test {
 protected:
  TorchRuntimeTest() {
    auto scheduler = scheduler::Runtime::Create(
        {DeviceKind::kHost}, options_, [](const scheduler::StreamKey& key) {
          return MakeFrontend(key, &OpName);
        });
    EXPECT_TRUE(scheduler.has_value());
    runtime_.emplace(7, scheduler::Devices{DeviceKind::kHost}, options_,
                     *std::move(scheduler));
  }
  ~TorchRuntimeTest() override {
    TorchRuntime::PublishActive(nullptr);
    TorchRuntime::PublishLatest(nullptr);
  }

  base::Options options_ = [] {
    base::Options options;
    options.margin = 0.25;
    return options;
  }();
  std::optional<TorchRuntime> runtime_;
};

TEST_F(TorchRuntimeTest, NoneIsActiveAtFirst) {
  EXPECT_EQ(TorchRuntime::Active(), nullptr);
  EXPECT_EQ(TorchRuntime::Latest(), nullptr);
  EXPECT_FALSE(TorchRuntime::Forked());
}

TEST_F(TorchRuntimeTest, ThreadsFindTheActiveOneAndThatItHasChanged) {
  const uint64_t activations = g_activations.load();
  const uint64_t epoch = g_runtime_epoch.load();
  TorchRuntime::PublishActive(&*runtime_);
  EXPECT_EQ(g_activations.load(), activations + 1);
  EXPECT_NE(g_runtime_epoch.load(), epoch);
  std::thread([this] { EXPECT_EQ(TorchRuntime::Active(), &*runtime_); }).join();
  TorchRuntime::PublishActive(nullptr);
  EXPECT_EQ(TorchRuntime::Active(), nullptr);
  EXPECT_EQ(g_activations.load(), activations + 2);
}

TEST_F(TorchRuntimeTest, TheLatestStaysWhenNoneIsActive) {
  const uint64_t activations = g_activations.load();
  TorchRuntime::PublishLatest(&*runtime_);
  TorchRuntime::PublishActive(nullptr);
  EXPECT_EQ(TorchRuntime::Latest(), &*runtime_);
  EXPECT_EQ(g_activations.load(), activations + 1) << "of the second alone";
}

TEST_F(TorchRuntimeTest, HasItsOptionsAndItsSessions) {
  EXPECT_EQ(runtime_->id(), 7);
  EXPECT_EQ(runtime_->kind(), DeviceKind::kHost);
  EXPECT_EQ(runtime_->options(), options_);
  const c10::Device host(c10::kCPU);
  scheduler::Session* const session = runtime_->SessionFor(host, nullptr);
  ASSERT_NE(session, nullptr);
  EXPECT_EQ(runtime_->SessionFor(host, nullptr), session);
  EXPECT_EQ(runtime_->scheduler().SessionFor({DeviceKind::kHost, 0, nullptr}),
            session);
}

}  // namespace
}  // namespace reprise::bindings
