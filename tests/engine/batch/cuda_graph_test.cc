// Graphs of batches get their arguments in every way, on the simulated driver.

#include "engine/batch/cuda_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "bindings/native/device.h"
#include "tests/engine/batch/patching_fixture.h"
#include "tests/sim/simulated_gpu.h"

namespace reprise::engine {
namespace {

using base::Patching;
using base::Status;
using ::testing::ElementsAre;

class TableTest : public PatchingTest {
 protected:
  // The second launch is not in the table.
  TableTest() {
    Mechanism mechanism{.patching = Patching::kTable};
    const auto twin = CodeOf(gpu_, "twin", twin_);
    mechanism.twins = {twin, nullptr, twin};
    mechanism.writer = CodeOf(gpu_, "write", writer_);
    graph_.emplace(gpu_.driver, gpu_.context);
    const BatchRecord record = Record(add_code_, 1);
    nodes_ = record.nodes();
    EXPECT_TRUE(graph_->Build(record.nodes(), record.image(), {{}, {0}, {1}},
                              gpu_.stream, {}, mechanism));
  }
  Status SetAll(float by) {
    const BatchRecord record = Record(add_code_, by);
    for (size_t i = 0; i < nodes_.size(); ++i) {
      REPRISE_RETURN_IF_ERROR(
          graph_->Set(i, record.image().data() + nodes_[i].image_begin));
    }
    return {};
  }
  const sim::SimulatedGpu::Node& writer() { return gpu_.execs()[0]->at(0); }

  std::optional<CudaGraph> graph_;
  std::vector<Node> nodes_;
};

TEST_F(TableTest, IsWrittenOnlyWhenItChanged) {
  ASSERT_TRUE(graph_->Launch(gpu_.stream));
  ExpectSums(1);
  const int updates = gpu_.updates;
  ASSERT_TRUE(graph_->Launch(gpu_.stream));
  ExpectSums(1);
  EXPECT_FALSE(writer().enabled);
  ASSERT_TRUE(graph_->Launch(gpu_.stream));
  ExpectSums(1);
  EXPECT_EQ(gpu_.updates, updates + 1);  // that it is left out

  ASSERT_TRUE(SetAll(5));
  ASSERT_TRUE(graph_->Launch(gpu_.stream));
  ExpectSums(5);
  EXPECT_TRUE(writer().enabled);
  // The direct launch, the table, and that it is written again.
  EXPECT_EQ(gpu_.updates, updates + 4);
  ASSERT_TRUE(SetAll(6));
  ASSERT_TRUE(graph_->Launch(gpu_.stream));
  ExpectSums(6);
  EXPECT_EQ(gpu_.updates, updates + 6);
  graph_.reset();
  EXPECT_EQ(gpu_.objects(), 0u);
}

TEST_F(TableTest, FailedCallsAreMadeGood) {
  float by = 1;
  for (int calls = 0; calls < 8; ++calls) {
    ASSERT_TRUE(SetAll(by += 1));
    gpu_.FailAfter(calls);
    while (!graph_->Launch(gpu_.stream)) {
    }
    gpu_.FailAfter(-1);
    ExpectSums(by);
    gpu_.FailAfter(calls);
    while (!graph_->Launch(gpu_.stream)) {
    }
    gpu_.FailAfter(-1);
    ExpectSums(by);
  }
}

// Builds and ends of graphs break no capture that the program is making, and
// touch none of its streams.
TEST_F(TableTest, DisturbsNoCapture) {
  const auto device = native::MakeCudaDevice(gpu_.driver, gpu_.context);
  const auto twin = CodeOf(gpu_, "twin", twin_);
  const BatchRecord record = Record(add_code_, 1);
  gpu_.upload_streams.clear();
  gpu_.capturing = true;
  auto built =
      device->Build(record.nodes(), record.image(), {{}, {0}, {1}}, {},
                    Mechanism{.patching = Patching::kTable,
                              .twins = {twin, nullptr, twin},
                              .writer = CodeOf(gpu_, "write", writer_)});
  ASSERT_TRUE(built);
  graph_.reset();
  built->reset();
  EXPECT_EQ(gpu_.broken_captures, 0);
  EXPECT_EQ(gpu_.upload_streams.size(), 1u);
  EXPECT_EQ(gpu_.upload_streams.count(gpu_.stream), 0u);
}

TEST_F(TableTest, IsNotTakenOver) {
  const BatchRecord other = Record(multiply_code_, 2);
  EXPECT_FALSE(graph_->TakeOver(other.nodes(), other.image()));
  ASSERT_TRUE(graph_->Launch(gpu_.stream));
  ExpectSums(1);
}

// Fills and copies beside a table, each with a call of its own.
TEST_F(PatchingTest, TableLeavesFillsAndCopiesToSetParams) {
  const auto record = [this](float by, float filled) {
    BatchRecord record = Record(add_code_, by, 1);
    record.AddFill(&memory_[2], 2, ParamType::Of<float>(), &filled);
    record.AddCopy(&memory_[4], &memory_[1], 1, 4);
    return record;
  };
  Mechanism mechanism{.patching = Patching::kTable};
  mechanism.twins = {CodeOf(gpu_, "twin", twin_), nullptr, nullptr};
  mechanism.writer = CodeOf(gpu_, "write", writer_);
  CudaGraph graph(gpu_.driver, gpu_.context);
  const BatchRecord first = record(0, 0);
  ASSERT_TRUE(graph.Build(first.nodes(), first.image(), {{}, {}, {0}},
                          gpu_.stream, {}, mechanism));
  for (const float by : {3.0f, 4.0f, 5.0f}) {
    const BatchRecord now = record(by, by + 10);
    ASSERT_TRUE(now.SameNodes(first.nodes()));
    for (size_t i = 0; i < 3; ++i) {
      ASSERT_TRUE(
          graph.Set(i, now.image().data() + now.nodes()[i].image_begin));
    }
    ASSERT_TRUE(graph.Launch(gpu_.stream));
    EXPECT_THAT(memory_, ElementsAre(0, by, by + 10, by + 10, by, 0, 0, 0));
  }
}

TEST_F(PatchingTest, UpdatesThatAreRefusedAreMadeOneByOne) {
  CudaGraph graph(gpu_.driver, gpu_.context);
  BatchRecord record = Record(add_code_, 1);
  ASSERT_TRUE(graph.Build(record.nodes(), record.image(), {{}, {0}, {1}},
                          gpu_.stream, {},
                          {.patching = Patching::kExecUpdate}));
  for (const float by : {2.0f, 3.0f, 4.0f}) {
    gpu_.refuses_updates = by > 2.0f;
    record = Record(add_code_, by);
    for (size_t i = 0; i < 3; ++i) {
      ASSERT_TRUE(
          graph.Set(i, record.image().data() + record.nodes()[i].image_begin));
    }
    ASSERT_TRUE(graph.Launch(gpu_.stream));
    ExpectSums(by);
  }
  EXPECT_EQ(gpu_.takeovers, 1);
}

}  // namespace
}  // namespace reprise::engine
