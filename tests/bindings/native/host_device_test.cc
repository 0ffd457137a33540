// A host runtime refuses what a device refuses, with the same sentences, and
// what a function throws is an error.

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "bindings/native/device.h"
#include "bindings/native/reprise.h"
#include "bindings/native/runtime_core.h"
#include "bindings/native/stream_core.h"
#include "tests/bindings/native/simulated_runtime.h"
#include "tests/sim/simulated_gpu.h"

namespace reprise::native {
namespace {

using Set = void(float*);

std::string Why(const Status& status) {
  return status ? "" : status.error().message();
}

// The same runtime on the host and on a simulated device of the same limits.
enum class Where : uint8_t { kHost, kDevice };

class AdmissionTest : public testing::TestWithParam<Where> {
 protected:
  AdmissionTest() {
    std::shared_ptr<engine::KernelCode> code;
    if (GetParam() == Where::kHost) {
      runtime_ = RuntimeOn(MakeHostDevice());
      stream_ = std::make_shared<StreamCore>(runtime_, nullptr, false);
      code = HostCode(*runtime_);
    } else {
      runtime_ = RuntimeOn(MakeCudaDevice(gpu_.driver, gpu_.context,
                                          engine::LaunchLimits::OfHost()));
      stream_ = std::make_shared<StreamCore>(runtime_, gpu_.stream, false);
      code = CodeOf(gpu_, "set", set_);
    }
    kernel_.emplace(std::move(code));
  }

  std::shared_ptr<engine::KernelCode> HostCode(RuntimeCore& runtime) {
    auto code = std::make_shared<engine::KernelCode>(
        "set", std::vector<device::ParamSpan>{{0, 8}});
    code->FinishHost(
        runtime.device().context().context,
        [this](const LaunchConfig&, const std::byte*) { value_ = 1; });
    return code;
  }

  // What is wrong with the second of two launches, by itself and in a plan.
  std::string Of(const LaunchConfig& config, bool prepare = false) {
    Batch batch(stream_);
    batch.Launch(*kernel_, {}, &value_);
    batch.Launch(*kernel_, config, &value_);
    value_ = 0;
    std::string why;
    if (prepare) {
      const auto plan = batch.Prepare();
      if (!plan) why = plan.error().message();
    } else {
      why = Why(batch.Submit());
    }
    if (!why.empty()) {
      EXPECT_EQ(value_, 0) << "launched before it was checked";
    }
    return why;
  }

