// Proves that costs are measured once and in the background, and which launches
// get their arguments by a table, with real code on a simulated driver.

#include "scheduler/patch_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bindings/native/device.h"
#include "engine/base/task.h"
#include "engine/batch/compile_service.h"
#include "kernels/compiler.h"
#include "kernels/twin.h"
#include "scheduler/patch_probe.h"
#include "tests/engine/base/manual_task_runner.h"
#include "tests/engine/batch/simulated_kernel.h"
#include "tests/engine/device/table_writer.h"
#include "tests/kernels/nvrtc_fixture.h"
#include "tests/sim/simulated_gpu.h"
#include "tests/sim/simulated_libraries.h"

namespace reprise::scheduler {
namespace {

using base::Patching;
using sim::SimulatedGpu;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kSource[] = R"(
extern "C" __global__ void add(float* to, const float* from, float by) {
  *to = *from + by;
}
)";
constexpr char kCountingSource[] = R"(
__device__ int calls;
extern "C" __global__ void add(float* to, const float* from, float by) {
  *to = *from + by + ++calls;
}
)";

// Names in the code of kernels/table_source.h.
constexpr char kAxpy[] = "_ZN13reprise_table4AxpyEfPKfPfi";
constexpr char kAxpyByTable[] =
    "_ZN13reprise_table11AxpyByTableEPKNS_9ArgumentsE";
std::string WriteOf(uint32_t bytes) {
  return "_ZN13reprise_table5WriteILi" + std::to_string(bytes) +
         "EEEvNS_5ChunkIXT_EEEP5uint4i";
}

class PatchServiceTest : public kernels::NvrtcFixture {
 protected:
  static constexpr uint32_t kImageBytes = 20;  // of add
  static constexpr uint32_t kInTable = 32;     // that takes there

  PatchServiceTest() {
    libraries_.host_code = {
        {"add", SimulatedGpu::MakeKernel(+[](float*, const float*, float) {})},
        {kAxpy,
         SimulatedGpu::MakeKernel(+[](float, const float*, float*, int) {})},
        {kAxpyByTable, SimulatedGpu::MakeKernel(+[](const std::byte*) {})},
        {WriteOf(256), device::TableWriter<256>()},
        {WriteOf(512), device::TableWriter<512>()},
        {WriteOf(16384), device::TableWriter<16384>()}};
  }

  std::shared_ptr<engine::KernelCode> Compile(const std::string& source) {
    auto code =
        compiler_.Compile({.source = source}, "add", {{0, 8}, {8, 8}, {16, 4}});
    const base::Status ready = code->Wait();
    EXPECT_TRUE(ready) << ready.error().message();
    return code;
  }
  // The kernel's twin can be loaded, too.
  void AddTwin(const engine::KernelCode& kernel) {
    const kernels::Twin twin =
        kernels::TwinOf(*kernel.source(), kernel.name(), 1024);
    kernels::Compiler compiler(in_place_);
    const auto code = compiler.Compile(twin.source)->Wait();
    ASSERT_TRUE(code) << code.error().message();
    libraries_.host_code[(*code)->lowered_names.at(twin.name)] =
        SimulatedGpu::MakeKernel(+[](const std::byte*) {});
  }
  static engine::Node NodeOf(const std::shared_ptr<engine::KernelCode>& code) {
    engine::Node node;
    node.kernel = code.get();
    node.image_bytes = kImageBytes;
    return node;
  }

  SimulatedGpu gpu_;
  sim::SimulatedLibraries libraries_{gpu_};
  const std::unique_ptr<native::Device> device_ =
      native::MakeCudaDevice(gpu_.driver, gpu_.context);
  base::InPlaceTaskRunner in_place_;
  engine::CompileService compiler_{*device_, "",
                                   std::make_unique<base::ManualTaskRunner>()};
  base::ManualTaskRunner queue_;
  PatchService service_{device_.get(), &compiler_, &queue_,
                        Patching::kMeasured};
  const SimulatedGpu::Kernel plain_ =
      SimulatedGpu::MakeKernel(+[](float*, const float*, float) {});
  const std::shared_ptr<engine::KernelCode> adopted_ =
      engine::CodeOf(gpu_, "plain", plain_);
};

TEST_F(PatchServiceTest, WhatWasMeasuredBeforeIsToldAtOnce) {
  PatchService service(device_.get(), &compiler_, &queue_, Patching::kTable,
                       PatchMeasurement{.costs = PatchCosts{.set = 7}});
  EXPECT_EQ(service.wanted(), Patching::kTable);
  ASSERT_NE(service.Measured(), nullptr);
  EXPECT_EQ(service.Measured()->costs->set, 7);
  EXPECT_EQ(queue_.pending(), 0u);
}

TEST_F(PatchServiceTest, MeasuresOnceAndInTheBackground) {
  EXPECT_EQ(service_.Measured(), nullptr);
  EXPECT_EQ(service_.Measured(), nullptr);
  EXPECT_EQ(queue_.RunAll(), 1u);
  const PatchMeasurement* const measured = service_.Measured();
  ASSERT_NE(measured, nullptr);
  EXPECT_EQ(measured->failure, "");
  ASSERT_TRUE(measured->costs.has_value());
  EXPECT_TRUE(std::isfinite(measured->costs->table));
  EXPECT_EQ(service_.Measured(), measured);
  EXPECT_EQ(queue_.pending(), 0u);
}

