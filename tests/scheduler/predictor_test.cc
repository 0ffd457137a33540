// Proves that the predictor foresees by as much of the past as it has seen.

#include "scheduler/predictor.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/sim/model_frontend.h"

namespace reprise::scheduler {
namespace {

constexpr uint64_t kHead = 5;

class PredictorTest : public testing::Test {
 protected:
  PredictorTest() {
    for (int i = 0; i < 3; ++i) {
      entries_.push_back(
          std::make_unique<TraceEntry>(Identity(Externals(&frontend_))));
      entries_.back()->head_hash = kHead;
      entries_.back()->id = TraceId{static_cast<uint64_t>(i) + 1};
    }
  }

  // How many of the second half of `order` (letters from a) were foreseen.
  size_t Foreseen(const std::string& order) {
    size_t right = 0;
    for (size_t i = 0; i < order.size(); ++i) {
      const TraceEntry& next = *entries_[static_cast<size_t>(order[i] - 'a')];
      if (i >= order.size() / 2 && predictor_.Foresee(kHead) == next.id) {
        ++right;
      }
      predictor_.Saw(next);
    }
    return right;
  }

  sim::ModelFrontend frontend_;
  std::vector<std::unique_ptr<TraceEntry>> entries_;
  Predictor predictor_;
};

TEST_F(PredictorTest, OrdersThatComeAgainAreForeseen) {
  for (const std::string turn :
       {"a", "ab", "aabb", "aaab", "abcab", "aabac", "aaaaaaaab"}) {
    predictor_.Clear();
    std::string order;
    for (int i = 0; i < 12; ++i) order += turn;
    EXPECT_EQ(Foreseen(order), order.size() / 2) << turn;
  }
}

TEST_F(PredictorTest, NothingIsForeseenAfterABreakOrOfAnotherHead) {
  Foreseen("abababab");
  EXPECT_NE(predictor_.Foresee(kHead), TraceId::kNone);
  EXPECT_EQ(predictor_.Foresee(kHead + 1), TraceId::kNone);
  predictor_.Break();
  EXPECT_EQ(predictor_.Foresee(kHead), TraceId::kNone);
}

TEST_F(PredictorTest, WhatComesBehindABreakIsForeseenTheNextTime) {
  Foreseen("abbabb");
  predictor_.Break();
  predictor_.Saw(*entries_[1]);
  predictor_.Break();
  EXPECT_EQ(predictor_.Foresee(kHead), entries_[1]->id);
}

// One that was forgotten is foreseen by its id only, which no other has.
TEST_F(PredictorTest, WhatIsForeseenNeedNotBeThere) {
  Foreseen("abababab");
  const TraceId due = entries_[0]->id;
  entries_[0].reset();
  EXPECT_EQ(predictor_.Foresee(kHead), due);
}

TEST_F(PredictorTest, TheOrderThatCameLongAgoIsForgotten) {
  Foreseen("abcabc");
  const TraceEntry& a = *entries_[0];
  predictor_.Break();
  predictor_.Saw(a);
  ASSERT_EQ(predictor_.Foresee(kHead), entries_[1]->id);
  TraceEntry other(Identity{Externals(&frontend_)});
  for (uint64_t id = 10; id < 20000; ++id) {
    other.id = TraceId{id};
    predictor_.Saw(other);
  }
  predictor_.Break();
  predictor_.Saw(a);
  EXPECT_EQ(predictor_.Foresee(kHead), TraceId::kNone);
}

}  // namespace
}  // namespace reprise::scheduler
