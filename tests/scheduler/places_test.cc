// Each thing that is met is asked for once, and has the answer to its question.

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
  void Tell(const std::string& place) { places_.Tell(last_, place); }

  int asked_ = 0;
  uint64_t last_ = 0;
  Places places_{[this](uint64_t question) {
    ++asked_;
    last_ = question;
  }};
};

TEST_F(PlacesTest, WhatIsMetIsAskedForOnceAndTold) {
  places_.MeetCut(1, kHost, /*behind=*/7);
  EXPECT_EQ(asked_, 1);
  EXPECT_THAT(places_.Find(Places::OfCut(1, kHost)), IsEmpty());
  Tell("train.py:3");
  places_.MeetCut(1, kHost, 7);
  EXPECT_EQ(asked_, 1);
  EXPECT_THAT(places_.Find(Places::OfCut(1, kHost)), ElementsAre("train.py:3"));
}

TEST_F(PlacesTest, EachQuestionHasItsAnswer) {
  places_.MeetHead(5);
  const uint64_t head = last_;
  places_.MeetSquash("abc", 2, "aten::tanh");
  places_.Tell(head, "train.py:8");
  Tell("train.py:9");
  EXPECT_THAT(places_.Find(Places::OfHead(5)), ElementsAre("train.py:8"));
  EXPECT_THAT(places_.Find(Places::OfSquash("abc", 2, "aten::tanh")),
              ElementsAre("train.py:9"));
}

// Nobody waits for a session that is in use: its question has no answer, and
// what is told next is of what was asked next.
TEST_F(PlacesTest, AQuestionWithoutAnAnswerDoesNotTakeTheNextOnes) {
  places_.MeetHead(5);
  const uint64_t missed = last_;
  places_.MeetHead(6);
  Tell("train.py:9");
  EXPECT_THAT(places_.Find(Places::OfHead(5)), IsEmpty());
  EXPECT_THAT(places_.Find(Places::OfHead(6)), ElementsAre("train.py:9"));
  places_.Tell(missed, "train.py:1");
  EXPECT_THAT(places_.Find(Places::OfHead(5)), IsEmpty());
}

TEST_F(PlacesTest, AnAnswerToWhatWasAskedBeforeItWasClearedIsOfNothing) {
  places_.MeetHead(5);
  const uint64_t before = last_;
  places_.Clear();
  places_.MeetHead(6);
  places_.Tell(before, "train.py:1");
  EXPECT_THAT(places_.Find(Places::OfHead(6)), IsEmpty());
  Tell("train.py:2");
  EXPECT_THAT(places_.Find(Places::OfHead(6)), ElementsAre("train.py:2"));
}

// The same cut comes in several lines, behind another trace in each.
TEST_F(PlacesTest, ACutHasAFewPlacesEachOfThemOnce) {
  for (uint64_t behind = 0; behind < 10; ++behind) {
    places_.MeetCut(1, kHost, behind);
    Tell("train.py:" + std::to_string(behind / 2));
  }
  EXPECT_THAT(
      places_.Find(Places::OfCut(1, kHost)),
      ElementsAre("train.py:0", "train.py:1", "train.py:2", "train.py:3"));
}

TEST_F(PlacesTest, NobodyCanTell) {
  places_.MeetHead(5);
  Tell("");
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
