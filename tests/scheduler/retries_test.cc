// Proves that an op that raised an error, or warned, once is replayed again,
// and that one that always does is tried ever more rarely.

#include <gtest/gtest.h>

#include <set>
#include <stdexcept>

#include "tests/scheduler/twin_programs.h"

namespace reprise::scheduler {
namespace {

class RetriesTest : public TwinPrograms {
 protected:
  static constexpr char kWarns[] = "warned the program";
  static constexpr char kRaises[] = "raised an error";

  // What an op does in some of the passes.
  enum class Does : uint8_t { kRaise, kWarn };
  // Twelve ops a pass, in whose midst an addition does it in these passes.
  void Calls(int begin, int end, Does does, const std::set<int>& passes) {
    for (int i = begin; i < end; ++i) {
      for (sim::ModelFrontend* frontend : {frontend_, &plain_frontend_}) {
        auto& which = does == Does::kRaise ? frontend->raises : frontend->warns;
        which.reset();
        if (passes.contains(i)) which = sim::ModelOp::kAdd;
      }
      Both([&](Side& side) {
        sim::ModelTensor h = side.program->Make(static_cast<float>(i), 64);
        Held held;
        for (size_t k = 0; k < 11; ++k) {
          if (k != 6) {
            h = side.program->Scale(h, static_cast<float>(k % 3 + 7));
            continue;
          }
          try {
            h = side.program->Add(h, side.weights[k]);
          } catch (const std::runtime_error&) {
            side.program->Negate(h);
          }
        }
        held.push_back(h);
        side.program->Read(h);
        return held;
      });
      ASSERT_EQ(frontend_->warnings, plain_frontend_.warnings) << "pass " << i;
    }
  }
  void ExpectAllIsFollowed(int begin, Does does) {
    const Stats before = stats();
    Calls(begin, begin + 12, does, {});
    EXPECT_GE(FollowedSince(before), 0.9) << Traces();  // all but what reads
  }
};

TEST_F(RetriesTest, AnErrorInAReplayLeavesItsPlan) {
  Calls(0, 20, Does::kRaise, {});
  const Stats before = stats();
  ASSERT_GT(before.replays, 0u);
  Calls(20, 30, Does::kRaise, {20});
  EXPECT_EQ(stats().rejected, before.rejected) << Traces();
  ExpectAllIsFollowed(30, Does::kRaise);
}

TEST_F(RetriesTest, AnErrorBeforeThereIsAPlanIsForgotten) {
  Calls(0, 1, Does::kRaise, {0});
  EXPECT_EQ(Cuts(kRaises), 1u);
  Calls(1, 100, Does::kRaise, {});
  ExpectAllIsFollowed(100, Does::kRaise);
}

TEST_F(RetriesTest, AnErrorWhileAPlanIsValidatedIsForgotten) {
  int calls = 0;
  while (stats().builds == 0) {
    Calls(calls, calls + 1, Does::kRaise, {});
    ++calls;
  }
  Calls(calls, calls + 1, Does::kRaise, {calls});
  Calls(calls + 1, 100, Does::kRaise, {});
  ExpectAllIsFollowed(100, Does::kRaise);
}

TEST_F(RetriesTest, WhatAlwaysRaisesIsTriedEverMoreRarely) {
  std::set<int> always;
  for (int i = 0; i < 600; ++i) always.insert(i);
  Calls(0, 300, Does::kRaise, always);
  const int observed = watched_program_->observed();
  Calls(300, 600, Does::kRaise, always);
  // It was tried once, in its 512th pass; what comes behind it is watched then.
  EXPECT_LT(watched_program_->observed() - observed, 12) << Traces();
  EXPECT_GT(watched_program_->observed() - observed, 0);
  const Stats before = stats();
  Calls(600, 640, Does::kRaise, {});
  EXPECT_GT(FollowedSince(before), 0.5) << Traces();
}

TEST_F(RetriesTest, AWarningIsGivenOnceAndWhereItBelongs) {
  Calls(0, 40, Does::kWarn, {0});
  EXPECT_EQ(Cuts(kWarns), 1u);
  Calls(40, 100, Does::kWarn, {});
  ExpectAllIsFollowed(100, Does::kWarn);
}

// It is run by eager, and what lies before and behind it is replayed.
TEST_F(RetriesTest, WhatAlwaysWarnsDoesSoWhereTheProgramAsks) {
  std::set<int> always;
  for (int i = 0; i < 400; ++i) always.insert(i);
  Calls(0, 380, Does::kWarn, always);
  EXPECT_EQ(frontend_->warnings, 380);
  const Stats before = stats();
  Calls(380, 400, Does::kWarn, always);
  EXPECT_GT(FollowedSince(before), 0.7) << Traces();
}

TEST_F(RetriesTest, AWarningThatComesLateComesOnce) {
  Calls(0, 20, Does::kWarn, {});
  ASSERT_GT(stats().replays, 0u);
  Calls(20, 60, Does::kWarn, {20, 30, 31, 32});
  ExpectAllIsFollowed(60, Does::kWarn);
}

TEST_F(RetriesTest, AWarningInAValidationComesOnce) {
  int calls = 0;
  while (stats().builds == 0) {
    Calls(calls, calls + 1, Does::kWarn, {});
    ++calls;
  }
  Calls(calls, calls + 3, Does::kWarn, {calls, calls + 1});
  Calls(calls + 3, 100, Does::kWarn, {});
  ExpectAllIsFollowed(100, Does::kWarn);
}

}  // namespace
}  // namespace reprise::scheduler