TEST_F(PatchServiceTest, WithoutAWriterOfTablesAllElseIsMeasured) {
  libraries_.host_code.erase(WriteOf(PatchProbe::kManyBytes));
  service_.Measured();
  queue_.RunAll();
  const PatchMeasurement* const measured = service_.Measured();
  ASSERT_NE(measured, nullptr);
  EXPECT_THAT(measured->failure, StartsWith("a table: "));
  ASSERT_TRUE(measured->costs.has_value());
  EXPECT_EQ(measured->costs->table, HUGE_VAL);
}

TEST_F(PatchServiceTest, SaysWhyNothingCouldBeMeasured) {
  libraries_.host_code.erase(kAxpy);
  service_.Measured();
  queue_.RunAll();
  const PatchMeasurement* const measured = service_.Measured();
  ASSERT_NE(measured, nullptr);
  EXPECT_THAT(measured->failure, StartsWith("measuring what patching costs: "));
  EXPECT_FALSE(measured->costs.has_value());
}

TEST_F(PatchServiceTest, TheHostHasNoTablesAndMeasuresNothing) {
  const auto host = native::MakeHostDevice();
  PatchService service(host.get(), &compiler_, &queue_, Patching::kMeasured);
  EXPECT_EQ(service.Measured(), nullptr);
  EXPECT_EQ(queue_.pending(), 0u);
  const auto code = Compile(kSource);
  const PatchShape shape = service.ShapeOf({NodeOf(code), NodeOf(code)});
  EXPECT_EQ(shape.launches, 2u);
  EXPECT_EQ(shape.in_table, 0u);
}

TEST_F(PatchServiceTest, PlainLaunchesOfKernelsFromSourceAreInTheTable) {
  const auto code = Compile(kSource);
  std::vector<engine::Node> nodes(7, NodeOf(code));
  nodes[0] = NodeOf(adopted_);
  nodes[1].kernel = nullptr;  // a copy
  nodes[2].shared_bytes = (48 << 10) + 1;
  nodes[3].cooperative = 1;
  nodes[4].programmatic = 1;
  nodes[5].cluster.x = 2;
  PatchShape shape = service_.ShapeOf(nodes);
  EXPECT_EQ(shape.launches, 7u);
  EXPECT_EQ(shape.in_table, 1u);
  EXPECT_EQ(shape.table_bytes, 256u);
  nodes[2].shared_bytes = 48 << 10;
  EXPECT_EQ(service_.ShapeOf(nodes).in_table, 2u);
}

TEST_F(PatchServiceTest, ATableIsAsLongAsALaunchCanCarry) {
  const auto code = Compile(kSource);
  const auto of = [&](size_t launches) {
    return service_.ShapeOf(std::vector(launches, NodeOf(code)));
  };
  EXPECT_EQ(of(256 / kInTable).table_bytes, 256u);
  EXPECT_EQ(of(256 / kInTable + 1).table_bytes, 512u);
  const PatchShape full = of(2000);
  EXPECT_EQ(full.table_bytes, 32512u);
  EXPECT_EQ(full.in_table, 32512u / kInTable);
}

TEST_F(PatchServiceTest, LaunchesOfOneKernelHaveOneTwin) {
  const auto code = Compile(kSource);
  AddTwin(*code);
  const auto table =
      service_.TableFor({NodeOf(code), NodeOf(adopted_), NodeOf(code)});
  ASSERT_TRUE(table) << table.error().message();
  EXPECT_EQ(table->patching, Patching::kTable);
  ASSERT_EQ(table->twins.size(), 3u);
  EXPECT_NE(table->twins[0], nullptr);
  EXPECT_EQ(table->twins[1], nullptr);
  EXPECT_EQ(table->twins[2], table->twins[0]);
  EXPECT_THAT(table->writer->name(), HasSubstr("Write<256>"));
  const auto longer = service_.TableFor(std::vector(9, NodeOf(code)));
  ASSERT_TRUE(longer) << longer.error().message();
  EXPECT_THAT(longer->writer->name(), HasSubstr("Write<512>"));
}

TEST_F(PatchServiceTest, WithoutAKernelFromSourceThereIsNoTable) {
  const auto table = service_.TableFor({NodeOf(adopted_)});
  ASSERT_FALSE(table);
  EXPECT_EQ(table.error().code(), base::Code::kUnavailable);
  EXPECT_THAT(table.error().message(),
              HasSubstr("no launch has a kernel from source"));
}

TEST_F(PatchServiceTest, AKernelWithVariablesHasNoTwinAndOthersDo) {
  const auto counting = Compile(kCountingSource);
  const auto none = service_.TableFor({NodeOf(counting)});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code(), base::Code::kUnavailable);
  EXPECT_THAT(none.error().message(), HasSubstr("uses variables"));
  const auto code = Compile(kSource);
  AddTwin(*code);
  const auto table = service_.TableFor({NodeOf(counting), NodeOf(code)});
  ASSERT_TRUE(table) << table.error().message();
  EXPECT_EQ(table->twins[0], nullptr);
  EXPECT_NE(table->twins[1], nullptr);
}

}  // namespace
}  // namespace reprise::scheduler
