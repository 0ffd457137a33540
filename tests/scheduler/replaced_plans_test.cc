// A plan that names memory which does not last is recorded again, but not for
// ever at each time.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "tests/scheduler/twin_programs.h"

namespace reprise::scheduler {
namespace {

using ::testing::HasSubstr;

class ReplacedPlansTest : public TwinPrograms {
 protected:
  ReplacedPlansTest() {
    library_memory_ = {.address = 0x4000, .size_bytes = 512};
  }

  void Step() {
    const auto x = static_cast<float>(++steps_);
    Both([x](Side& side) {
      sim::ModelTensor h = side.program->Make(x, 64);
      for (int i = 0; i < 8; ++i) {
        h = side.program->Add(side.program->Scale(h, 1.25f),
                              side.weights[static_cast<size_t>(i)]);
      }
      side.program->Read(h);
      return Held{h};
    });
  }
  // So many passes, and before each `period`th of them `replace`.
  void Run(int passes, int period, const std::function<void()>& replace) {
    for (int i = 1; i <= passes; ++i) {
      if (i % period == 0) replace();
      Step();
    }
  }
  std::string Reason() {
    std::string reason;
    session_->Inspect([&reason](const Journal&,
                                const std::vector<const TraceEntry*>& entries,
                                const engine::Frontend&) {
      for (const TraceEntry* entry : entries) reason += entry->reason;
    });
    return reason;
  }

  int steps_ = 0;
};

TEST_F(ReplacedPlansTest,
       LibrarysMemoryThatIsFreedOftenIsRecordedEverMoreRarely) {
  Run(2000, 8, [this] { FreeLibraryMemory(); });
  EXPECT_GT(stats().replays, 0u) << Traces();
  EXPECT_LT(stats().recorded, 30u) << Traces();
  EXPECT_THAT(Reason(), HasSubstr("freed again and again"));
  EXPECT_GT(stats().rejected, 5u);
}

// Each build comes too late, and the trace is not to blame.
TEST_F(ReplacedPlansTest, OutdatedBuildsNeverGiveATraceUp) {
  library_memory_.reset();
  outdated_builds_ = 6;  // of more than a trace may fail
  Run(1000, 1001, nullptr);
  EXPECT_EQ(outdated_builds_, 0);
  EXPECT_EQ(stats().recorded, 2u * 7u) << Traces();
  const Stats before = stats();
  Run(100, 1001, nullptr);
  EXPECT_EQ(stats().replays - before.replays, 100u) << Traces();
}

TEST_F(ReplacedPlansTest, OutdatedBuildsAreTriedEverMoreRarelyAfterAGoodPlan) {
  Run(300, 1001, nullptr);
  ASSERT_GT(stats().replays, 200u) << Traces();
  FreeLibraryMemory();
  outdated_builds_ = 1000;
  const Stats before = stats();
  Run(1000, 1001, nullptr);
  EXPECT_LT(stats().recorded - before.recorded, 30u) << Traces();
}

TEST_F(ReplacedPlansTest, WeightThatIsReplacedOftenIsAnInput) {
  Run(2000, 8, [this] {
    for (Side* side : {&watched_, &plain_}) {
      side->weights[5] = side->program->Make(static_cast<float>(steps_), 64);
    }
  });
  EXPECT_GT(stats().replays, 1800u) << Traces();
  EXPECT_LT(stats().recorded, 10u) << Traces();
}

// The gradients of a step of several passes, say.
TEST_F(ReplacedPlansTest, SeveralThatAreReplacedTogetherAreInputs) {
  const auto replace = [this] {
    for (Side* side : {&watched_, &plain_}) {
      for (const int weight : {2, 3, 6}) {
        side->weights[static_cast<size_t>(weight)] =
            side->program->Make(static_cast<float>(steps_ + weight), 64);
      }
    }
  };
  Run(100, 15, replace);
  const Stats before = stats();
  Run(300, 15, replace);
  EXPECT_EQ(stats().recorded, before.recorded) << Traces();
  EXPECT_EQ(stats().replays - before.replays, 300u) << Traces();
}

TEST_F(ReplacedPlansTest, LibrarysMemoryThatLastsIsReplayedAgainAfterTheWait) {
  Run(400, 8, [this] { FreeLibraryMemory(); });
  Run(600, 1000, nullptr);
  const Stats before = stats();
  Run(100, 1000, nullptr);
  EXPECT_EQ(stats().replays - before.replays, 100u) << Traces();
}

TEST_F(ReplacedPlansTest, PlanThatReplayedForLongIsRecordedAgainAtOnce) {
  const int period = 100;
  const Stats before = stats();
  Run(20 * period, period, [this] { FreeLibraryMemory(); });
  Run(10, period, nullptr);
  EXPECT_EQ(stats().recorded, 2u * 21u) << Traces();
  EXPECT_EQ(stats().rejected, 0u) << Traces();
  EXPECT_GT(FollowedSince(before), 0.9) << Traces();
}

}  // namespace
}  // namespace reprise::scheduler
