// Proves that by the option `nvtx` a tool sees what a runtime does, and else
// nothing. A process finds its tool once: each test is one of its own.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "scheduler/runtime.h"
#include "tests/engine/device/nvtx_tool.h"
#include "tests/sim/model_frontend.h"

namespace reprise::scheduler {
namespace {

[[noreturn]] void End() { std::_Exit(testing::Test::HasFailure() ? 1 : 0); }

// Of twelve passes, the last of which goes another way.
std::vector<std::string> RangesOf(bool nvtx, Stats* stats) {
  base::Options options = base::Options().For(size_t{1} << 30);
  options.nvtx = nvtx;
  sim::ModelFrontend* frontend = nullptr;
  auto runtime =
      Runtime::Create({DeviceKind::kHost}, options, [&](const StreamKey&) {
        auto made = std::make_unique<sim::ModelFrontend>();
        frontend = made.get();
        return made;
      });
  Session* const session = (*runtime)->SessionFor({DeviceKind::kHost, 0, {}});
  {
    sim::ModelProgram program(frontend, session);
    const sim::ModelTensor weight = program.Make(2);
    for (int i = 0; i < 12; ++i) {
      sim::ModelTensor h = program.Make(static_cast<float>(i));
      for (int k = 0; k < 8; ++k) {
        if (i == 11 && k == 6) h = program.Scale(h, 3);
        h = program.Add(h, weight);
      }
      program.Read(h);
      (void)(*runtime)->Wait(std::nullopt);
    }
  }
  *stats = (*runtime)->stats();
  const device::NvtxRanges ranges = device::TakeNvtxRanges();
  EXPECT_EQ(ranges.open, 0u);
  return ranges.ended;
}

void Asked() {
  device::AttachNvtxTool();
  Stats stats;
  const std::vector<std::string> ranges = RangesOf(/*nvtx=*/true, &stats);
  const auto count = [&ranges](const std::string& what) {
    return static_cast<uint64_t>(
        std::ranges::count_if(ranges, [&](const std::string& range) {
          return range.starts_with("reprise: " + what + " ");
        }));
  };
  EXPECT_EQ(count("recording"), 2u);  // "recording again", too
  EXPECT_EQ(count("recording again"), 1u);
  EXPECT_EQ(count("build"), stats.builds);
  EXPECT_EQ(count("validation op by op"), 1u);
  EXPECT_EQ(count("validation of whole segments"), 1u);
  EXPECT_GT(stats.replays, 4u);
  EXPECT_EQ(count("replay"), stats.replays);
  EXPECT_EQ(stats.squashes, 1u);
  EXPECT_EQ(count("squash"), 1u);
  End();
}

void NotAsked() {
  device::AttachNvtxTool();
  Stats stats;
  EXPECT_TRUE(RangesOf(/*nvtx=*/false, &stats).empty());
  EXPECT_GT(stats.replays, 4u);
  End();
}

TEST(NvtxDeathTest, AToolSeesWhatIsDoneIfAskedFor) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(Asked(), testing::ExitedWithCode(0), "");
}

TEST(NvtxDeathTest, AToolSeesNothingElse) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(NotAsked(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace reprise::scheduler
