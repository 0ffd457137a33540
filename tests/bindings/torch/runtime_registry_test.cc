// Runtimes are made once for devices and options, and one is active at a time.

#include "bindings/torch/runtime_registry.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAFunctions.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <functional>
#include <string>

#include "bindings/torch/runtime/runtime_epoch.h"
#include "tests/bindings/torch/host_runtime.h"

namespace reprise::bindings {
namespace {

using scheduler::DeviceKind;

constexpr scheduler::Devices kHost{DeviceKind::kHost};

// In a forked child: whether all of it holds.
bool InChild(const std::function<bool()>& holds) {
  const pid_t child = fork();
  if (child == 0) _exit(holds() ? 0 : 1);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

class RuntimeRegistryTest : public HostRuntimeTest {
 protected:
  static base::Options Others() {
    base::Options options = HostOptions();
    options.margin = 0.5;
    return options;
  }
};

TEST_F(RuntimeRegistryTest, ARuntimeIsFoundAgainByItsOptions) {
  TorchRuntime* const first = TorchRuntime::Active();
  ASSERT_NE(first, nullptr);
  ASSERT_TRUE(EnableRuntime(kHost, HostOptions()));
  EXPECT_EQ(TorchRuntime::Active(), first);
  ASSERT_TRUE(EnableRuntime(kHost, Others()));
  TorchRuntime* const second = TorchRuntime::Active();
  EXPECT_NE(second, first);
  EXPECT_EQ(second->options(), Others());
  EXPECT_NE(second->id(), first->id());
  ASSERT_TRUE(EnableRuntime(kHost, HostOptions()));
  EXPECT_EQ(TorchRuntime::Active(), first);
  EXPECT_EQ(FindRuntime(first->id()), first);
  EXPECT_EQ(FindRuntime(second->id()), second);
  EXPECT_EQ(FindRuntime(1000), nullptr);
}

TEST_F(RuntimeRegistryTest, PlansStayWhileARuntimeIsNotActive) {
  Learn();
  TorchRuntime& runtime = Active();
  const uint64_t replays = Stats().replays;
  ASSERT_TRUE(ActivateRuntime(nullptr));
  EXPECT_EQ(TorchRuntime::Active(), nullptr);
  EXPECT_EQ(TorchRuntime::Latest(), &runtime);
  EXPECT_TRUE(g_unwatched.on());
  for (int pass = 0; pass < 3; ++pass) {
    Begin();
    Finish();
  }
  EXPECT_EQ(runtime.scheduler().stats().replays, replays);
  ASSERT_TRUE(ActivateRuntime(&runtime));
  EXPECT_FALSE(g_unwatched.on());
  const uint64_t builds = Stats().builds;
  Learn();
  EXPECT_GT(Stats().replays, replays);
  EXPECT_EQ(Stats().builds, builds);
}

TEST_F(RuntimeRegistryTest, AReplayUnderWayEndsBeforeAnotherRuntimeIsActive) {
  TorchRuntime& runtime = Active();
  BeginReplay();
  const uint64_t before = Stats().squashes;
  ASSERT_TRUE(ActivateRuntime(nullptr));
  EXPECT_EQ(runtime.scheduler().stats().squashes, before + 1);
  Finish();
}

TEST_F(RuntimeRegistryTest, NothingIsRecordedUntilPausesAreBalanced) {
  const auto recorded = [this] {
    Active().scheduler().Reset();
    for (int pass = 0; pass < 20; ++pass) {
      Begin();
      Finish();
    }
    return Stats().recorded;
  };
  PauseRecording();
  PauseRecording();
  ResumeRecording();
  EXPECT_EQ(recorded(), 0u);
  // By a runtime that is made meanwhile, too.
  static int made = 0;
  base::Options options = HostOptions();
  options.margin = 0.25 + ++made;
  ASSERT_TRUE(EnableRuntime(kHost, options));
  EXPECT_EQ(recorded(), 0u);
  ResumeRecording();
  ResumeRecording();  // one too many is none
  EXPECT_GT(recorded(), 0u);
}

TEST_F(RuntimeRegistryTest, DevicesThatCannotBeServedChangeNothing) {
  if (c10::cuda::device_count() > 0) GTEST_SKIP() << "there is a device";
  TorchRuntime* const active = TorchRuntime::Active();
  const base::Status status = EnableRuntime({DeviceKind::kCuda}, HostOptions());
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code(), base::Code::kUnavailable);
  EXPECT_EQ(TorchRuntime::Active(), active);
  EXPECT_FALSE(g_unwatched.on());
}

TEST_F(RuntimeRegistryTest, TheTimelineTellsWhatIsDoneUntilAsManyStops) {
  Learn();
  const int64_t begin = StartTimeline();
  const std::string nothing = TimelineJson(begin);
  Learn();
  const std::string with = TimelineJson(begin);
  EXPECT_GT(with.size(), nothing.size());
  const int64_t second = StartTimeline();
  EXPECT_EQ(TimelineJson(second).size(), nothing.size()) << "what comes later";
  StopTimeline();
  Learn();
  EXPECT_GT(TimelineJson(begin).size(), with.size()) << "one is not over";
  StopTimeline();
  Learn();
  const int64_t anew = StartTimeline();
  EXPECT_EQ(TimelineJson(anew).size(), nothing.size());
  StopTimeline();
}

TEST_F(RuntimeRegistryTest, InAForkedChildNothingIsDone) {
  Learn();
  const int id = Active().id();
  EXPECT_TRUE(InChild([id] {
    return TorchRuntime::Forked() && TorchRuntime::Active() == nullptr &&
           TorchRuntime::Latest() == nullptr && g_unwatched.on() &&
           FindRuntime(id) == nullptr && StartTimeline() == 0;
  }));
  EXPECT_TRUE(InChild([] {
    PauseRecording();
    ResumeRecording();
    return EnableRuntime(kHost, HostOptions()).has_value() &&
           TorchRuntime::Active() == nullptr;
  }));
  EXPECT_FALSE(TorchRuntime::Forked());
  Learn();
}

}  // namespace
}  // namespace reprise::bindings
