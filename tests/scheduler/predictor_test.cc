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
    }
  }

  // How many of the second half of `order` (letters from a) were foreseen.
  size_t Foreseen(const std::string& order) {
    size_t right = 0;
    for (size_t i = 0; i < order.size(); ++i) {
      TraceEntry* const next =
          entries_[static_cast<size_t>(order[i] - 'a')].get();
      if (i >= order.size() / 2 && predictor_.Foresee(kHead) == next) ++right;
      predictor_.Saw(next);
    }
    return right;
  }

  sim::ModelFrontend frontend_;
  std::vector<std::unique_ptr<TraceEntry>> entries_;
  Predictor predictor_;
};

TEST_F(PredictorTest, OrdersThatComeAgainAreForeseen) {
  for (const std::string turn : {"a", "ab", "aabb", "aaab", "abcab", "aabac"}) {
    predictor_.Clear();
    std::string order;
    for (int i = 0; i < 12; ++i) order += turn;
    EXPECT_EQ(Foreseen(order), order.size() / 2) << turn;
  }
}

TEST_F(PredictorTest, NothingIsForeseenAfterABreakOrOfAnotherHead) {
  Foreseen("abababab");
  EXPECT_NE(predictor_.Foresee(kHead), nullptr);
  EXPECT_EQ(predictor_.Foresee(kHead + 1), nullptr);
  predictor_.Break();
  EXPECT_EQ(predictor_.Foresee(kHead), nullptr);
}

}  // namespace
}  // namespace reprise::scheduler
