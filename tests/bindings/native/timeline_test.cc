// What becomes of batches stands on the timeline, once each, with its name.

#include "bindings/native/timeline.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bindings/native/reprise.h"
#include "tests/engine/device/nvtx_tool.h"

namespace reprise {
namespace {

using nlohmann::json;
using Add = void(float*, float);

class Program {
 public:
  explicit Program(RuntimeOptions options = {}) {
    options.device = RuntimeOptions::kHost;
    runtime_.emplace(*Runtime::Create(options));
    stream_.emplace(*runtime_->CreateStream());
    value_.emplace(*stream_->Upload(std::array{0.0f}));
    for (const char* name : {"add", "raise"}) {
      kernels_.push_back(*runtime_->HostKernel<Add>(
          name, [](const LaunchConfig&, float* to, float by) { *to += by; }));
    }
  }

  Batch Fill(std::string_view name = {}, int launches = 3) {
    Batch batch = stream_->BeginBatch(name);
    for (int i = 0; i < launches; ++i) {
      batch.Launch(kernels_[static_cast<size_t>(i % 2)], {}, InOut(*value_),
                   1.0f);
    }
    return batch;
  }
  // As many batches, of which graphs are awaited.
  void Run(int batches, std::string_view name = {}, int launches = 3) {
    for (int i = 0; i < batches; ++i) {
      ASSERT_TRUE(Fill(name, launches).Submit());
      stream_->WaitForBuilds();
    }
  }

  Runtime& runtime() { return *runtime_; }
  Stream& stream() { return *stream_; }

