// Proves that whatever call of the driver, of CUPTI or of NVRTC fails in a
// whole run, a stream through a session gives what the plain stream gives,
// leaves nothing behind and says why a plan is missing.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>

#include "tests/sim/twin_run.h"

namespace reprise::sim {
namespace {

// Whether somebody gives a reason with that text in it.
bool Says(const RunResult& result, const std::string& text) {
  return std::any_of(result.complaints.begin(), result.complaints.end(),
                     [&text](const std::string& reason) {
                       return reason.find(text) != std::string::npos;
                     });
}

// Calls whose failure nobody need be told of: they end something, name
// something for people, or are asked again.
bool IsHarmless(const std::string& call) {
  static const std::set<std::string> kHarmless = {
      "cuThreadExchangeStreamCaptureMode",
      "cuGraphDestroy",
      "cuGraphExecDestroy",
      "cuMemFree",
      "cuMemFreeHost",
      "cuEventDestroy",
      "cuStreamDestroy",
      "cuFuncGetName",
      "cuFuncGetParamInfo",
      "cuLibraryUnload",
      "cuStreamIsCapturing",
      "cuPointerGetAttribute",
  };
  return kHarmless.contains(call);
}

// Whatever call of the driver fails in a whole run, the program gets its
// results, nothing is left over, and the journal says why a plan is missing.
TEST(StreamFailuresTest, EveryDriverCallMayFailOnce) {
  std::set<std::string> failed;
  uint64_t complaints = 0;
  for (uint32_t seed = 0; seed < 2; ++seed) {
    Program program = RandomProgram(seed, {.passes = 12, .calm = true});
    for (Pass& pass : program.passes) pass.builds_at = 0;
    program.passes[10].leaves_at = 4;
    program.passes[10].looks = true;
    // A failed build of another instance than the first is told in the report
    // of its plan only.
    Scenario scenario{{program}, {.seed = seed, .max_instances = 1 + seed}};
    for (int calls = 0;; ++calls) {
      scenario.options.fail_after = calls;
      const RunResult result = RunBeside(scenario.programs, scenario.options);
      ASSERT_EQ(result.failure, "")
          << "after " << calls << " calls " << result.failed_call
          << " failed: " << Explain(seed, scenario);
      if (result.failed_call.empty()) break;
      failed.insert(result.failed_call);
      if (seed > 0 || IsHarmless(result.failed_call)) continue;
      const bool told = Says(result, "SIMULATED");
      EXPECT_TRUE(told) << "after " << calls << " calls nobody says that "
                        << result.failed_call << " failed";
      complaints += told ? 1 : 0;
    }
  }
  EXPECT_GT(failed.size(), 15u);
  EXPECT_GT(complaints, 50u);
}

// A run of a calm program, with or without failing calls; eager's results.
class ToolFailuresTest : public testing::TestWithParam<FailingCalls::Lasts> {
 protected:
  ToolFailuresTest() {
    Program program = RandomProgram(1, {.passes = 20, .calm = true});
    program.passes.assign(20, Pass{.builds_at = 0});
    program.passes[15].leaves_at = 4;
    program.passes[15].looks = true;
    scenario_.programs = {program};
    scenario_.options.lasts = GetParam();
    // So that runs differ in the failure only.
    scenario_.options.pace = SimulatedStreams::Pace::kAtOnce;
  }

  RunResult Run() {
    const RunResult result = RunBeside(scenario_.programs, scenario_.options);
    EXPECT_EQ(result.failure, "")
        << result.failed_call << " failed: " << Explain(1, scenario_);
    return result;
  }

  const bool once_ = GetParam() == FailingCalls::Lasts::kOnce;
  Scenario scenario_;
};

// What CUPTI fails to record is not replayed, and the journal says why; once it
// works again, what repeats is.
TEST_P(ToolFailuresTest, EveryCallOfCuptiMayFail) {
  const uint64_t replays = Run().stats.replays;
  ASSERT_GT(replays, 0u);
  int poorer = 0;
  std::set<std::string> failed;
  for (int calls = 0;; ++calls) {
    SCOPED_TRACE(testing::Message() << "after " << calls << " calls");
    scenario_.options.fail_cupti_after = calls;
    const RunResult result = Run();
    if (result.failed_call.empty()) break;
    failed.insert(result.failed_call);
    if (once_) {
      EXPECT_GT(result.stats.replays, 0u) << result.failed_call;
    } else if (calls == 0) {
      EXPECT_EQ(result.stats.recorded, 0u);
      EXPECT_EQ(result.stats.replays, 0u);
    }
    // What ends badly, or attaches ahead of time, costs nothing by itself.
    if (result.stats.replays == replays) continue;
    ++poorer;
    EXPECT_TRUE(Says(result, "nothing is recorded: ")) << result.failed_call;
    EXPECT_TRUE(Says(result, " failed with ") || Says(result, "holds CUPTI"))
        << result.failed_call;
  }
  EXPECT_GE(poorer, 3);
  EXPECT_TRUE(failed.contains("cuptiSubscribe_v2"));
  EXPECT_TRUE(failed.contains("cuptiEnableDomain"));
}

// Without a comparison nothing is validated, so nothing is replayed.
TEST_P(ToolFailuresTest, EveryCallOfNvrtcMayFail) {
  const uint64_t builds = Run().stats.builds;
  ASSERT_GT(builds, 0u);
  std::set<std::string> failed;
  for (int calls = 0;; ++calls) {
    SCOPED_TRACE(testing::Message() << "after " << calls << " calls");
    scenario_.options.fail_nvrtc_after = calls;
    const RunResult result = Run();
    if (result.failed_call.empty()) break;
    failed.insert(result.failed_call);
    if (result.stats.rejected == 0) {
      EXPECT_EQ(result.stats.builds, builds);
      EXPECT_TRUE(result.failed_call == "nvrtcDestroyProgram" ||
                  result.failed_call == "nvrtcGetProgramLog" ||
                  result.failed_call == "nvrtcGetProgramLogSize")
          << "nobody says that " << result.failed_call << " failed";
      continue;
    }
    EXPECT_TRUE(Says(result, "SIMULATED")) << result.failed_call;
    // It is tried again, with the next recordings.
    EXPECT_EQ(result.stats.replays > 0, once_) << result.failed_call;
    EXPECT_EQ(result.stats.builds > 0, once_) << result.failed_call;
  }
  EXPECT_GT(failed.size(), 6u);
}

INSTANTIATE_TEST_SUITE_P(Lasts, ToolFailuresTest,
                         testing::Values(FailingCalls::Lasts::kOnce,
                                         FailingCalls::Lasts::kForGood),
                         [](const auto& info) {
                           return FailingCalls::NameOf(info.param);
                         });

}  // namespace
}  // namespace reprise::sim
