// Proves that a runtime for one device of several replays there alone.

#include "scheduler/runtime.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "scheduler/stats.h"
#include "scheduler/timeline.h"
#include "tests/sim/model_frontend.h"

namespace reprise::scheduler {
namespace {

using sim::ModelFrontend;
using sim::ModelProgram;
using sim::ModelTensor;

class RuntimeOfDevicesTest : public testing::Test {
 protected:
  void MakeRuntime(Devices devices) {
    auto runtime = Runtime::Create(
        devices, base::Options{},
        [this](const StreamKey& key) -> std::unique_ptr<engine::Frontend> {
          auto frontend = std::make_unique<ModelFrontend>();
          frontends_[key.device] = frontend.get();
          return frontend;
        },
        &timeline_);
    ASSERT_TRUE(runtime.has_value());
    runtime_ = std::move(*runtime);
  }

  // Of a pass that comes twelve times on that device.
  Stats StatsBehindPassesOn(int device) {
    Session* const session =
        runtime_->SessionFor({DeviceKind::kHost, device, nullptr});
    ModelProgram program(frontends_[device], session);
    const ModelTensor a = program.Make(3);
    for (int i = 0; i < 12; ++i) {
      const ModelTensor sum = program.Add(program.Scale(a, 2), a);
      EXPECT_EQ(sum.values().front(), 9) << "pass " << i;
      program.Read(sum);
      EXPECT_TRUE(runtime_->Wait(std::nullopt));
    }
    return runtime_->stats();
  }

  Timeline timeline_;
  std::map<int, ModelFrontend*> frontends_;
  std::unique_ptr<Runtime> runtime_;
};

TEST_F(RuntimeOfDevicesTest, AllAreServed) {
  MakeRuntime({DeviceKind::kHost});
  const Stats first = StatsBehindPassesOn(0);
  EXPECT_GT(first.replays, 0u);
  EXPECT_GT(StatsBehindPassesOn(1).replays, first.replays);
}

TEST_F(RuntimeOfDevicesTest, OneIsServedAndTheOthersAreWatched) {
  MakeRuntime({DeviceKind::kHost, 1});
  const Timeline::Position begin = timeline_.Start();
  const Stats other = StatsBehindPassesOn(0);
  EXPECT_EQ(other.replays, 0u);
  EXPECT_EQ(other.ops, 0u) << "counted, and it is not the program's choice";
  EXPECT_TRUE(timeline_.Since(begin).events.empty())
      << "something was recorded";
  const Stats served = StatsBehindPassesOn(1);
  EXPECT_GT(served.replays, 0u);
  EXPECT_FALSE(timeline_.Since(begin).events.empty());
  EXPECT_EQ(StatsBehindPassesOn(0).ops, served.ops);
  timeline_.Stop();
}

}  // namespace
}  // namespace reprise::scheduler
