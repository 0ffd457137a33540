// A first pass goes on behind a cut where most ops before it were new.

#include "scheduler/first_pass.h"

#include <gtest/gtest.h>

namespace reprise::scheduler {
namespace {

void Meet(FirstPass& pass, int never_met, int known) {
  for (int i = 0; i < never_met; ++i) pass.Met(true);
  for (int i = 0; i < known; ++i) pass.Met(false);
}

TEST(FirstPassTest, MostOpsBetweenTwoCutsTell) {
  FirstPass pass;
  EXPECT_FALSE(pass.most_was_new());
  Meet(pass, 3, 2);
  EXPECT_FALSE(pass.most_was_new()) << "no cut has come";
  pass.CutPassed();
  EXPECT_TRUE(pass.most_was_new());
  pass.CutPassed();
  EXPECT_TRUE(pass.most_was_new()) << "there was nothing between the two";
  Meet(pass, 2, 2);
  pass.CutPassed();
  EXPECT_FALSE(pass.most_was_new());
}

TEST(FirstPassTest, OpsOfReplaysCount) {
  FirstPass pass;
  Meet(pass, 2, 0);
  pass.TraceEnded(2);  // was watched
  Meet(pass, 1, 0);
  pass.TraceEnded(40);  // was replayed, but for its first op
  pass.CutPassed();
  EXPECT_FALSE(pass.most_was_new());
}

}  // namespace
}  // namespace reprise::scheduler
