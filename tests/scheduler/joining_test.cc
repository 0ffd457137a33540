// Proves which traces are joined with what always comes behind them.

#include "scheduler/joining.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tests/engine/fake_frontend.h"

namespace reprise::scheduler {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using State = TraceEntry::State;

class JoiningTest : public testing::Test {
 protected:
  static constexpr uint64_t kBudget = 1600;
  static constexpr uint32_t kOps = 10;  // of each trace

  ~JoiningTest() override { traces_.Clear(); }

  TraceEntry* Make(uint64_t signature) {
    TraceEntry* const entry =
        traces_
            .EntryFor({.signature = {.lo = signature},
                       .ops = kOps,
                       .head_hash = signature,
                       .externals = Externals(&frontend_)})
            .entry;
    entry->state = State::kReady;
    return entry;
  }
  // They come one behind the other, so often.
  void Come(const std::vector<TraceEntry*>& entries, int times = 80) {
    for (int i = 0; i < times; ++i) {
      for (TraceEntry* entry : entries) boundaries_.Ended(entry);
    }
  }
  std::vector<TraceEntry*> PartsOf(const TraceEntry* entry, TraceEntry* behind,
                                   size_t most_ops = 1000) {
    return Joining(&traces_, &boundaries_, &retention_, most_ops)
        .PartsOf(*entry, behind);
  }
  bool MayGoOn(const TraceEntry* entry, uint32_t ops, size_t most_ops) {
    return Joining(&traces_, &boundaries_, &retention_, most_ops)
        .MayGoOn(*entry, ops);
  }

  engine::FakeFrontend frontend_;
  PlanCache plans_{kBudget};
  TraceTable traces_{size_t{1} << 20, [](TraceEntry&) {}};
  Retention retention_{&traces_, &plans_};
  Boundaries boundaries_;
  TraceEntry* const a_ = Make(1);
  TraceEntry* const b_ = Make(2);
  TraceEntry* const c_ = Make(3);
};

TEST_F(JoiningTest, ATraceGoesOnWithAllThatAlwaysComesBehind) {
  Come({a_, b_, c_});
  EXPECT_THAT(PartsOf(a_, b_), ElementsAre(b_, c_));
  EXPECT_THAT(PartsOf(c_, a_), ElementsAre(a_, b_));
}

TEST_F(JoiningTest, GoesOnNoFurtherThanTheStreamAlwaysDoes) {
  Come({a_, b_, c_, a_, b_});
  EXPECT_THAT(PartsOf(a_, b_), ElementsAre(b_));
}

TEST_F(JoiningTest, GoesOnNoLongerThanATraceMayBe) {
  Come({a_, b_, c_});
  EXPECT_THAT(PartsOf(a_, b_, 3 * kOps), ElementsAre(b_, c_));
  EXPECT_THAT(PartsOf(a_, b_, 3 * kOps - 1), ElementsAre(b_));
}

TEST_F(JoiningTest, WhatCannotBeReplayedIsJoinedWithNothing) {
  Come({a_, b_, c_});
  c_->state = State::kCheckWhole;
  EXPECT_THAT(PartsOf(a_, b_), ElementsAre(b_));
  b_->state = State::kGivenUp;
  EXPECT_THAT(PartsOf(a_, b_), IsEmpty());
  EXPECT_THAT(PartsOf(b_, c_), IsEmpty());
}

// One launch by itself gains nothing; within a longer trace it does.
TEST_F(JoiningTest, WhatWasGivenUpForItsOneLaunchIsJoined) {
  Come({a_, b_, c_});
  b_->state = State::kGivenUp;
  b_->summary.launches = 1;
  EXPECT_THAT(PartsOf(a_, b_), ElementsAre(b_, c_));
}

TEST_F(JoiningTest, LargePlansAreJoinedOnceTheyHaveComeTogetherVeryOften) {
  b_->instances.Begin({.bytes = kBudget / 16});
  Come({a_, b_, c_}, 1000);
  EXPECT_THAT(PartsOf(a_, b_), IsEmpty());
  EXPECT_THAT(PartsOf(c_, a_), ElementsAre(a_));
  Come({a_, b_, c_}, 30);
  EXPECT_THAT(PartsOf(a_, b_), ElementsAre(b_, c_));
}

TEST_F(JoiningTest, ATraceGoesOnOnceIfItIsKnownAndNotTooLong) {
  EXPECT_TRUE(MayGoOn(a_, 5, kOps + 5));
  EXPECT_FALSE(MayGoOn(a_, 5, kOps + 4));
  a_->state = State::kBuilding;
  EXPECT_FALSE(MayGoOn(a_, 5, 1000));
  b_->shared = true;
  EXPECT_FALSE(MayGoOn(b_, 5, 1000));
  c_->joined.GoOn(5);
  EXPECT_FALSE(MayGoOn(c_, 5, 1000));
}

}  // namespace
}  // namespace reprise::scheduler
