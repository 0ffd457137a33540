// Kernels without types: arguments reach them as bytes, and their number and
// sizes are checked before anything is launched.

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "bindings/native/device.h"
#include "bindings/native/reprise.h"
#include "bindings/native/runtime_core.h"
#include "bindings/native/stream_core.h"
#include "engine/device/kernel_params.h"
#include "tests/bindings/native/simulated_runtime.h"
#include "tests/sim/simulated_gpu.h"

namespace reprise::native {
namespace {

void Scale(double* to, char times, double by) {
  for (char i = 0; i < times; ++i) *to = *to * by + 1;
}

std::string Why(Status status) {
  return status ? std::string() : status.error().message();
}

class AnyKernelTest : public testing::Test {
 protected:
  void SetUp() override {
    runtime_ = RuntimeOn(MakeCudaDevice(gpu_.driver, gpu_.context));
    stream_ = std::make_shared<StreamCore>(runtime_, gpu_.stream, false);
    kernel_.emplace(Adopted(scale_));
  }

  // As Runtime::AdoptKernel does it.
  AnyKernel Adopted(sim::SimulatedGpu::Kernel& kernel) {
    const auto handle = reinterpret_cast<CUfunction>(&kernel);
    auto params = runtime_->device().ParamsOf(handle);
    EXPECT_TRUE(params) << params.error().message();
    auto code = std::make_shared<engine::KernelCode>("scale", *params);
    runtime_->device().Adopt(handle, *code);
    EXPECT_TRUE(code->ready());
    return AnyKernel(std::move(code));
  }

  sim::SimulatedGpu gpu_;
  sim::SimulatedGpu::Kernel scale_ = sim::SimulatedGpu::MakeKernel(&Scale);
  sim::SimulatedGpu::Kernel nothing_ = sim::SimulatedGpu::MakeKernel(+[] {});
  std::shared_ptr<RuntimeCore> runtime_;
  std::shared_ptr<StreamCore> stream_;
  std::optional<AnyKernel> kernel_;
  double value_ = 1;
};

TEST_F(AnyKernelTest, ParametersAreThoseThatTheDriverKnows) {
  ASSERT_EQ(kernel_->parameters(), 3u);
  EXPECT_EQ(kernel_->size_bytes(0), sizeof(double*));
  EXPECT_EQ(kernel_->size_bytes(1), 1u);
  EXPECT_EQ(kernel_->size_bytes(2), sizeof(double));
  EXPECT_EQ(Adopted(nothing_).parameters(), 0u);
}

TEST_F(AnyKernelTest, RepeatedBatchIsReplayedWithItsOwnArguments) {
  double expected = 1;
  for (int call = 0; call < 6; ++call) {
    double* const to = &value_;
    const char times = static_cast<char>(1 + call % 3);
    const double by = 0.5 * call;
    Batch batch(stream_);
    for (int i = 0; i < 2; ++i) {
      const std::array arguments{Argument(to), Argument(times), Argument(by)};
      batch.Launch(*kernel_, {}, arguments);
      Scale(&expected, times, by);
    }
    ASSERT_EQ(Why(batch.Submit()), "");
    EXPECT_EQ(value_, expected) << "call " << call;
    runtime_->queue().WaitIdle(std::nullopt);
  }
  EXPECT_EQ(stream_->batches().stats().replayed, 4u);
}

TEST_F(AnyKernelTest, NumberAndSizesAreChecked) {
  double* const to = &value_;
  const char times = 1;
  const float by = 0;
  const auto why = [&](std::vector<Argument> arguments) {
    Batch batch(stream_);
    batch.Launch(*kernel_, {}, arguments);
    return Why(batch.Submit());
  };
  EXPECT_EQ(why({Argument(to), Argument(times)}),
            "launch 0 (kernel 'scale') takes 3 arguments, not 2: give one for "
            "each parameter");
  EXPECT_EQ(why({Argument(to), Argument(times), Argument(by)}),
            "launch 0 (kernel 'scale') takes 8 bytes as argument 2, not 4: "
            "give a value of the parameter's type");
  EXPECT_EQ(value_, 1);
}

TEST_F(AnyKernelTest, PlanTakesArgumentsBySize) {
  double* const to = &value_;
  const char times = 1;
  const double by = 2;
  Batch batch(stream_);
  const uint32_t launch = batch.Launch(
      *kernel_, {}, std::array{Argument(to), Argument(times), Argument(by)});
  auto plan = batch.Prepare();
  ASSERT_TRUE(plan);
  ASSERT_TRUE(plan->Set(launch, 2, 10.0));
  EXPECT_EQ(
      Why(plan->Set(launch, 1, 10)),
      "argument 1 of launch 0 (kernel 'scale') has 1 bytes, not 4 as int");
  ASSERT_TRUE(plan->Launch());
  EXPECT_EQ(value_, 11);
}

TEST_F(AnyKernelTest, HandleThatIsNoKernelIsTold) {
  gpu_.driver.cuFuncGetParamInfo = [](CUfunction, size_t, size_t*, size_t*) {
    return CUDA_ERROR_INVALID_HANDLE;
  };
  const auto params =
      ParamsOf(gpu_.driver, reinterpret_cast<CUfunction>(&scale_));
  ASSERT_FALSE(params);
  EXPECT_EQ(params.error().code(), Code::kInvalidArgument);
  EXPECT_EQ(params.error().message().find(
                "the handle is neither a CUfunction nor a CUkernel"),
            0u);
}

TEST(HostAnyKernelTest, FunctionsOfTheHostStandForThem) {
  const Runtime runtime =
      *Runtime::Create({.device = RuntimeOptions::kHost, .build_after = 1});
  const Stream stream = *runtime.CreateStream();
  std::vector<std::pair<char, double>> seen;
  const std::array<size_t, 2> sizes{sizeof(char), sizeof(double)};
  const auto kernel = *runtime.HostKernel(
      "look", sizes,
      [&](const LaunchConfig&, std::span<const Argument> arguments) {
        ASSERT_EQ(arguments.size(), 2u);
        char first = 0;
        double second = 0;
        std::memcpy(&first, arguments[0].data, arguments[0].size_bytes);
        std::memcpy(&second, arguments[1].data, arguments[1].size_bytes);
        seen.emplace_back(first, second);
      });
  for (char call = 0; call < 3; ++call) {
    const double second = 0.25 * call;
    Batch batch = stream.BeginBatch();
    for (int i = 0; i < 2; ++i) {
      batch.Launch(kernel, {}, std::array{Argument(call), Argument(second)});
    }
    ASSERT_TRUE(batch.Submit());
    stream.WaitForBuilds();
    ASSERT_EQ(seen.size(), 2u * (static_cast<size_t>(call) + 1));
    EXPECT_EQ(seen.back(), std::pair(call, second));
  }
  EXPECT_EQ(stream.stats().replayed, 2u);
  int any = 0;
  EXPECT_EQ(runtime.AdoptKernel(&any, "other").error().code(),
            Code::kUnavailable);
  EXPECT_EQ(runtime.AdoptKernel(nullptr, "other").error().message(),
            "the handle of kernel 'other' is null");
}

}  // namespace
}  // namespace reprise::native
