// Proves how often something is tried.

#include "engine/base/tries.h"

#include <gtest/gtest.h>

namespace reprise::base {
namespace {

int Left(Tries tries) {
  int left = 0;
  while (tries.Take()) ++left;
  return left;
}

TEST(TriesTest, AreAsManyAsWereGiven) {
  EXPECT_EQ(Left(Tries(3)), 3);
  EXPECT_EQ(Left(Tries(0)), 0);
}

TEST(TriesTest, AreNotTakenBeyondTheLast) {
  Tries tries(1);
  EXPECT_TRUE(tries.Take());
  EXPECT_FALSE(tries.Take());
  EXPECT_FALSE(tries.Take());
  tries.Renew();
  EXPECT_EQ(Left(tries), 1);
}

TEST(TriesTest, AreRenewed) {
  Tries tries(3);
  EXPECT_TRUE(tries.Take());
  EXPECT_TRUE(tries.Take());
  tries.Renew();
  EXPECT_EQ(Left(tries), 3);
}

}  // namespace
}  // namespace reprise::base
