// Proves that random streams would notice: faults planted between the engine
// and the framework are caught within a few seeds.

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "tests/sim/fault.h"
#include "tests/sim/twin_run.h"

namespace reprise::sim {
namespace {

// None is caught so seldom that this is not many times enough, but for those
// that name a seed, which is tried first: a few times, because the simulated
// device goes on as the machine's threads do.
constexpr uint32_t kSeeds = 2000;
constexpr int kTries = 8;

struct Planted {
  Fault fault;
  const char* name;
  bool on_host = true;  // the host executor can have it too
  uint32_t seed = 0;    // catches it
};

class PlantedFaultsTest : public testing::TestWithParam<Planted> {
 protected:
  // By some seed, that passes without it.
  static bool IsCaught(const Planted& planted, Executes executes) {
    for (int i = 0; planted.seed != 0 && i < kTries; ++i) {
      if (Catches(planted.seed, planted.fault, executes)) return true;
    }
    for (uint32_t seed = 0; seed < kSeeds; ++seed) {
      if (Catches(seed, planted.fault, executes)) return true;
    }
    return false;
  }

  static bool Catches(uint32_t seed, Fault fault, Executes executes) {
    Scenario scenario = ScenarioOf(seed, executes);
    scenario.options.fault = fault;
    if (RunBeside(scenario.programs, scenario.options).failure.empty()) {
      return false;
    }
    scenario.options.fault = Fault::kNone;
    EXPECT_EQ(RunBeside(scenario.programs, scenario.options).failure, "");
    return true;
  }
};

TEST_P(PlantedFaultsTest, RandomStreamsCatchIt) {
  EXPECT_TRUE(IsCaught(GetParam(), Executes::kOnDevice));
  if (!GetParam().on_host) return;
  EXPECT_TRUE(IsCaught(GetParam(), Executes::kOnHost));
}

INSTANTIATE_TEST_SUITE_P(
    Faults, PlantedFaultsTest,
    testing::Values(
        Planted{Fault::kSkippedPatch, "SkippedPatch"},
        Planted{Fault::kStaleLateExternal, "StaleLateExternal"},
        Planted{Fault::kStaleNumber, "StaleNumber"},
        Planted{Fault::kElementForAnother, "ElementForAnother"},
        Planted{Fault::kIgnoredLease, "IgnoredLease"},
        Planted{Fault::kAttributeNotInKey, "AttributeNotInKey"},
        Planted{Fault::kOperandNotInKey, "OperandNotInKey"},
        Planted{Fault::kNoRestoration, "NoRestoration", false},
        Planted{Fault::kEvictedInUse, "EvictedInUse"},
        Planted{Fault::kOutputTwice, "OutputTwice"},
        Planted{Fault::kVerdictIgnored, "VerdictIgnored"},
        Planted{Fault::kOverlappingTemporary, "OverlappingTemporary", false},
        Planted{Fault::kForgottenInterrupt, "ForgottenInterrupt", true, 1054},
        Planted{Fault::kTokenUsedAgain, "TokenUsedAgain"},
        Planted{Fault::kOverlapUntold, "OverlapUntold"},
        Planted{Fault::kEffectTwice, "EffectTwice"},
        Planted{Fault::kOthersUntold, "OthersUntold", true, 1076},
        Planted{Fault::kOpenWhilePaused, "OpenWhilePaused", false, 2839},
        Planted{Fault::kPlanKept, "PlanKept"},
        Planted{Fault::kFreedIsHeld, "FreedIsHeld", false},
        Planted{Fault::kGoesUntold, "GoesUntold", false},
        Planted{Fault::kClearsUntold, "ClearsUntold", false},
        Planted{Fault::kStaleGenerator, "StaleGenerator", false},
        Planted{Fault::kGeneratorStays, "GeneratorStays"},
        Planted{Fault::kGeneratorUnlooked, "GeneratorUnlooked", false},
        Planted{Fault::kEdgeForgotten, "EdgeForgotten", false},
        Planted{Fault::kPrivateStale, "PrivateStale"},
        Planted{Fault::kPrivateKept, "PrivateKept"},
        Planted{Fault::kUnderWayUnnoted, "UnderWayUnnoted"}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace reprise::sim
