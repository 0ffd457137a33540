// Proves when a trace is left too often.

#include "scheduler/leavings.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>

namespace reprise::scheduler {
namespace {

using Where = Leavings::Where;

constexpr int kNever = -1;

// Of so many runs each `period`th one is left, at the op that `at` names by the
// number of those left before. Returns the run whose leaving was one too many.
int RunUntilTooMany(int period, Where where,
                    const std::function<uint32_t(int)>& at) {
  Leavings leavings;
  int left = 0;
  for (int run = 0; run < 10'000; ++run) {
    leavings.RunBegan();
    if (run % period != 0) continue;
    if (leavings.Left(at(left++), where)) return run;
  }
  return kNever;
}

uint32_t AtOne(int /*left*/) { return 7; }
uint32_t AtOthers(int left) { return left % 2 == 0 ? 7 : 9; }

TEST(LeavingsTest, FourRunsInARowAtOneOpAreTooMany) {
  EXPECT_EQ(RunUntilTooMany(1, Where::kAtOneOp, AtOne), 3);
}

// Four within 32 runs of the first one: three intervals of ten.
TEST(LeavingsTest, OneRunInTenIsOftenAndOneInElevenIsNot) {
  EXPECT_EQ(RunUntilTooMany(10, Where::kAtOneOp, AtOne), 30);
  EXPECT_EQ(RunUntilTooMany(11, Where::kAtOneOp, AtOne), kNever);
}

TEST(LeavingsTest, NearTheEndItTakesSixteenAndEverySecondRun) {
  EXPECT_EQ(RunUntilTooMany(1, Where::kNearTheEnd, AtOne), 15);
  EXPECT_EQ(RunUntilTooMany(2, Where::kNearTheEnd, AtOne), 30);
  EXPECT_EQ(RunUntilTooMany(3, Where::kNearTheEnd, AtOne), kNever);
}

TEST(LeavingsTest, AnotherOpCountsAnewUnlessAnywhereCounts) {
  EXPECT_EQ(RunUntilTooMany(1, Where::kAtOneOp, AtOthers), kNever);
  EXPECT_EQ(RunUntilTooMany(1, Where::kNearTheEnd, AtOthers), kNever);
  EXPECT_EQ(RunUntilTooMany(1, Where::kAnywhere, AtOthers), 3);
  EXPECT_EQ(RunUntilTooMany(42, Where::kAnywhere, AtOthers), 126);
  EXPECT_EQ(RunUntilTooMany(43, Where::kAnywhere, AtOthers), kNever);
}

// Runs that were followed before are no excuse later.
TEST(LeavingsTest, RunsBeforeTheFirstLeavingDoNotCount) {
  Leavings leavings;
  for (int i = 0; i < 1000; ++i) leavings.RunBegan();
  int left = 0;
  while (true) {
    leavings.RunBegan();
    ++left;
    if (leavings.Left(7, Where::kAtOneOp)) break;
    ASSERT_LT(left, 100);
  }
  EXPECT_EQ(left, 4);
}

}  // namespace
}  // namespace reprise::scheduler