  sim::SimulatedGpu gpu_;
  sim::SimulatedGpu::Kernel set_ =
      sim::SimulatedGpu::MakeKernel(+[](float* to) { *to = 1; });
  std::shared_ptr<RuntimeCore> runtime_;
  std::shared_ptr<StreamCore> stream_;
  std::optional<Kernel<Set>> kernel_;
  float value_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Everywhere, AdmissionTest,
                         testing::Values(Where::kHost, Where::kDevice));

TEST_P(AdmissionTest, LaunchesBeyondTheLimitsAreRefused) {
  struct Row {
    LaunchConfig config;
    const char* why;
  };
  const Row rows[] = {
      {{.block = {2048}},
       "a block of 2048 in direction 0, the device takes 1024: give more "
       "blocks of fewer threads"},
      {{.block = {1, 1, 65}},
       "a block of 65 in direction 2, the device takes 64: give more blocks of "
       "fewer threads"},
      {{.block = {1024, 2}},
       "a block of 2048 threads, the device takes 1024: give more blocks of "
       "fewer threads"},
      {{.grid = {1, 70'000}},
       "a grid of 70000 in direction 1, the device takes 65535: direction 0 "
       "takes more"},
      {{.grid = {1u << 31}},
       "a grid of 2147483648 in direction 0, the device takes 2147483647"},
      {{.shared_bytes = 1 << 20},
       "1048576 bytes of dynamic shared memory beside 0 of the kernel's own, "
       "the device has 232448 for a block"},
      {{.priority = 1}, "a priority of 1, the device takes -5 to 0"},
      {{.priority = -6}, "a priority of -6, the device takes -5 to 0"},
  };
  for (const Row& row : rows) {
    const std::string sentence =
        std::string("launch 1 (kernel 'set'): ") + row.why;
    EXPECT_EQ(Of(row.config), sentence);
    EXPECT_EQ(Of(row.config, /*prepare=*/true), sentence);
  }
}

TEST_P(AdmissionTest, LaunchesAtTheLimitsAreTaken) {
  for (const LaunchConfig& config :
       {LaunchConfig{.block = {1024}}, LaunchConfig{.block = {16, 1, 64}},
        LaunchConfig{.shared_bytes = 227 << 10}, LaunchConfig{.priority = -5},
        LaunchConfig{.grid = {8}, .cluster = {8}},
        LaunchConfig{.grid = {16}, .cooperative = true},
        LaunchConfig{.programmatic = true}}) {
    EXPECT_EQ(Of(config), "");
    EXPECT_EQ(value_, 1);
  }
}

TEST_P(AdmissionTest, KernelOfAnotherDeviceIsRefused) {
  const auto other = RuntimeOn(MakeHostDevice());
  const Kernel<Set> others(HostCode(*other));
  Batch batch(stream_);
  batch.Launch(others, {}, &value_);
  const std::string why = Why(batch.Submit());
  EXPECT_EQ(why.find("launch 0 (kernel 'set') is "), 0u) << why;
  EXPECT_EQ(value_, 0);
}

// What the driver says of a kernel on a device, the host says of itself.
class HostDeviceTest : public testing::Test {
 protected:
  HostDeviceTest() {
    set_.emplace(*runtime_.HostKernel<Set>(
        "set", [this](const LaunchConfig&, float* to) {
          if (throws_) throw std::runtime_error("no such cell");
          if (throws_number_) throw 3;
          *to += 1;
        }));
  }

  Batch Two(const LaunchConfig& config = {}) {
    Batch batch = stream_.BeginBatch();
    for (int i = 0; i < 2; ++i) batch.Launch(*set_, config, &value_);
    return batch;
  }

  const Runtime runtime_ =
      *Runtime::Create({.device = RuntimeOptions::kHost, .build_after = 1});
  const Stream stream_ = *runtime_.CreateStream();
  std::optional<Kernel<Set>> set_;
  float value_ = 0;
  bool throws_ = false;
  bool throws_number_ = false;
};

TEST_F(HostDeviceTest, ClustersAndCooperativeGridsMustFit) {
  EXPECT_EQ(Why(Two({.grid = {32}, .cluster = {32}}).Submit()),
            "launch 0 (kernel 'set'): clusters of 32 blocks, of which the "
            "device can hold none");
  EXPECT_EQ(Why(Two({.grid = {16}, .cluster = {16}}).Submit()), "");
  EXPECT_EQ(
      Why(Two({.grid = {265}, .block = {1024}, .cooperative = true}).Submit()),
      "launch 0 (kernel 'set'): a cooperative grid of 265 blocks, of which the "
      "device can hold 264 at a time");
  EXPECT_EQ(
      Why(Two({.grid = {264}, .block = {1024}, .cooperative = true}).Submit()),
      "");
  EXPECT_EQ(
      Why(Two({.grid = {133}, .shared_bytes = 200 << 10, .cooperative = true})
              .Submit()),
      "launch 0 (kernel 'set'): a cooperative grid of 133 blocks, of which the "
      "device can hold 132 at a time");
}

TEST_F(HostDeviceTest, KernelOfAnotherRuntimeIsRefused) {
  const Runtime other = *Runtime::Create({.device = RuntimeOptions::kHost});
  Batch batch = other.CreateStream()->BeginBatch();
  batch.Launch(*set_, {}, &value_);
  EXPECT_EQ(Why(batch.Submit()),
            "launch 0 (kernel 'set') is of another runtime's device or context "
            "than the stream: make it with the stream's runtime");
  EXPECT_EQ(value_, 0);
}

TEST_F(HostDeviceTest, CopiesToAndFromNullAreRefused) {
  std::array<double, 2> host{};
  EXPECT_EQ(
      Why(stream_.CopyToDevice(static_cast<double*>(nullptr), host.data(), 2)),
      "cannot copy 2 elements of 8 bytes to a null pointer");
  EXPECT_EQ(Why(stream_.CopyToHost(host.data(),
                                   static_cast<const double*>(nullptr), 2)),
            "cannot copy 2 elements of 8 bytes from a null pointer");
  // An empty buffer's address, of which nothing is copied.
  EXPECT_EQ(
      Why(stream_.CopyToDevice(static_cast<double*>(nullptr), host.data(), 0)),
      "");
}

TEST_F(HostDeviceTest, WhatAKernelThrowsIsAnError) {
  const std::string sentence =
      "kernel 'set': the function threw 'no such cell'";
  throws_ = true;
  const Status submitted = Two().Submit();
  EXPECT_EQ(Why(submitted), sentence);
  EXPECT_EQ(submitted.error().code(), Code::kInternal);
  auto plan = Two().Prepare();
  ASSERT_TRUE(plan);
  EXPECT_EQ(Why(plan->Launch()), sentence);
  stream_.WaitForBuilds();
  EXPECT_EQ(Why(Two().Submit()), sentence);

  throws_ = false;
  throws_number_ = true;
  EXPECT_EQ(Why(Two().Submit()),
            "kernel 'set': the function threw what is no std::exception");

  // The stream and the plan are as they were.
  throws_number_ = false;
  value_ = 0;
  EXPECT_EQ(Why(Two().Submit()), "");
  EXPECT_EQ(Why(plan->Launch()), "");
  EXPECT_EQ(value_, 4);
  EXPECT_GT(stream_.stats().replayed, 0u);
}

TEST_F(HostDeviceTest, WhatCapturedWorkThrowsIsAnError) {
  const auto batch = [this] {
    Batch made = stream_.BeginBatch();
    made.Capture([this](CUstream_st*) {
      if (throws_) throw std::runtime_error("library fell over");
      value_ = 7;
    });
    return made;
  };
  throws_ = true;
  EXPECT_EQ(Why(batch().Submit()), "the function threw 'library fell over'");
  auto plan = batch().Prepare();
  ASSERT_TRUE(plan);
  EXPECT_EQ(Why(plan->Launch()), "the function threw 'library fell over'");
  throws_ = false;
  EXPECT_EQ(Why(plan->Launch()), "");
  EXPECT_EQ(value_, 7);
}

// The capture ends, so that the stream that was captured can go.
TEST(ThrowingCaptureTest, EndsTheCapture) {
  sim::SimulatedGpu gpu;
  {
    const auto runtime = RuntimeOn(MakeCudaDevice(gpu.driver, gpu.context));
    const auto stream =
        std::make_shared<StreamCore>(runtime, gpu.stream, false);
    Batch batch(stream);
    batch.Capture([](CUstream_st*) { throw std::runtime_error("no"); });
    const auto plan = batch.Prepare();
    ASSERT_FALSE(plan);
    EXPECT_EQ(plan.error().message(), "captured work: the function threw 'no'");
  }
  EXPECT_EQ(gpu.objects(), 0u);
}

}  // namespace
}  // namespace reprise::native
