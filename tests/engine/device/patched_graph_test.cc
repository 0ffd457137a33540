// Every way of giving a graph new arguments gives the same ones, to launches
// that somebody else owns.

#include "engine/device/patched_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "tests/engine/device/table_writer.h"
#include "tests/sim/simulated_gpu.h"

namespace reprise::device {
namespace {

using base::Patching;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint32_t kChunk = 64;

void Add(float* to, float by) { *to += by; }
void Multiply(float* to, float by) { *to *= by; }
void AddByTable(const std::byte* arguments) {
  float* to = nullptr;
  float by = 0;
  std::memcpy(&to, arguments, sizeof to);
  std::memcpy(&by, arguments + sizeof to, sizeof by);
  Add(to, by);
}

class PatchedGraphTest : public ::testing::TestWithParam<Patching> {
 protected:
  PatchedGraphTest() {
    for (float& place : memory_) launches_.push_back(LaunchOf(add_, &place));
  }

  static device::Launch LaunchOf(const sim::SimulatedGpu::Kernel& kernel,
                                 float* to = nullptr) {
    device::Launch launch;
    launch.function = reinterpret_cast<CUfunction>(
        const_cast<sim::SimulatedGpu::Kernel*>(&kernel));
    launch.params =
        std::make_shared<const std::vector<ParamSpan>>(kernel.params);
    launch.image.resize(kernel.params.back().offset_bytes +
                        kernel.params.back().size_bytes);
    launch.SetWord(0, reinterpret_cast<uint64_t>(to));
    return launch;
  }
  static void SetBy(device::Launch& launch, float by) {
    std::memcpy(launch.image.data() + 8, &by, sizeof by);
  }

  // By a table all but the last launch are given their arguments there.
  std::unique_ptr<PatchedGraph> Make(Patching patching) {
    PatchedGraph::Mechanism mechanism{.patching = patching};
    if (patching == Patching::kTable) {
      const device::Launch twin = LaunchOf(by_table_);
      mechanism.twins.assign(launches_.size(), {twin.function, twin.params});
      mechanism.twins.back() = {};
      mechanism.writer = LaunchOf(writer_);
    }
    std::vector<device::Launch*> borrowed;
    for (device::Launch& launch : launches_) borrowed.push_back(&launch);
    auto made = PatchedGraph::Create(gpu_.driver, gpu_.context, borrowed,
                                     {{}, {}, {0, 1}}, gpu_.stream, mechanism);
    EXPECT_TRUE(made);
    return *std::move(made);
  }

  sim::SimulatedGpu gpu_;
  std::vector<float> memory_ = {0, 0, 0};
  const sim::SimulatedGpu::Kernel add_ = sim::SimulatedGpu::MakeKernel(&Add);
  const sim::SimulatedGpu::Kernel multiply_ =
      sim::SimulatedGpu::MakeKernel(&Multiply);
  const sim::SimulatedGpu::Kernel by_table_ =
      sim::SimulatedGpu::MakeKernel(&AddByTable);
  const sim::SimulatedGpu::Kernel writer_ = TableWriter<kChunk>();
  std::vector<device::Launch> launches_;
};

TEST_P(PatchedGraphTest, LaunchesAreAsTheyAreNow) {
  auto graph = Make(GetParam());
  ASSERT_TRUE(graph->Launch(gpu_.stream));
  EXPECT_THAT(memory_, ElementsAre(0, 0, 0));
  for (const float by : {1.0f, 10.0f}) {
    for (size_t i = 0; i < launches_.size(); ++i) {
      SetBy(launches_[i], by * static_cast<float>(i + 1));
      ASSERT_TRUE(graph->Changed(i));
    }
    ASSERT_TRUE(graph->Launch(gpu_.stream));
  }
  EXPECT_THAT(memory_, ElementsAre(11, 22, 33));
  // Nothing has changed.
  ASSERT_TRUE(graph->Launch(gpu_.stream));
  EXPECT_THAT(memory_, ElementsAre(21, 42, 63));
  EXPECT_THAT(graph->why_set_params(), IsEmpty());
  graph.reset();
  EXPECT_EQ(gpu_.objects(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Ways, PatchedGraphTest,
                         ::testing::Values(Patching::kSetParams,
                                           Patching::kTable,
                                           Patching::kExecUpdate));

TEST_F(PatchedGraphTest, TakeoverExchangesTheLaunches) {
  auto graph = Make(Patching::kSetParams);
  std::fill(memory_.begin(), memory_.end(), 1.0f);
  std::vector<device::Launch> others;
  for (float& place : memory_) {
    SetBy(others.emplace_back(LaunchOf(multiply_, &place)), 3);
  }
  ASSERT_TRUE(graph->TakeOver(others));
  EXPECT_EQ(launches_[0].function, LaunchOf(multiply_).function);
  EXPECT_EQ(others[0].function, LaunchOf(add_).function);
  ASSERT_TRUE(graph->Launch(gpu_.stream));
  EXPECT_THAT(memory_, ElementsAre(3, 3, 3));

  gpu_.refuses_updates = true;
  const base::Status refused = graph->TakeOver(others);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), base::Code::kFailedPrecondition);
  EXPECT_EQ(launches_[0].function, LaunchOf(multiply_).function);
  ASSERT_TRUE(graph->Launch(gpu_.stream));
  EXPECT_THAT(memory_, ElementsAre(9, 9, 9));
}

TEST_F(PatchedGraphTest, TableIsNotTakenOver) {
  auto graph = Make(Patching::kTable);
  std::vector<device::Launch> others = launches_;
  const base::Status refused = graph->TakeOver(others);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message(), HasSubstr("a table"));
}

TEST_F(PatchedGraphTest, RefusedUpdatesAreMadeOneByOneFromThenOn) {
  auto graph = Make(Patching::kExecUpdate);
  gpu_.refuses_updates = true;
  for (const float by : {1.0f, 10.0f}) {
    SetBy(launches_[1], by);
    ASSERT_TRUE(graph->Changed(1));
    ASSERT_TRUE(graph->Launch(gpu_.stream));
  }
  EXPECT_THAT(memory_, ElementsAre(0, 11, 0));
  EXPECT_THAT(std::string(graph->why_set_params()), HasSubstr("take"));
}

}  // namespace
}  // namespace reprise::device
