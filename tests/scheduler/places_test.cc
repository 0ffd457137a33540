// Who asks where things are met is told once for all that was met meanwhile.

#include "scheduler/places.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace reprise::scheduler {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr char kHost[] = "hands data to the host";

class PlacesTest : public testing::Test {
 protected:
  int asked_ = 0;
  Places places_{[this] { ++asked_; }};
};

TEST_F(PlacesTest, WhatIsMetIsAskedForOnceAndTold) {
  places_.MeetCut(1, kHost, /*behind=*/7);
  EXPECT_EQ(asked_, 1);
  EXPECT_THAT(places_.Find(Places::OfCut(1, kHost)), IsEmpty());
  places_.Tell("train.py:3");
  places_.MeetCut(1, kHost, 7);
  EXPECT_EQ(asked_, 1);
  EXPECT_THAT(places_.Find(Places::OfCut(1, kHost)), ElementsAre("train.py:3"));
}

TEST_F(PlacesTest, OneAnswerIsForAllThatWasMetUntilThen) {
  places_.MeetHead(5);
  places_.MeetSquash("abc", 2, "aten::tanh");
  places_.Tell("train.py:9");
  EXPECT_THAT(places_.Find(Places::OfHead(5)), ElementsAre("train.py:9"));
  EXPECT_THAT(places_.Find(Places::OfSquash("abc", 2, "aten::tanh")),
              ElementsAre("train.py:9"));
}

// The same cut comes in several lines, behind another trace in each.
TEST_F(PlacesTest, ACutHasAFewPlacesEachOfThemOnce) {
  for (uint64_t behind = 0; behind < 10; ++behind) {
    places_.MeetCut(1, kHost, behind);
    places_.Tell("train.py:" + std::to_string(behind / 2));
  }
  EXPECT_THAT(
      places_.Find(Places::OfCut(1, kHost)),
      ElementsAre("train.py:0", "train.py:1", "train.py:2", "train.py:3"));
}

TEST_F(PlacesTest, NobodyCanTell) {
  places_.MeetHead(5);
  places_.Tell("");
  EXPECT_THAT(places_.Find(Places::OfHead(5)), IsEmpty());
}

TEST_F(PlacesTest, WhatIsNewWithoutEndIsNotAskedForWithoutEnd) {
  for (uint64_t hash = 0; hash < 3 * Places::kMostMet; ++hash) {
    places_.MeetHead(hash);
  }
  EXPECT_EQ(asked_, static_cast<int>(Places::kMostMet));
  places_.Clear();
  places_.MeetHead(1);
  EXPECT_EQ(asked_, static_cast<int>(Places::kMostMet) + 1);
}

}  // namespace
}  // namespace reprise::scheduler
