// Proves how parameters lie side by side, what a kernel's handle waits for and
// tells, and that variables of its source are found by the names that they have
// there, in real code on a simulated driver.

#include "bindings/native/kernel.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bindings/native/kernel_request.h"
#include "bindings/native/reprise.h"
#include "bindings/native/runtime_core.h"
#include "bindings/native/stream_core.h"
#include "engine/batch/compile_service.h"
#include "engine/batch/kernel_code.h"
#include "tests/bindings/native/simulated_runtime.h"
#include "tests/kernels/nvrtc_fixture.h"
#include "tests/sim/simulated_gpu.h"
#include "tests/sim/simulated_libraries.h"

namespace reprise::native {
namespace {

using One = void(float*);

constexpr char kSource[] = R"(
__constant__ float table[5];
__device__ double total;
namespace space { namespace inner { __constant__ int3 shape; } }
template <typename T> __device__ T slots[2];
__device__ int unused[7];
extern "C" __global__ void use(float* p) {
  *p = table[1] + float(total) + float(space::inner::shape.x);
}
extern "C" __global__ void other(float* p) { *p = table[2]; }
)";

class KernelVariablesTest : public kernels::NvrtcFixture {
 protected:
  KernelVariablesTest() {
    libraries_.host_code = {
        {"use", sim::SimulatedGpu::MakeKernel(+[](float*) {})},
        {"other", sim::SimulatedGpu::MakeKernel(+[](float*) {})}};
  }

  Kernel<One> Compile(std::string name,
                      std::vector<std::string> instances = {}) {
    return Compile(KernelSource{.source = kSource,
                                .name = std::move(name),
                                .instances = std::move(instances)});
  }
  Kernel<One> Compile(const KernelSource& source) {
    return Kernel<One>(core_->compile_service().Compile(RequestOf(source),
                                                        source.name, {{0, 8}}));
  }
  template <typename T>
  static std::string Fault(const Kernel<One>& kernel, const std::string& name) {
    const auto variable = kernel.Variable<T>(name);
    if (variable) return "none";
    EXPECT_EQ(variable.error().code(), Code::kInvalidArgument);
    return variable.error().message();
  }

