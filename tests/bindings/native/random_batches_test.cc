// Proves on random programs of the C++ API that batches and plans give what
// plain launches in program order give, whatever happens to them on the way.
//
// REPRISE_RANDOM_BATCHES=<count> goes on with further seeds until so many
// programs have run; REPRISE_RANDOM_SEED=<seed> begins elsewhere.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <set>
#include <string>

#include "tests/bindings/native/batch_program.h"
#include "tests/bindings/native/batch_twin_run.h"

namespace reprise::native {
namespace {

using sim::DriverFault;

uint32_t Asked(const char* name, uint32_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr
             ? otherwise
             : static_cast<uint32_t>(std::strtoull(text, nullptr, 10));
}

TEST(RandomBatchesTest, GiveWhatPlainLaunchesGive) {
  const uint32_t first = Asked("REPRISE_RANDOM_SEED", 0);
  const uint32_t programs = Asked("REPRISE_RANDOM_BATCHES", 4000);
  RunResult sum;
  for (uint32_t seed = first; seed < first + programs; ++seed) {
    const Program program = RandomProgram(seed);
    const RunOptions options = OptionsOf(seed);
    const RunResult result = RunBeside(program, options);
    ASSERT_EQ(result.failure, "") << Explain(seed, program, options);
    // Also where buffers have ended before the graph is built.
    ASSERT_EQ(result.stats.refused, 0u) << Explain(seed, program, options);
    sum.stats.replayed += result.stats.replayed;
    sum.stats.launches += result.stats.launches;
    sum.stats.patched += result.stats.patched;
    sum.stats.taken_over += result.stats.taken_over;
    sum.plan_launches += result.plan_launches;
    sum.tables += result.tables;
    sum.takeovers += result.takeovers;
  }
  // The test has not passed by doing nothing.
  const uint64_t some = programs / 10;
  EXPECT_GT(sum.stats.replayed, 50 * some);
  EXPECT_GT(sum.stats.launches, 50 * some);
  EXPECT_GT(sum.stats.patched, 50 * some);
  EXPECT_GT(sum.stats.taken_over, some / 4);
  EXPECT_GT(sum.plan_launches, 5 * some);
  EXPECT_GT(sum.tables, some);
  EXPECT_GT(sum.takeovers, some);
}

// Whatever changes in a batch that comes again, it is one graph in the end.
TEST(RandomBatchesTest, RepetitionEndsInReplay) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    const Program program =
        RandomProgram(seed, {.shapes = 4, .actions = 12, .calm = true});
    RunOptions options = OptionsOf(seed);
    options.plans_per_stream = 64;
    const RunResult result = RunBeside(program, options);
    ASSERT_EQ(result.failure, "") << Explain(seed, program, options);
    EXPECT_EQ(result.stats.refused, 0u) << seed;
    EXPECT_EQ(result.launched_by_themselves, 0u) << seed << "\n"
                                                 << program.ToString();
  }
}

// Right bytes, or an error of the call that met the failure; all that follows
// is right, and nothing is left over.
TEST(RandomBatchesTest, EveryDriverCallMayFail) {
  const uint32_t programs = Asked("REPRISE_FAILING_BATCHES", 24);
  std::set<std::string> failed;
  uint64_t told = 0;
  for (uint32_t seed = 0; seed < programs; ++seed) {
    const Program program =
        RandomProgram(1000 + seed, {.shapes = 3, .actions = 24});
    RunOptions options = OptionsOf(seed);
    for (options.fail_after = 0;; ++options.fail_after) {
      const RunResult result = RunBeside(program, options);
      ASSERT_EQ(result.failure, "") << result.failed_call << " fails\n"
                                    << Explain(seed, program, options);
      if (result.failed_call.empty()) break;
      failed.insert(result.failed_call);
      told += result.told;
      ASSERT_LT(options.fail_after, 100'000);
    }
  }
  EXPECT_GT(failed.size(), 15u);
  EXPECT_GT(told, 100u);
}

class PlantedFaultTest : public testing::TestWithParam<DriverFault> {};

// The fault is found, and the program that shows it is a small one.
TEST_P(PlantedFaultTest, IsFound) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    const Program program = RandomProgram(seed);
    RunOptions options = OptionsOf(seed);
    options.fault = GetParam();
    if (RunBeside(program, options).failure.empty()) continue;
    const Program small = Shrink(program, [&](const Program& smaller) {
      return !RunBeside(smaller, options).failure.empty();
    });
    EXPECT_LT(small.actions.size(), program.actions.size() / 2)
        << small.ToString();
    options.fault = DriverFault::kNone;
    EXPECT_EQ(RunBeside(small, options).failure, "") << small.ToString();
    return;
  }
  FAIL() << "not found";
}

constexpr const char* kFaults[] = {
    "None",      "SkippedPatch",    "StaleCopy",
    "StaleFill", "StaleUpdate",     "MissingEdge",
    "FillOnce",  "PatchedInFlight", "TableWrittenOnce",
    "LostWait",  "FreedAtOnce"};

INSTANTIATE_TEST_SUITE_P(
    Faults, PlantedFaultTest,
    testing::Values(DriverFault::kSkippedPatch, DriverFault::kStaleCopy,
                    DriverFault::kStaleFill, DriverFault::kStaleUpdate,
                    DriverFault::kMissingEdge, DriverFault::kFillOnce,
                    DriverFault::kPatchedInFlight,
                    DriverFault::kTableWrittenOnce, DriverFault::kLostWait,
                    DriverFault::kFreedAtOnce),
    [](const auto& info) {
      return std::string(kFaults[static_cast<size_t>(info.param)]);
    });

}  // namespace
}  // namespace reprise::native
