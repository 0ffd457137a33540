// Proves when runs of a trace count as alike.

#include "scheduler/run_length.h"

#include <gtest/gtest.h>

namespace reprise::scheduler {
namespace {

TEST(RunLengthTest, RunsOfOneLengthInARowAreAlike) {
  RunLength run;
  EXPECT_EQ(run.alike(), 0u);
  for (uint32_t i = 1; i <= 3; ++i) {
    run.Count(4);
    EXPECT_EQ(run.alike(), i);
    EXPECT_EQ(run.length(), 4u);
  }
  run.Count(5);
  EXPECT_EQ(run.alike(), 1u);
  EXPECT_EQ(run.length(), 5u);
}

TEST(RunLengthTest, AnInterruptedRunBeginsTheCountAnew) {
  RunLength run;
  for (int i = 0; i < 3; ++i) run.Count(4);
  run.Break();
  EXPECT_EQ(run.alike(), 0u);
  EXPECT_EQ(run.length(), 4u);
  run.Count(4);
  EXPECT_EQ(run.alike(), 1u);
}

}  // namespace
}  // namespace reprise::scheduler
