// Graphs go over to what costs less, and stay right whatever fails, on the
// simulated driver.

#include "scheduler/adaptive_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "bindings/native/device.h"
#include "engine/base/task.h"
#include "engine/batch/compile_service.h"
#include "engine/batch/plan_report.h"
#include "scheduler/patch_service.h"
#include "tests/engine/base/manual_task_runner.h"
#include "tests/engine/batch/patching_fixture.h"
#include "tests/sim/simulated_gpu.h"

namespace reprise::scheduler {
namespace {

using base::Patching;
using base::Status;
using engine::PatchingTest;
using engine::PlanReport;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class AdaptiveGraphTest : public PatchingTest {
 protected:
  // An update costs less than three calls.
  static constexpr PatchCosts kCosts{.set = 1000,
                                     .table = 1e9,
                                     .table_byte = 0,
                                     .stage = 10,
                                     .update = 100,
                                     .update_node = 10,
                                     .build_node = 1000};
  void Build() { Build(patching_); }
  void Build(PatchService& patching) {
    const engine::BatchRecord record = Record(add_code_, 1);
    auto graph = AdaptiveGraph::Build(
        {device_.get(), &patching, &queue_, gpu_.stream},
        std::make_shared<const AdaptiveGraph::Recipe>(
            record.nodes(), device::Dependencies{{}, {0}, {1}}),
        record.image(), device_->HoldMemory());
    ASSERT_TRUE(graph) << graph.error().message();
    graph_ = *std::move(graph);
  }
  void Launch(float by) {
    graph_->SetAll(Record(add_code_, by).image());
    ASSERT_TRUE(graph_->Give());
    ASSERT_TRUE(graph_->Launch());
  }
  void Replay(float by) {
    Launch(by);
    ExpectSums(by);
  }

  const std::unique_ptr<native::Device> device_ =
      native::MakeCudaDevice(gpu_.driver, gpu_.context);
  engine::CompileService compiler_{*device_, ""};
  base::ManualTaskRunner queue_;
  PatchService patching_{device_.get(), &compiler_, &queue_,
                         Patching::kMeasured,
                         PatchMeasurement{.costs = kCosts}};
  std::unique_ptr<AdaptiveGraph> graph_;
};

TEST_F(AdaptiveGraphTest, GoesOverToWhatCostsLess) {
  Build();
  float by = 0;
  while (queue_.pending() == 0) {
    Replay(by += 1);
    ASSERT_LT(by, 20);
  }
  EXPECT_EQ(graph_->report().patching, Patching::kSetParams);
  Replay(by += 1);  // changed while the other is built
  EXPECT_GT(queue_.RunAll(), 0u);
  Replay(by += 1);
  const PlanReport report = graph_->report();
  EXPECT_EQ(report.patching, Patching::kExecUpdate);
  EXPECT_THAT(report.why, HasSubstr("of 3 launches change"));
  EXPECT_EQ(report.replays, static_cast<uint64_t>(by));
  Replay(by += 1);
  EXPECT_EQ(gpu_.takeovers, 2);
  EXPECT_EQ(gpu_.execs().size(), 2u);
  queue_.RunAll();  // the first one ends
  EXPECT_EQ(gpu_.execs().size(), 1u);
}

TEST_F(AdaptiveGraphTest, StaysWhereTheOtherCannotBeBuilt) {
  Build();
  float by = 0;
  while (queue_.pending() == 0) Replay(by += 1);
  gpu_.FailAfter(4);
  queue_.RunAll();
  ASSERT_EQ(gpu_.failed, "cuGraphCreate");
  Replay(by += 1);
  EXPECT_EQ(graph_->report().patching, Patching::kSetParams);
  EXPECT_THAT(graph_->report().why_not, HasSubstr("ExecUpdate"));
  Replay(by += 1);
}

// The driver refuses an update: the report says so, and it is not tried again.
TEST_F(AdaptiveGraphTest, GivesExecUpdateUpWhereItIsRefused) {
  Build();
  float by = 0;
  while (queue_.pending() == 0) Replay(by += 1);
  queue_.RunAll();
  Replay(by += 1);
  ASSERT_EQ(graph_->report().patching, Patching::kExecUpdate);
  EXPECT_EQ(graph_->report().why_not, "");
  gpu_.refuses_updates = true;
  Replay(by += 1);
  const PlanReport report = graph_->report();
  EXPECT_EQ(report.patching, Patching::kSetParams);
  EXPECT_THAT(report.why, HasSubstr("refused"));
  EXPECT_THAT(report.why_not, HasSubstr("ExecUpdate: "));
  EXPECT_THAT(report.why_not, HasSubstr("a function that cannot"));
  queue_.RunAll();
  for (int call = 0; call < 100; ++call) Replay(by += 1);
  EXPECT_EQ(queue_.pending(), 0u);
  EXPECT_EQ(graph_->report().patching, Patching::kSetParams);
}

// Nobody has costs: the report says which call of the driver failed.
TEST_F(AdaptiveGraphTest, TellsWhyNothingWasMeasured) {
  PatchService patching(device_.get(), &compiler_, &queue_,
                        Patching::kMeasured);
  Build(patching);
  float by = 0;
  while (queue_.pending() == 0) Replay(by += 1);
  EXPECT_EQ(graph_->report().why_not, "");
  gpu_.FailAfter(0);
  queue_.RunAll();
  ASSERT_NE(gpu_.failed, "");
  for (int call = 0; call < 100; ++call) Replay(by += 1);
  const PlanReport report = graph_->report();
  EXPECT_EQ(report.patching, Patching::kSetParams);
  EXPECT_THAT(report.why_not, HasSubstr("measuring"));
  EXPECT_THAT(report.why_not, HasSubstr(gpu_.failed));
  EXPECT_EQ(queue_.pending(), 0u);  // not tried again
}

// Some costs are known: the others go on, and the report says what is missing.
TEST_F(AdaptiveGraphTest, TellsWhatCouldNotBeMeasured) {
  PatchService patching(
      device_.get(), &compiler_, &queue_, Patching::kMeasured,
      PatchMeasurement{.costs = kCosts, .failure = "no writer"});
  Build(patching);
  float by = 0;
  while (queue_.pending() == 0) Replay(by += 1);
  EXPECT_EQ(graph_->report().why_not, "no writer");
  queue_.RunAll();
  Replay(by += 1);
  EXPECT_EQ(graph_->report().patching, Patching::kExecUpdate);
}

// What could not be set is set the next time, whatever it is to be then, and
// whichever way it takes.
TEST_F(AdaptiveGraphTest, FailedCallsAreMadeGood) {
  for (const Patching wanted : {Patching::kSetParams, Patching::kExecUpdate}) {
    PatchService patching(device_.get(), &compiler_, &queue_, wanted);
    for (const bool refuses : {false, true}) {
      for (int calls = 0; calls < 8; ++calls) {
        SCOPED_TRACE(testing::Message()
                     << ToString(wanted) << ", after " << calls << " calls");
        Build(patching);
        Replay(1);
        gpu_.FailAfter(calls);
        graph_->SetAll(Record(add_code_, 2).image());
        if (graph_->Give() && graph_->Launch()) ExpectSums(2);
        gpu_.FailAfter(-1);
        gpu_.refuses_updates = refuses;
        Replay(1);
        Replay(3);
        gpu_.refuses_updates = false;
      }
    }
  }
}

// The stream is asked now and then, but not while it is captured, which the
// simulated driver would complain of.
TEST_F(AdaptiveGraphTest, TellsWhetherReplaysWaitForTheDevice) {
  Build();
  for (int call = 1; call < 100; ++call) Replay(static_cast<float>(call));
  EXPECT_EQ(graph_->report().busy, 0);
  gpu_.streams.SetPace(sim::SimulatedStreams::Pace::kByHand);
  for (int call = 1; call < 1000; ++call) Launch(static_cast<float>(call));
  EXPECT_GT(graph_->report().busy, 0.9);
  gpu_.capturing = true;
  for (int call = 1; call < 1000; ++call) Launch(static_cast<float>(call));
  gpu_.capturing = false;
  EXPECT_LT(graph_->report().busy, 0.1);
  gpu_.streams.SynchronizeAll();
  ExpectSums(999);
}

TEST_F(AdaptiveGraphTest, StaysWhereLittleChanges) {
  Build();
  for (int call = 0; call < 100; ++call) Replay(1);
  EXPECT_EQ(queue_.pending(), 0u);
  EXPECT_EQ(graph_->report().changed, 0);
}

}  // namespace
}  // namespace reprise::scheduler