 private:
  std::optional<Runtime> runtime_;
  std::optional<Stream> stream_;
  std::optional<Buffer<float>> value_;
  std::vector<Kernel<Add>> kernels_;
};

// Rows of a trace that are no metadata, by name.
std::map<std::string, std::vector<json>> EventsOf(const Timeline& timeline) {
  std::map<std::string, std::vector<json>> events;
  const json trace = json::parse(timeline.ChromeTrace());
  for (const json& row : trace["traceEvents"]) {
    if (row["ph"] != "M") events[row["name"]].push_back(row);
  }
  return events;
}
std::set<std::string> TracksOf(const Timeline& timeline) {
  std::set<std::string> tracks;
  const json trace = json::parse(timeline.ChromeTrace());
  for (const json& row : trace["traceEvents"]) {
    if (row["name"] == "thread_name") tracks.insert(row["args"]["name"]);
  }
  return tracks;
}

TEST(TimelineTest, EachSubmissionAndEachBuildIsOneEvent) {
  Program program;
  program.Run(1);  // before anybody looks
  const Timeline timeline = program.runtime().StartTimeline();
  program.Run(5, "step");
  const StreamStats stats = program.stream().stats();
  ASSERT_EQ(stats.replayed, 4u);
  auto events = EventsOf(timeline);
  EXPECT_EQ(events["launches step"].size(), 1u);
  EXPECT_EQ(events["build step"].size(), stats.built);
  EXPECT_EQ(events["replay step"].size(), stats.replayed);
  EXPECT_EQ(events.size(), 3u);
  const json& replay = events["replay step"].front();
  EXPECT_EQ(replay["ph"], "X");
  EXPECT_EQ(replay["args"]["launches"], 3);
  EXPECT_GE(replay["dur"], 0.0);
  EXPECT_LT(events["build step"].front()["ts"], replay["ts"]);
  const std::set<std::string> tracks = TracksOf(timeline);
  ASSERT_EQ(tracks.size(), 2u);
  EXPECT_TRUE(tracks.begin()->starts_with("builds on thread "));
  EXPECT_EQ(*tracks.rbegin(), "stream 1");
}

TEST(TimelineTest, ABatchWithoutANameHasThoseOfItsKernels) {
  Program program;
  const Timeline timeline = program.runtime().StartTimeline();
  program.Run(3);
  EXPECT_EQ(EventsOf(timeline)["replay add, raise"].size(), 1u);
}

TEST(TimelineTest, PlansAndTheGraphsThatAreTakenOverStandThere) {
  Program program({.build_after = 1, .plans_per_stream = 2});
  const Timeline timeline = program.runtime().StartTimeline();
  auto plan = program.Fill("planned").Prepare();
  ASSERT_TRUE(plan) << plan.error().message();
  ASSERT_TRUE(plan->Launch());
  ASSERT_TRUE(plan->Launch());
  program.Run(2, "three");
  program.Run(2, "four", 4);
  program.Run(2, "five", 5);
  auto events = EventsOf(timeline);
  EXPECT_EQ(events["build planned"].size(), 1u);
  EXPECT_EQ(events["replay planned"].size(), 2u);
  ASSERT_EQ(events["eviction"].size(), 1u);
  EXPECT_EQ(events["eviction"].front()["args"]["note"], "three");
  EXPECT_EQ(events["eviction"].front()["ph"], "i");
}

TEST(TimelineTest, ATakeoverIsItsOwnEvent) {
  Program program;
  const Timeline timeline = program.runtime().StartTimeline();
  program.Run(3, "old");
  // Grids of which each comes once: the idle graph goes from one to the next.
  const Kernel<Add> add = *program.runtime().HostKernel<Add>(
      "add", [](const LaunchConfig&, float* to, float by) { *to += by; });
  const Buffer<float> value = *program.stream().Upload(std::array{0.0f});
  for (int i = 0; i < 40; ++i) {
    Batch batch = program.stream().BeginBatch("new");
    for (int k = 0; k < 3; ++k) {
      batch.Launch(add, {.grid = {2 + i}}, InOut(value), 1.0f);
    }
    ASSERT_TRUE(batch.Submit());
    program.stream().WaitForBuilds();
  }
  auto events = EventsOf(timeline);
  const uint64_t taken_over = program.stream().stats().taken_over;
  EXPECT_GT(taken_over, 0u);
  EXPECT_EQ(events["takeover new"].size(), taken_over);
}

TEST(TimelineTest, StopKeepsWhatCameBefore) {
  Program program;
  Timeline timeline = program.runtime().StartTimeline();
  program.Run(1, "early");
  timeline.Stop();
  program.Run(1, "late");
  auto events = EventsOf(timeline);
  EXPECT_EQ(events["launches early"].size(), 1u);
  EXPECT_EQ(events.size(), 1u);
  timeline.Stop();
  // Another one begins with what comes then.
  const Timeline again = program.runtime().StartTimeline();
  program.Run(1, "again");
  EXPECT_EQ(EventsOf(again).size(), 1u);
  const Timeline moved = std::move(timeline);
  EXPECT_EQ(EventsOf(moved).size(), 1u);
  timeline.Stop();
  EXPECT_TRUE(EventsOf(timeline).empty());
}

TEST(TimelineTest, StreamsThatComeAndGoShareTracks) {
  Program program;
  const Timeline timeline = program.runtime().StartTimeline();
  for (int i = 0; i < 20; ++i) {
    const Stream stream = *program.runtime().CreateStream();
    Batch batch = stream.BeginBatch("brief");
    const Buffer<float> value = *stream.Upload(std::array{0.0f});
    batch.Fill(Out(value), 1.0f);
    ASSERT_TRUE(batch.Submit());
  }
  EXPECT_EQ(EventsOf(timeline)["launches brief"].size(), 20u);
  EXPECT_EQ(TracksOf(timeline), std::set<std::string>{"stream 2"});
}

TEST(TimelineTest, IsWrittenToAFileOrSaysWhyNot) {
  Program program;
  const Timeline timeline = program.runtime().StartTimeline();
  program.Run(1, "step");
  const std::string path =
      testing::TempDir() + "/reprise_timeline_" + std::to_string(getpid());
  ASSERT_TRUE(timeline.ExportChromeTrace(path));
  std::ifstream file(path);
  EXPECT_FALSE(json::parse(file)["traceEvents"].empty());
  unlink(path.c_str());
  const Status refused = timeline.ExportChromeTrace("/no/such/folder/x.json");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message(),
            "cannot write the timeline to '/no/such/folder/x.json': No such "
            "file or directory");
}

// A process finds its tool once: each of these is one of its own.
[[noreturn]] void ShowRanges(bool nvtx) {
  device::AttachNvtxTool();
  {
    Program program({.nvtx = nvtx});
    program.Run(5, "step");
    EXPECT_EQ(program.stream().stats().replayed, 3u);
  }
  const device::NvtxRanges ranges = device::TakeNvtxRanges();
  EXPECT_EQ(ranges.open, 0u);
  const auto count = [&](const char* name) {
    return std::ranges::count(ranges.ended, name);
  };
  EXPECT_EQ(count("reprise: launches step"), nvtx ? 2 : 0);
  EXPECT_EQ(count("reprise: build step"), nvtx ? 1 : 0);
  EXPECT_EQ(count("reprise: replay step"), nvtx ? 3 : 0);
  std::_Exit(testing::Test::HasFailure() ? 1 : 0);
}

TEST(TimelineDeathTest, AToolSeesSubmissionsAndBuildsAsRanges) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(ShowRanges(true), testing::ExitedWithCode(0), "");
}

TEST(TimelineDeathTest, AToolSeesNothingWithoutTheOption) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(ShowRanges(false), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace reprise
