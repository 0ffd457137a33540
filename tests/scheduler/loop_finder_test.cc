// Where a trace goes round in a loop: told by ops that repeat, and afterwards
// by the operators with which its body begins or ends.

#include "scheduler/loop_finder.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "engine/trace/open_trace.h"
#include "tests/engine/fake_frontend.h"
#include "tests/scheduler/op_on_storages.h"

namespace reprise::scheduler {
namespace {

using Edge = LoopCode::Edge;

constexpr uint64_t kBody = 20;

class LoopFinderTest : public testing::Test {
 protected:
  void Op(engine::OpId op, uint64_t storage, int64_t size = 4) {
    WithOp(op, {storage}, size, [this](const engine::OpView& view) {
      const cache::Signature hash = cache::HashWords(view.words);
      const auto values = open_.Enter(view, hash);
      loops_.Add(view, hash.lo, values, open_);
      loops_.FollowBody(view, open_);
      const engine::ResultView result = ResultIn(1000 + made_++);
      open_.Leave({&result, 1});
    });
  }
  // Each op on a weight of its own.
  void Body(int64_t size = 4) {
    for (uint64_t i = 0; i < kBody; ++i) {
      Op(static_cast<engine::OpId>(10 + i), 1 + i, size);
    }
  }
  bool Begins(engine::OpId op, uint64_t storage) {
    bool begins = false;
    WithOp(op, {storage}, 4, [&](const engine::OpView& view) {
      begins = loops_.BeginsBody(view, open_);
    });
    return begins;
  }
  // A trace ends before such an op.
  void Learn(engine::OpId op, uint64_t storage) {
    WithOp(op, {storage}, 4,
           [this](const engine::OpView& view) { loops_.Learn(view); });
  }

  LoopCode code_;
  LoopFinder loops_{&code_};
  engine::OpenTrace open_;
  uint64_t made_ = 0;
};

TEST_F(LoopFinderTest, ABodyThatRepeatedIsFoundUntilItIsForgotten) {
  Body();
  EXPECT_FALSE(loops_.Repeats());
  Body();
  EXPECT_TRUE(loops_.Repeats());
  loops_.Forget();
  EXPECT_FALSE(loops_.Repeats());
}

// Its words tell the next time, too.
TEST_F(LoopFinderTest, OfALoopOfOneSizeNoCodeIsLearned) {
  Body();
  Body();
  ASSERT_TRUE(loops_.Repeats());
  Learn(10, 1);
  EXPECT_FALSE(Begins(10, 1));
}

TEST_F(LoopFinderTest, ALoopOfSeveralSizesIsKnownAgainByItsCode) {
  int bodies = 0;
  while (!loops_.Repeats() && ++bodies < 20) Body(4 + bodies);
  ASSERT_TRUE(loops_.Repeats());
  EXPECT_FALSE(Begins(10, 1));
  Learn(10, 1);
  loops_.Clear();
  open_.Clear();
  EXPECT_FALSE(loops_.Repeats());
  EXPECT_TRUE(Begins(10, 1));
  EXPECT_FALSE(Begins(11, 1)) << "another operator";
  EXPECT_FALSE(Begins(10, 2)) << "another weight";
}

TEST_F(LoopFinderTest, ABodyIsOverSoManyOpsBehindItsEnd) {
  code_.Learn(Edge::kEnd, 30, {{TokenOf(5)}, 2});
  Op(30, 5);
  EXPECT_FALSE(loops_.BodyIsOver());
  Op(31, 6);
  EXPECT_FALSE(loops_.BodyIsOver());
  Op(32, 7);
  EXPECT_TRUE(loops_.BodyIsOver());
  Op(33, 8);
  EXPECT_FALSE(loops_.BodyIsOver());
}

TEST_F(LoopFinderTest, WhatIsLeftOfABodyIsForgotten) {
  code_.Learn(Edge::kEnd, 30, {{TokenOf(5)}, 0});
  Op(30, 5);
  ASSERT_TRUE(loops_.BodyIsOver());
  loops_.LeaveBody();
  EXPECT_FALSE(loops_.BodyIsOver());
}

}  // namespace
}  // namespace reprise::scheduler
