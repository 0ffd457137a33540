// A stream's time goes to the traces that it is in, and to no other.

#include "scheduler/pass_timer.h"

#include <gtest/gtest.h>

#include <chrono>

#include "engine/base/clock.h"
#include "tests/engine/base/manual_clock.h"
#include "tests/engine/fake_frontend.h"

namespace reprise::scheduler {
namespace {

using std::chrono::microseconds;
using Mode = Profit::Mode;

class PassTimerTest : public testing::Test {
 protected:
  // A pass of so much work, and what comes before the next head.
  void Pass(TraceEntry& entry, Mode mode, int work, int behind) {
    saved_ = timer_.NextHead(clock_.Now());
    timer_.Begin(&entry, mode, clock_.Now());
    clock_.Advance(microseconds(work));
    timer_.End(clock_.Now());
    clock_.Advance(microseconds(behind));
  }

  engine::FakeFrontend frontend_;
  base::ManualClock clock_;
  PassTimer timer_;
  TraceEntry a_{Identity(Externals(&frontend_))};
  TraceEntry b_{Identity(Externals(&frontend_))};
  Profit::Duration saved_{};
};

TEST_F(PassTimerTest, TwoTracesOfALoopHaveTheirOwnTimes) {
  for (int i = 0; i < 4; ++i) {
    Pass(a_, Mode::kReplay, 10, 1);
    Pass(b_, Mode::kEager, 200, 50);
  }
  timer_.NextHead(clock_.Now());
  EXPECT_EQ(a_.profit.Median(Mode::kReplay), microseconds(11));
  EXPECT_EQ(b_.profit.Median(Mode::kEager), microseconds(250));
}

// What no trace has between them belongs to the one before: a head that is not
// timed ends it.
TEST_F(PassTimerTest, AHeadOfAnUnknownTraceEndsThePass) {
  for (int i = 0; i < 4; ++i) {
    Pass(a_, Mode::kReplay, 10, 5);
    timer_.NextHead(clock_.Now());
    clock_.Advance(microseconds(1000));
  }
  EXPECT_EQ(a_.profit.Median(Mode::kReplay), microseconds(15));
}

TEST_F(PassTimerTest, APassThatWasLeftTellsNothing) {
  for (int i = 0; i < 4; ++i) {
    timer_.NextHead(clock_.Now());
    timer_.Begin(&a_, Mode::kReplay, clock_.Now());
    EXPECT_TRUE(timer_.runs());
    clock_.Advance(microseconds(10));
  }
  timer_.NextHead(clock_.Now());
  EXPECT_FALSE(timer_.runs());
  EXPECT_EQ(a_.profit.Median(Mode::kReplay), Profit::Duration::zero());
}

// It was to be a replay, and eager had to run it.
TEST_F(PassTimerTest, APassThatIsDisregardedTellsNothing) {
  for (int i = 0; i < 4; ++i) {
    timer_.NextHead(clock_.Now());
    timer_.Begin(&a_, Mode::kReplay, clock_.Now());
    timer_.Disregard();
    EXPECT_FALSE(timer_.runs());
    clock_.Advance(microseconds(10));
    timer_.End(clock_.Now());
  }
  EXPECT_EQ(timer_.NextHead(clock_.Now()), Profit::Duration::zero());
  EXPECT_EQ(a_.profit.Median(Mode::kReplay), Profit::Duration::zero());
}

TEST_F(PassTimerTest, AReplayIsCountedForWhatTheTrialsFound) {
  for (const Mode mode : {Mode::kReplay, Mode::kEager}) {
    for (int i = 0; i < 6; ++i) {
      (void)a_.profit.Choose(0.05);
      Pass(a_, mode, mode == Mode::kReplay ? 10 : 100, 1);
    }
  }
  timer_.NextHead(clock_.Now());
  (void)a_.profit.Choose(0.05);
  Pass(a_, Mode::kReplay, 10, 1);
  EXPECT_EQ(timer_.NextHead(clock_.Now()), microseconds(90));
  Pass(a_, Mode::kEager, 100, 1);
  EXPECT_EQ(timer_.NextHead(clock_.Now()), microseconds(0));
}

TEST_F(PassTimerTest, AProgramThatIsInNoTraceMostOfTheTimeWaits) {
  const auto run = [this](int work, int gap) {
    for (int i = 0; i < 2000; ++i) {
      timer_.NextHead(clock_.Now());
      clock_.Advance(microseconds(work));
      timer_.Cut(clock_.Now());
      clock_.Advance(microseconds(gap / 2));
      timer_.Cut(clock_.Now());  // another one behind it
      clock_.Advance(microseconds(gap / 2));
    }
    timer_.NextHead(clock_.Now());
  };
  EXPECT_FALSE(timer_.waits());
  run(100, 900);
  EXPECT_TRUE(timer_.waits());
  run(900, 100);
  EXPECT_FALSE(timer_.waits());
}

TEST_F(PassTimerTest, AnEntryThatIsForgottenIsNotTold) {
  {
    TraceEntry gone{Identity(Externals(&frontend_))};
    Pass(gone, Mode::kReplay, 10, 1);
    timer_.Forget(gone);
  }
  EXPECT_FALSE(timer_.runs());
  EXPECT_EQ(timer_.NextHead(clock_.Now()), Profit::Duration::zero());
}

}  // namespace
}  // namespace reprise::scheduler
