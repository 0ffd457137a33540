// Proves what the median of a trace's last passes is, and its error.

#include "scheduler/pass_samples.h"

#include <gtest/gtest.h>

#include <chrono>

namespace reprise::scheduler {
namespace {

using std::chrono::nanoseconds;

PassTime Took(int host, int whole) {
  return {.host = nanoseconds(host), .whole = nanoseconds(whole)};
}

TEST(PassSamplesTest, ThereIsNoMedianOfNothing) {
  const PassSamples samples;
  EXPECT_EQ(samples.count(), 0u);
  EXPECT_EQ(samples.MedianOf(&PassTime::host).value, 0);
  EXPECT_EQ(samples.MedianOf(&PassTime::host).error, 0);
}

TEST(PassSamplesTest, EachPartHasItsOwnMedian) {
  PassSamples samples;
  for (const int i : {3, 1, 2}) samples.Add(Took(i, 10 * i));
  EXPECT_EQ(samples.MedianOf(&PassTime::host).value, 2);
  EXPECT_EQ(samples.MedianOf(&PassTime::whole).value, 20);
}

// Deviations 1, 0, 1 of three: one, of which a normal distribution's standard
// deviation is 1.4826, and the median's error 1.2533 of the mean's.
TEST(PassSamplesTest, TheErrorIsThatOfANormalDistribution) {
  PassSamples samples;
  for (const int i : {3, 1, 2}) samples.Add(Took(i, i));
  EXPECT_NEAR(samples.MedianOf(&PassTime::host).error, 1.0728, 1e-4);
}

TEST(PassSamplesTest, OneThatTookLongChangesNeither) {
  PassSamples samples;
  for (int i = 0; i < 8; ++i) samples.Add(Took(5, 5));
  samples.Add(Took(5'000, 5'000));
  EXPECT_EQ(samples.MedianOf(&PassTime::host).value, 5);
  EXPECT_EQ(samples.MedianOf(&PassTime::host).error, 0);
}

TEST(PassSamplesTest, TheLastNineCount) {
  PassSamples samples;
  for (int i = 0; i < 100; ++i) samples.Add(Took(1, 1));
  for (int i = 0; i < 4; ++i) samples.Add(Took(7, 7));
  EXPECT_EQ(samples.MedianOf(&PassTime::host).value, 1);
  samples.Add(Took(7, 7));
  EXPECT_EQ(samples.MedianOf(&PassTime::host).value, 7);
  EXPECT_EQ(samples.count(), 105u);
}

}  // namespace
}  // namespace reprise::scheduler