  sim::SimulatedGpu gpu_;
  sim::SimulatedLibraries libraries_{gpu_};
  std::shared_ptr<RuntimeCore> core_ =
      RuntimeOn(MakeCudaDevice(gpu_.driver, gpu_.context));
  Stream stream_{std::make_shared<StreamCore>(core_, gpu_.stream, false)};
};

TEST_F(KernelVariablesTest, EveryKindOfNameFindsItsVariable) {
  const Kernel<One> use =
      Compile("use", {"&slots<float>", "&unused", "&slots<double>"});
  const auto size = [&](const std::string& name) {
    const auto variable = use.Variable<std::byte>(name);
    EXPECT_TRUE(variable) << variable.error().message();
    return variable ? variable->size() : 0;
  };
  EXPECT_EQ(size("table"), 20u);
  EXPECT_EQ(size("total"), 8u);
  EXPECT_EQ(size("space::inner::shape"), 12u);
  EXPECT_EQ(size("_ZN5space5inner5shapeE"), 12u);
  EXPECT_EQ(size("slots<float>"), 8u);
  EXPECT_EQ(size("slots<double>"), 16u);
  EXPECT_EQ(size("unused"), 28u);
  EXPECT_EQ(use.Variable<float>("table")->size(), 5u);
}

TEST_F(KernelVariablesTest, KernelsOfOneSourceShareThem) {
  std::optional use = Compile("use");
  const Kernel<One> other = Compile("other");
  const std::span<float> table = *use->Variable<float>("table");
  EXPECT_EQ(table.data(), other.Variable<float>("table")->data());
  const std::array<float, 5> values{1, 2, 3, 4, 5};
  ASSERT_TRUE(stream_.CopyToDevice(table, values));
  use.reset();
  std::array<float, 5> back{};
  ASSERT_TRUE(stream_.CopyToHost(back, *other.Variable<float>("table")));
  EXPECT_EQ(back, values);
}

TEST_F(KernelVariablesTest, WhatIsNotThereIsTold) {
  const Kernel<One> use = Compile("use");
  EXPECT_EQ(Fault<float>(use, "tabel"),
            "kernel 'use': the source has no variable 'tabel': it is a "
            "__device__ or __constant__ one that is not static; one that no "
            "kernel uses, or of a template, is named in "
            "KernelSource::instances, as in \"&tabel\"");
  EXPECT_EQ(Fault<double>(use, "table"),
            "variable 'table' has 20 bytes, which elements of 8 do not fill");
  const Kernel<One> broken =
      Compile(KernelSource{.source = "no source", .name = "use"});
  EXPECT_NE(Fault<float>(broken, "table").find("kernel.cu(1)"),
            std::string::npos);
  const sim::SimulatedGpu::Kernel set =
      sim::SimulatedGpu::MakeKernel(+[](float*) {});
  EXPECT_EQ(Fault<float>(Kernel<One>(CodeOf(gpu_, "set", set)), "table"),
            "kernel 'set' was adopted: ask what it is of for variable 'table' "
            "(cuLibraryGetGlobal, cuModuleGetGlobal)");
}

TEST_F(KernelVariablesTest, WarningsOfTheCompilerAreTheLog) {
  const Kernel<One> use = Compile(KernelSource{
      .source = "extern \"C\" __global__ void use(float* p) {\n  int x;\n}",
      .name = "use"});
  const auto log = use.Log();
  ASSERT_TRUE(log) << log.error().message();
  EXPECT_NE(log->find("kernel.cu(2): warning"), std::string::npos) << *log;
}

TEST(ParamImageTest, EachParameterIsAtAMultipleOfItsAlignment) {
  EXPECT_EQ((ParamImage<float, const float*, float*, int>::kOffsets),
            (std::array<uint32_t, 4>{0, 8, 16, 24}));
  EXPECT_EQ((ParamImage<char, short, char, double>::kOffsets),
            (std::array<uint32_t, 4>{0, 2, 4, 8}));
  EXPECT_EQ((ParamImage<double, char>::kBytes), 9u);
  EXPECT_EQ(ParamImage<>::kBytes, 0u);
  EXPECT_TRUE((ParamImage<const float*, float>::kDense));
  EXPECT_FALSE((ParamImage<float, const float*>::kDense));
}

TEST(ParamImageTest, AFunctionOfTheHostGetsWhatTheImageHolds) {
  using Image = ParamImage<char, double, short>;
  std::array<std::byte, Image::kBytes> image{};
  const char first = 'a';
  const double second = 2.5;
  const short third = -3;
  std::memcpy(image.data() + Image::kOffsets[0], &first, sizeof first);
  std::memcpy(image.data() + Image::kOffsets[1], &second, sizeof second);
  std::memcpy(image.data() + Image::kOffsets[2], &third, sizeof third);
  bool called = false;
  CallWithImage<char, double, short>(
      [&](const LaunchConfig& config, char a, double b, short c) {
        called = true;
        EXPECT_EQ(config.grid.x, 7u);
        EXPECT_EQ(a, first);
        EXPECT_EQ(b, second);
        EXPECT_EQ(c, third);
      },
      LaunchConfig{.grid = {7}}, image.data(),
      std::index_sequence_for<char, double, short>());
  EXPECT_TRUE(called);
}

TEST(KernelTest, ItTellsWhatItsCodeCameTo) {
  const auto code = std::make_shared<engine::KernelCode>(
      "set", std::vector<device::ParamSpan>{{0, 8}});
  const Kernel<One> kernel(code);
  code->Fail(Error(Code::kUnavailable, "no compiler"));
  const Kernel<One> copy = kernel;
  EXPECT_EQ(copy.Wait().error().message(), "no compiler");
  EXPECT_EQ(copy.Log().error().message(), "no compiler");
  EXPECT_EQ(copy.Variable<float>("table").error().message(), "no compiler");
}

TEST(HostKernelVariablesTest, FunctionsOfTheHostHaveNone) {
  const Runtime runtime = *Runtime::Create({.device = RuntimeOptions::kHost});
  const auto kernel =
      *runtime.HostKernel<One>("set", [](const LaunchConfig&, float*) {});
  const auto variable = kernel.Variable<float>("table");
  ASSERT_FALSE(variable);
  EXPECT_EQ(variable.error().code(), Code::kUnavailable);
  EXPECT_EQ(variable.error().message(),
            "kernel 'set' is a function of the host, which has no variable "
            "'table' on a device: let the function capture it");
}

}  // namespace
}  // namespace reprise::native
