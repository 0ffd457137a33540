// Proves when a kernel is ready, what its parameters are checked against, and
// what its handles are told.

#include "engine/batch/kernel_code.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/kernel_source.h"
#include "kernels/nvrtc.h"
#include "tests/engine/base/manual_task_runner.h"
#include "tests/sim/simulated_gpu.h"
#include "tests/sim/simulated_libraries.h"
#include "tests/sim/simulated_nvrtc.h"

namespace reprise::engine {
namespace {

using base::Code;
using base::Status;
using ::testing::HasSubstr;

class KernelCodeTest : public testing::Test {
 protected:
  static std::shared_ptr<KernelCode> Make(
      std::vector<device::ParamSpan> params = {{0, 8}, {8, 4}},
      std::span<const ParamType> types = {}) {
    return std::make_shared<KernelCode>("raise", std::move(params), types);
  }
  CUfunction Handle() { return reinterpret_cast<CUfunction>(&raise_); }
  std::string WhyNot(std::vector<device::ParamSpan> params) {
    const auto code = Make(std::move(params));
    code->FinishAdopting(gpu_.driver, Handle());
    EXPECT_FALSE(code->ready());
    const Status waited = code->Wait();
    return waited ? "" : waited.error().message();
  }

  sim::SimulatedGpu gpu_;
  sim::SimulatedGpu::Kernel raise_ =
      sim::SimulatedGpu::MakeKernel(+[](float* to, float by) { *to += by; });
};

TEST_F(KernelCodeTest, AnAdoptedHandleIsReadyWhereItsParametersAreThePromised) {
  const auto code = Make();
  EXPECT_FALSE(code->ready());
  code->FinishAdopting(gpu_.driver, Handle());
  EXPECT_TRUE(code->ready());
  EXPECT_TRUE(code->Wait());
  EXPECT_EQ(code->function(), Handle());
  EXPECT_EQ(code->context(), gpu_.context);
  EXPECT_EQ(WhyNot({{0, 8}}), "kernel 'raise' takes 2 parameters, not 1");
  EXPECT_EQ(WhyNot({{0, 8}, {8, 8}}),
            "parameter 1 of kernel 'raise' has 4 bytes at 8, not 8 at 8");
}

TEST_F(KernelCodeTest, AFunctionOfTheHostIsReadyAtOnce) {
  const auto code = Make();
  int called = 0;
  code->FinishHost(gpu_.context,
                   [&](const LaunchConfig&, const std::byte*) { ++called; });
  EXPECT_TRUE(code->Wait());
  EXPECT_EQ(code->context(), gpu_.context);
  code->host()({}, nullptr);
  EXPECT_EQ(called, 1);
}

TEST_F(KernelCodeTest, AFailureIsToldToEveryoneWhoWaits) {
  const auto code = Make();
  code->Fail(base::Error(Code::kUnavailable, "no compiler"));
  EXPECT_FALSE(code->ready());
  for (int i = 0; i < 2; ++i) {
    const Status waited = code->Wait();
    ASSERT_FALSE(waited);
    EXPECT_EQ(waited.error().message(), "no compiler");
  }
  EXPECT_EQ(code->FindVariable("table").error().message(), "no compiler");
}

TEST_F(KernelCodeTest, WhoWaitsGoesOnOnceAnotherThreadHasFinished) {
  const auto code = Make();
  std::thread other([&] { code->FinishHost(gpu_.context, nullptr); });
  EXPECT_TRUE(code->Wait());
  EXPECT_TRUE(code->ready());
  other.join();
}

TEST_F(KernelCodeTest, OnlyCompiledKernelsHaveVariables) {
  const auto host = Make();
  host->FinishHost(gpu_.context, [](const LaunchConfig&, const std::byte*) {});
  const auto of_host = host->FindVariable("table");
  ASSERT_FALSE(of_host);
  EXPECT_EQ(of_host.error().code(), Code::kUnavailable);
  EXPECT_THAT(of_host.error().message(),
              HasSubstr("is a function of the host"));
  const auto adopted = Make();
  adopted->FinishAdopting(gpu_.driver, Handle());
  const auto of_adopted = adopted->FindVariable("table");
  ASSERT_FALSE(of_adopted);
  EXPECT_EQ(of_adopted.error().code(), Code::kInvalidArgument);
  EXPECT_THAT(of_adopted.error().message(), HasSubstr("was adopted"));
}

TEST_F(KernelCodeTest, AParametersSizeIsKnownAndItsTypeWhereItWasTold) {
  EXPECT_EQ(Make()->TypeOf(1).size_bytes, 4u);
  EXPECT_EQ(Make()->TypeOf(1).kind, ParamType::Kind::kUnknown);
  std::string name = "float";
  const ParamType types[] = {ParamType::Of<float*>(),
                             {ParamType::Kind::kOther, false, 4, name}};
  const auto code = Make({{0, 8}, {8, 4}}, types);
  name = "other";  // types may be of a library that is gone
  EXPECT_EQ(code->TypeOf(0).Spelled(), "float*");
  EXPECT_EQ(code->TypeOf(1).name, "float");
}

// Code that a compiler has made, in a driver that runs it on the host.
class CompiledKernelCodeTest : public KernelCodeTest {
 protected:
  CompiledKernelCodeTest() {
    libraries_.host_code["raise"] = raise_;
    code_ = Make();
  }

  void Load(const KernelCode::Check& check = nullptr) {
    const auto source =
        std::make_shared<const kernels::KernelSource>(kernels::KernelSource{
            .source = ".entry raise()", .architecture = "compute_90"});
    auto compilation = compiler_.Compile(*source);
    code_->Load(std::move(compilation), table_, source, check);
  }

  sim::SimulatedNvrtc simulated_nvrtc_;
  const kernels::Nvrtc nvrtc_ =
      *kernels::Nvrtc::Create(simulated_nvrtc_.entries);
  base::ManualTaskRunner runner_;
  kernels::Compiler compiler_{runner_, {.nvrtc = &nvrtc_}};
  sim::SimulatedLibraries libraries_{gpu_};
  const std::shared_ptr<kernels::LibraryTable> table_ =
      std::make_shared<kernels::LibraryTable>(gpu_.driver, gpu_.context);
  std::shared_ptr<KernelCode> code_;
};

TEST_F(CompiledKernelCodeTest, WhoWaitsLoadsWhatNobodyHasBegun) {
  Load();
  EXPECT_FALSE(code_->ready());
  EXPECT_EQ(libraries_.loaded(), 0u);
  const Status waited = code_->Wait();
  ASSERT_TRUE(waited) << waited.error().message();
  EXPECT_EQ(libraries_.loaded(), 1u);
  EXPECT_EQ(code_->source()->architecture, "compute_90");
  EXPECT_FALSE(code_->log().empty());
  code_->RunIfQueued();
  EXPECT_EQ(libraries_.loads, 1);
  code_.reset();
  EXPECT_EQ(libraries_.loaded(), 0u);
}

TEST_F(CompiledKernelCodeTest, WhatTheCheckRefusesIsNotLoaded) {
  Load([](const kernels::CompiledCode&) {
    return base::Fail(Code::kInvalidArgument, "not this one");
  });
  EXPECT_EQ(code_->Wait().error().message(), "not this one");
  EXPECT_EQ(libraries_.loads, 0);
}

TEST_F(CompiledKernelCodeTest, OtherParametersThanThePromisedAreAnError) {
  code_ = Make({{0, 8}});
  Load();
  EXPECT_EQ(code_->Wait().error().message(),
            "kernel 'raise' takes 2 parameters, not 1");
}

}  // namespace
}  // namespace reprise::engine
