// Proves that what patching costs is measured with launches that do what they
// stand for, on the simulated driver, and that nothing is left behind.

#include "scheduler/patch_probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstring>
#include <set>
#include <tuple>

#include "tests/engine/batch/simulated_kernel.h"
#include "tests/engine/device/table_writer.h"
#include "tests/sim/simulated_gpu.h"

namespace reprise::scheduler {
namespace {

using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

// What a launch was given: two vectors, and of how many elements they are.
using Given = std::tuple<const float*, float*, int>;

std::set<Given> g_given;
std::set<Given> g_given_by_table;

void Axpy(float a, const float* x, float* y, int count) {
  g_given.emplace(x, y, count);
  for (int i = 0; i < count; ++i) y[i] += a * x[i];
}

void AxpyByTable(const std::byte* arguments) {
  if (arguments == nullptr) return;
  Given given;
  std::memcpy(&std::get<0>(given), arguments + 8, sizeof(float*));
  std::memcpy(&std::get<1>(given), arguments + 16, sizeof(float*));
  std::memcpy(&std::get<2>(given), arguments + 24, sizeof(int));
  g_given_by_table.insert(given);
}

class PatchProbeTest : public testing::Test {
 protected:
  PatchProbeTest() {
    g_given.clear();
    g_given_by_table.clear();
    kernels_ = {.axpy = engine::CodeOf(gpu_, "axpy", axpy_),
                .by_table = engine::CodeOf(gpu_, "by_table", by_table_),
                .writers = {engine::CodeOf(gpu_, "few", few_),
                            engine::CodeOf(gpu_, "many", many_)}};
    gpu_.driver.cuCtxSetCurrent(gpu_.context);
  }

  sim::SimulatedGpu gpu_;
  const sim::SimulatedGpu::Kernel axpy_ = sim::SimulatedGpu::MakeKernel(&Axpy);
  const sim::SimulatedGpu::Kernel by_table_ =
      sim::SimulatedGpu::MakeKernel(&AxpyByTable);
  const sim::SimulatedGpu::Kernel few_ =
      device::TableWriter<PatchProbe::kFewBytes>();
  const sim::SimulatedGpu::Kernel many_ =
      device::TableWriter<PatchProbe::kManyBytes>();
  PatchProbe::Kernels kernels_;
};

TEST_F(PatchProbeTest, MeasuresEachWay) {
  const auto costs = PatchProbe::Measure(gpu_.driver, kernels_);
  ASSERT_TRUE(costs) << costs.error().message();
  for (const double cost :
       {costs->set, costs->table, costs->table_byte, costs->stage,
        costs->update, costs->update_node, costs->build_node}) {
    EXPECT_TRUE(std::isfinite(cost));
    EXPECT_GE(cost, 0);
  }
}

// There each kernel takes a millisecond, whatever it does.
TEST_F(PatchProbeTest, TheDevicesPartIsWhatATableAddsToTheLaunches) {
  const auto costs = PatchProbe::Measure(gpu_.driver, kernels_);
  ASSERT_TRUE(costs);
  EXPECT_EQ(costs->device_table, 1e6);
  EXPECT_EQ(costs->device_read, 0);
}

TEST_F(PatchProbeTest, LaunchesReadInTheTableWhatOthersAreGiven) {
  ASSERT_TRUE(PatchProbe::Measure(gpu_.driver, kernels_));
  ASSERT_EQ(g_given_by_table.size(), 1u);
  const Given by_table = *g_given_by_table.begin();
  EXPECT_GT(std::get<int>(by_table), 0);
  // Those that are timed on the thread do nothing.
  EXPECT_THAT(g_given,
              UnorderedElementsAre(by_table, Given{nullptr, nullptr, 0}));
  EXPECT_THAT(gpu_.faults, IsEmpty());
}

TEST_F(PatchProbeTest, NoTableLooksCheapWithoutBothWriters) {
  kernels_.writers.pop_back();
  const auto costs = PatchProbe::Measure(gpu_.driver, kernels_);
  ASSERT_TRUE(costs);
  EXPECT_EQ(costs->table, HUGE_VAL);
  EXPECT_THAT(g_given_by_table, IsEmpty());
}

TEST_F(PatchProbeTest, WhateverCallFailsNothingIsLeftBehind) {
  int refused = 0;
  for (int calls = 0;; calls += 1 + calls / 4) {
    gpu_.failed.clear();
    gpu_.FailAfter(calls);
    const auto costs = PatchProbe::Measure(gpu_.driver, kernels_);
    gpu_.FailAfter(-1);
    EXPECT_EQ(gpu_.objects(), 0u) << gpu_.failed;
    if (gpu_.failed.empty()) {
      EXPECT_TRUE(costs);
      break;
    }
    if (!costs) ++refused;
  }
  EXPECT_GT(refused, 20);
}

}  // namespace
}  // namespace reprise::scheduler
