// By policy measured a stream is replayed where that takes less time by the
// session's clock, learns no more than it may, and is let pass where watching
// it gains nothing. The bits are eager's all the time.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <random>
#include <vector>

#include "scheduler/attention.h"
#include "scheduler/profit.h"
#include "scheduler/runtime.h"
#include "tests/scheduler/twin_programs.h"

namespace reprise::scheduler {
namespace {

using sim::ModelProgram;
using sim::ModelTensor;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

class MeasuredTest : public TwinPrograms {
 protected:
  static constexpr int kOps = 12;  // of a pass

  // What an op costs the program.
  struct Costs {
    Profit::Duration followed = microseconds(10);
    Profit::Duration eager = microseconds(10);  // compared with words only
    Profit::Duration observed = microseconds(12);
    Profit::Duration recorded = microseconds(12);
    Profit::Duration unwatched = microseconds(10);
  };

  MeasuredTest() {
    policy_ = base::Policy::kMeasured;
    Restart();
  }
  void Restart(size_t plan_budget_bytes = size_t{1} << 20) {
    TwinPrograms::Restart(plan_budget_bytes);
    unwatched_program_ = std::make_unique<ModelProgram>(frontend_, nullptr);
  }

  // An op on either side; on the watched one it takes its time.
  ModelTensor Op(Side& side, sim::ModelOp op, std::vector<ModelTensor> inputs,
                 float attribute) {
    if (side.program == plain_program_.get()) {
      return side.program->Run(op, std::move(inputs), attribute);
    }
    ++ops_;
    if (asleep_.on()) {
      ++slept_;
      ModelTensor out =
          unwatched_program_->Run(op, std::move(inputs), attribute);
      clock_.Advance(costs_.unwatched);
      if (++passed_over_ % Runtime::kOpsPassedOver == 0) {
        session_->PassOver(Runtime::kOpsPassedOver);
      }
      return out;
    }
    const int followed = side.program->followed();
    const int observed = side.program->observed();
    ModelTensor out = side.program->Run(op, std::move(inputs), attribute);
    if (side.program->followed() > followed) {
      clock_.Advance(costs_.followed);
    } else if (recordings_open_ > 0) {
      clock_.Advance(costs_.recorded);
    } else {
      clock_.Advance(side.program->observed() > observed ? costs_.observed
                                                         : costs_.eager);
    }
    return out;
  }

  // kOps ops; with `order` in another one than without, on shorter rows.
  Held Step(Side& side, float seed, uint32_t order = 0) {
    std::mt19937 random(order);
    ModelTensor x = side.program->Make(seed, order == 0 ? 32 : 16);
    std::vector<ModelTensor> held;
    for (size_t i = 0; i < kOps; ++i) {
      const size_t kind = order == 0 ? i % 3 : random() % 3;
      const ModelTensor& weight = side.weights[i % side.weights.size()];
      if (kind == 0) {
        x = Op(side, sim::ModelOp::kAdd, {x, weight}, 0);
        held.push_back(x);
      } else if (kind == 1) {
        x = Op(side, sim::ModelOp::kScale, {x}, 0.5f);
      } else {
        Op(side, sim::ModelOp::kMix, {x, weight}, 0);
      }
    }
    return held;
  }

  void Pass(uint32_t order = 0) {
    const auto seed = static_cast<float>(++passes_ % 100);
    Both([&](Side& side) { return Step(side, seed, order); });
  }
  void Run(int passes) {
    for (; passes > 0 && !HasFatalFailure(); --passes) Pass();
  }

  // The share of all ops since the last call that were followed, or let pass.
  struct Shares {
    double followed = 0;
    double slept = 0;
  };
  Shares SharesSince() {
    const Stats now = stats();
    const auto ops = static_cast<double>(ops_ - ops_before_);
    const Shares shares{
        static_cast<double>(now.followed - followed_before_) / ops,
        static_cast<double>(slept_ - slept_before_) / ops};
    ops_before_ = ops_;
    followed_before_ = now.followed;
    slept_before_ = slept_;
    return shares;
  }

  Costs costs_;

 private:
  std::unique_ptr<ModelProgram> unwatched_program_;
  int passes_ = 0;
  uint64_t ops_ = 0;
  uint64_t slept_ = 0;
  uint64_t passed_over_ = 0;
  uint64_t ops_before_ = 0;
  uint64_t followed_before_ = 0;
  uint64_t slept_before_ = 0;
};

TEST_F(MeasuredTest, ReplayIsKeptWhereItPays) {
  costs_.followed = microseconds(2);
  Run(200);
  SharesSince();
  Run(3000);
  EXPECT_GT(SharesSince().followed, 0.98) << Traces();
  EXPECT_EQ(stats().squashes, 0u);
}

TEST_F(MeasuredTest, EagerIsKeptWhereReplayIsSlower) {
  costs_.followed = microseconds(15);
  Run(200);
  SharesSince();
  Run(3000);
  const double followed = SharesSince().followed;
  EXPECT_LT(followed, 0.02);
  // It was tried, and is tried again.
  EXPECT_GT(followed, 0.0) << Traces();
  EXPECT_EQ(stats().squashes, 0u);
}

TEST_F(MeasuredTest, ReplayMustPayByTheMargin) {
  costs_.eager = costs_.observed = microseconds(1000);
  costs_.followed = microseconds(985);
  Run(200);
  SharesSince();
  Run(1000);
  EXPECT_LT(SharesSince().followed, 0.1);
  Restart();
  costs_.followed = microseconds(960);
  Run(200);
  SharesSince();
  Run(1000);
  EXPECT_GT(SharesSince().followed, 0.9);
}

// A recorded or validated pass counts by what it takes longer than a watched
// one.
TEST_F(MeasuredTest, SaysWhatLearningTook) {
  costs_.observed = microseconds(100);
  costs_.recorded = microseconds(1000);
  while (stats().recorded < 2 && !HasFatalFailure()) Pass();
  costs_.observed = microseconds(300);
  Run(2000);
  const Stats learned = stats();
  ASSERT_GT(learned.replays, 0u) << Traces();
  ASSERT_GE(learned.recorded, 2u);
  EXPECT_GT(learned.recording_us, learned.recorded * (kOps - 1) * 850);
  EXPECT_LT(learned.recording_us, learned.recorded * kOps * 1000);
  EXPECT_GT(learned.validating_us, learned.validated * (kOps - 1) * 150);
  EXPECT_LT(learned.validating_us, learned.validated * kOps * 300);
  Run(200);
  EXPECT_EQ(stats().recording_us, learned.recording_us);
}

// Two traces in turn, of which replaying the one pays and the other does not:
// each is decided by its own time.
TEST_F(MeasuredTest, TwoTracesOfALoopAreDecidedEachByItself) {
  const auto run = [this](int passes) {
    for (; passes > 0 && !HasFatalFailure(); --passes) {
      costs_.followed = microseconds(2);
      Pass();
      session_->Interrupt("between the two");
      costs_.followed = microseconds(11);
      Pass(/*order=*/1);
      session_->Interrupt("behind both");
    }
  };
  run(300);
  SharesSince();
  run(2000);
  const double followed = SharesSince().followed;
  EXPECT_GT(followed, 0.47) << Traces();
  EXPECT_LT(followed, 0.53) << Traces();
  EXPECT_GT(stats().saved_us, 150'000u);
}

// The program is away for a hundred times as long as a pass takes, and comes
// back when it likes.
TEST_F(MeasuredTest, LongPausesBetweenPassesHideNoSaving) {
  std::mt19937 random(1);
  std::uniform_int_distribution<int> pause(0, 20'000);
  costs_.followed = microseconds(2);
  const auto run = [&](int passes) {
    for (; passes > 0 && !HasFatalFailure(); --passes) {
      Pass();
      clock_.Advance(microseconds(pause(random)));
    }
  };
  run(300);
  SharesSince();
  run(2000);
  EXPECT_GT(SharesSince().followed, 0.95) << Traces();
}

// The device takes longer than the host, and each pass ends where the program
// waits for it.
TEST_F(MeasuredTest, NothingIsReplayedWhereTheDeviceIsWaitedFor) {
  costs_.followed = microseconds(2);
  const auto run = [&](int passes) {
    for (; passes > 0 && !HasFatalFailure(); --passes) {
      const base::Clock::TimePoint done = clock_.Now() + microseconds(500);
      Pass();
      session_->Interrupt("the host waits for the device");
      clock_.Advance(std::max(done - clock_.Now(), Profit::Duration{}));
    }
  };
  run(300);
  SharesSince();
  run(2000);
  EXPECT_LT(SharesSince().followed, 0.05) << Traces();
  EXPECT_EQ(stats().squashes, 0u);
}

// Half of what the account starts with is left to others.
TEST_F(MeasuredTest, LittleIsLearnedAtOnceWhereTheDeviceIsWaitedFor) {
  costs_.observed = milliseconds(2);  // a pass that is looked at: 24 ms
  const auto run = [&](int passes) {
    for (; passes > 0 && !HasFatalFailure(); --passes) {
      Pass();
      session_->Interrupt("the host waits for the device");
      clock_.Advance(milliseconds(100));
    }
  };
  costs_.recorded = milliseconds(6);  // and one that is recorded: 72 ms
  run(4);                             // half a second
  EXPECT_LT(stats().recorded, 2u) << Traces();
  run(200);
  EXPECT_GT(stats().replays, 0u) << Traces();
}

// Short ones are not recorded at once, and are watched until then: which of
// them has come tells none of their first ops.
TEST_F(MeasuredTest, TracesThatBeginAlikeAreToldApartBeforeTheyAreRecorded) {
  const auto parts = [this] {
    Both([&](Side& side) {
      Held held;
      for (const int ops : {6, 7, 8}) {
        ModelTensor x =
            Op(side, sim::ModelOp::kAdd, {side.weights[0], side.weights[1]}, 0);
        for (int i = 0; i < ops; ++i) {
          if ((i + ops) % 3 == 0) {
            x = Op(side, sim::ModelOp::kScale, {x}, 0.5f);
          } else {
            Op(side, sim::ModelOp::kMix, {x, side.weights[2]}, 0);
          }
        }
        held.push_back(x);
      }
      return held;
    });
  };
  costs_.followed = microseconds(4);
  for (int i = 0; i < 40; ++i) parts();
  EXPECT_EQ(stats().signatures, 3u) << Traces();
  EXPECT_GT(stats().replays, 0u) << Traces();
  EXPECT_EQ(stats().squashes, 0u) << Traces();
}

// A step of two traces, with a look of the host between them or not.
class MeasuredJoiningTest : public MeasuredTest {
 protected:
  static constexpr size_t kSizes = 40;  // so that few ops are alike

  void MakeRows() {
    Restart(size_t{64} << 20);
    for (size_t i = 0; i < kSizes; ++i) {
      for (Side* side : {&watched_, &plain_}) {
        side->weights.push_back(
            side->program->Make(static_cast<float>(i), 16 + i));
      }
    }
  }
  void TwoParts(bool looks_between) {
    const auto seed = static_cast<float>(++steps_ % 100);
    Both([&](Side& side) {
      ModelTensor x = side.program->Make(seed, 16);
      Held rows(side.weights.end() - kSizes, side.weights.end());
      const Held weights = rows;
      std::mt19937 random(1);
      const auto part = [&](size_t head, int ops) {
        x = Op(side, sim::ModelOp::kAdd, {x, weights[head]}, 0);
        for (; ops > 0; --ops) {
          const size_t i = 2 + random() % (kSizes - 2);
          rows[i] =
              random() % 2 == 0
                  ? Op(side, sim::ModelOp::kScale, {rows[i]}, 0.5f)
                  : Op(side, sim::ModelOp::kAdd, {rows[i], weights[i]}, 0);
        }
        x = Op(side, sim::ModelOp::kAdd, {x, rows.back()}, 0);
      };
      part(0, 300);
      if (looks_between) side.program->Read(x);
      part(1, 1300);
      side.program->Read(x);
      return Held{x};
    });
  }
  void LearnBothApart(microseconds followed) {
    costs_ = {.followed = followed,
              .eager = microseconds(35),
              .observed = microseconds(37),
              .recorded = microseconds(80),
              .unwatched = microseconds(35)};
    MakeRows();
    for (int i = 0; i < 12; ++i) TwoParts(/*looks_between=*/true);
  }
  bool joined() {
    return notes()["two traces that always came together are one"] > 0;
  }

 private:
  int steps_ = 0;
};

// The long one takes most of a second to be learned, and both together, when
// they are joined, take as long again. Reprise is switched off now and then,
// for as long as the program likes.
TEST_F(MeasuredJoiningTest, LongTracesAreReplayedAgainSoon) {
  LearnBothApart(/*followed=*/microseconds(20));
  const auto blocks = [&](int count) {
    for (; count > 0 && !HasFatalFailure(); --count) {
      for (int i = 0; i < 10; ++i) TwoParts(/*looks_between=*/false);
      session_->Pause();
      clock_.Advance(seconds(3));
      session_->Resume();
    }
  };
  blocks(12);
  ASSERT_TRUE(joined()) << Traces();
  EXPECT_EQ(SharesSince().slept, 0.0) << Traces();
  blocks(5);
  EXPECT_GT(SharesSince().followed, 0.95) << Traces();
}

// One by one they save nothing.
TEST_F(MeasuredJoiningTest, WhatIsAboutToBeJoinedIsNotLetPassBefore) {
  LearnBothApart(/*followed=*/microseconds(35));
  for (int i = 0; i < 100 && !joined(); ++i) TwoParts(/*looks_between=*/false);
  ASSERT_TRUE(joined()) << Traces();
  EXPECT_EQ(SharesSince().slept, 0.0) << Traces();
  // Nor do they together.
  for (int i = 0; i < 200; ++i) TwoParts(/*looks_between=*/false);
  EXPECT_GT(SharesSince().slept, 0.5) << Traces();
}

// Passes end where Reprise is switched off. What the program does then is no
// part of them, and no waiting either.
TEST_F(MeasuredTest, WhatIsDoneWhileItIsOffIsNoPartOfAPass) {
  costs_.followed = microseconds(2);
  std::mt19937 random(1);
  std::uniform_int_distribution<int> away(0, 20'000);
  const auto run = [&](int passes) {
    for (; passes > 0 && !HasFatalFailure(); --passes) {
      Pass();
      session_->Interrupt("the host waits for the device");
      session_->Pause();
      clock_.Advance(milliseconds(away(random)));
      session_->Resume();
    }
  };
  run(100);
  const Stats before = stats();
  SharesSince();
  run(1000);
  EXPECT_GT(SharesSince().followed, 0.9) << Traces();
  const uint64_t replays = stats().replays - before.replays;
  EXPECT_LE(stats().saved_us - before.saved_us,
            replays * 10 * kOps);  // 8 us an op
}

// While replay is kept eager is tried, in trials that become seldom.
TEST_F(MeasuredTest, TheOtherOneIsTriedMoreAndMoreSeldom) {
  costs_.followed = microseconds(2);
  Run(30);
  SharesSince();
  Run(4000);
  const double first = 1 - SharesSince().followed;
  EXPECT_GT(first, 0.0);
  EXPECT_LT(first, 0.01);
  Run(40'000);
  const double later = 1 - SharesSince().followed;
  EXPECT_GT(later, 0.0);
  EXPECT_LT(later, first / 2);
}

TEST_F(MeasuredTest, ProgramWhoseReplaysBeginToPayIsReplayed) {
  costs_.followed = microseconds(15);
  Run(1000);
  SharesSince();
  costs_.followed = microseconds(2);
  Run(10'000);  // until the next trials
  SharesSince();
  Run(1000);
  EXPECT_GT(SharesSince().followed, 0.95) << Traces();
  costs_.followed = microseconds(30);
  Run(10'000);
  SharesSince();
  Run(1000);
  EXPECT_LT(SharesSince().followed, 0.05) << Traces();
}

// What a fiftieth of the time allows.
TEST_F(MeasuredTest, AllowanceIsUsedUpAndGrowsAgain) {
  costs_.observed = milliseconds(200);  // a pass that is looked at: 2.4 s
  costs_.recorded = milliseconds(400);  // and as much again
  costs_.followed = microseconds(2);
  Run(30);
  EXPECT_EQ(stats().recorded, 1u) << Traces();
  // The passes that were only watched have earned little.
  Run(60);
  EXPECT_EQ(stats().recorded, 1u);
  clock_.Advance(seconds(120));
  Run(20);
  EXPECT_EQ(stats().recorded, 2u);
  EXPECT_EQ(stats().validated, 0u);
  // No more than a quarter of a second is ever saved up.
  costs_.observed = milliseconds(400);
  clock_.Advance(std::chrono::hours(10));
  Run(20);
  EXPECT_EQ(stats().validated, 1u) << Traces();
  EXPECT_EQ(stats().replays, 0u);
  clock_.Advance(std::chrono::hours(10));
  Run(20);
  EXPECT_EQ(stats().validated, 2u) << Traces();
  SharesSince();
  Run(100);
  EXPECT_GT(SharesSince().followed, 0.9) << Traces();
}

// A pass of 72 ms, as of a training step, which takes a third more while it is
// recorded, and twice as long while it is validated: its first second is hardly
// longer than eager's, and it is replayed soon behind that.
TEST_F(MeasuredTest, FirstSecondIsHardlyLonger) {
  costs_.eager = costs_.observed = costs_.unwatched = milliseconds(6);
  costs_.recorded = milliseconds(8);
  costs_.followed = milliseconds(1);
  const base::Clock::TimePoint begin = clock_.Now();
  int passes = 0;
  while (stats().replays == 0 && clock_.Now() - begin < seconds(6) &&
         !HasFatalFailure()) {
    Pass();
    ++passes;
    if (stats().recorded >= 2) costs_.observed = milliseconds(12);
    const Profit::Duration took = clock_.Now() - begin;
    if (took < seconds(1)) {
      EXPECT_LE(took - passes * kOps * costs_.eager, milliseconds(35))
          << Traces();
    }
  }
  EXPECT_GT(stats().replays, 0u) << Traces();
}

// Passes of less than 5 ms are learned without a pause: as soon as enough ops
// have come they are recorded twice, validated twice, and replayed.
TEST_F(MeasuredTest, ShortPassesAreLearnedAtOnce) {
  costs_.eager = costs_.observed = costs_.unwatched = microseconds(350);
  costs_.recorded = microseconds(470);
  costs_.followed = microseconds(100);
  while (stats().recorded == 0 && !HasFatalFailure()) Pass();
  Run(4);
  EXPECT_GT(stats().replays, 0u) << Traces();
}

// Its passes begin alike, and go on another way each time.
class MeasuredVaryingTest : public MeasuredTest {
 protected:
  static constexpr uint32_t kWays = 40;

  // Six ops that all have, then six of that way, and a look of the host.
  void Pass(uint32_t way) {
    Both([&](Side& side) {
      ModelTensor x = side.program->Make(1, 8);
      for (int i = 0; i < 6; ++i) {
        x = Op(side, sim::ModelOp::kScale, {x}, 0.5f);
      }
      for (int i = 0; i < 6; ++i) {
        x = Op(side, sim::ModelOp::kAdd, {x, side.weights[(way >> i) % 2]}, 0);
      }
      return Held{x};
    });
    session_->Interrupt("the host looks");
  }
};

// Nobody knows which way a pass goes when it begins. What was recorded for
// another one than came is stopped there, and tried more and more rarely.
TEST_F(MeasuredVaryingTest, RecordingsInVainEndAndBecomeRare) {
  costs_.eager = costs_.observed = costs_.unwatched = microseconds(100);
  costs_.recorded = microseconds(300);
  costs_.followed = microseconds(50);
  constexpr int kPasses = 4000;
  for (uint32_t seed = 1; seed <= 8 && !HasFatalFailure(); ++seed) {
    Restart();
    std::mt19937 random(seed);
    const base::Clock::TimePoint begin = clock_.Now();
    for (int i = 0; i < kPasses && !HasFatalFailure(); ++i) {
      Pass(random() % kWays);
    }
    const Profit::Duration took = clock_.Now() - begin;
    EXPECT_GT(stats().recorded, 0u);
    EXPECT_LT(took - kPasses * kOps * costs_.eager,
              milliseconds(15) + took / 25)
        << seed << "\n"
        << Traces();
  }
}

// What a pass takes anyway is not counted: one that is recorded takes no longer
// than one that is watched.
TEST_F(MeasuredTest, LongPassesAreRecordedWithinTheAllowance) {
  costs_.observed = costs_.recorded = milliseconds(200);
  Run(30);
  EXPECT_EQ(stats().recorded, 2u) << Traces();
}

// So many traces in turn, which are recorded at ten times what they cost.
class MeasuredInTurnTest : public MeasuredTest {
 protected:
  uint64_t RecordedOf(uint32_t traces, uint32_t rounds) {
    costs_.eager = costs_.observed = costs_.unwatched = microseconds(100);
    costs_.recorded = milliseconds(1);
    for (uint32_t i = 0; i < rounds * traces && !HasFatalFailure(); ++i) {
      Both([&](Side& side) { return OnRows(side, 1 + i % traces, i % 100); });
      session_->Interrupt("between two traces");
    }
    return stats().recorded;
  }

 private:
  Held OnRows(Side& side, uint32_t rows, uint32_t seed) {
    ModelTensor x = side.program->Make(static_cast<float>(seed), rows);
    for (int i = 0; i < kOps; ++i) {
      x = i % 3 == 0 ? Op(side, sim::ModelOp::kScale, {x}, 0.5f)
                     : Op(side, sim::ModelOp::kAdd, {x, x}, 0);
    }
    return {x};
  }
};

// Each of them comes again, and none of them soon: a fiftieth of 11 s goes into
// them.
TEST_F(MeasuredInTurnTest, LittleIsLearnedAtOnceOfTracesThatComeSeldom) {
  const uint64_t recorded = RecordedOf(/*traces=*/300, /*rounds=*/30);
  EXPECT_GT(recorded, 0u);
  EXPECT_LT(recorded, 40u);
}

// A sixteenth more.
TEST_F(MeasuredInTurnTest, MuchIsLearnedOfTracesThatComeOften) {
  EXPECT_EQ(RecordedOf(/*traces=*/30, /*rounds=*/300), 60u);
}

// Until it does, what is known is passed by its words.
TEST_F(MeasuredTest, StreamThatMayNotLearnIsNotLookedAt) {
  costs_.observed = milliseconds(200);
  costs_.recorded = milliseconds(400);
  Run(30);
  ASSERT_EQ(stats().recorded, 1u);
  const int before = watched_program_->observed();
  Run(15);
  // One pass in sixteen is watched whole.
  EXPECT_LE(watched_program_->observed() - before, kOps);
}

// Every pass has its ops in another order, so that nothing is replayed.
TEST_F(MeasuredTest, StreamWithoutRepetitionIsLetPassAndWatchedAgain) {
  costs_ = {.followed = microseconds(40),
            .eager = microseconds(400),
            .observed = microseconds(440),
            .recorded = microseconds(440),
            .unwatched = microseconds(400)};
  constexpr int kPasses = 32 * Attention::kOps / kOps;  // a phase and more
  uint32_t order = 0;
  const auto shuffled = [&](int passes) {
    for (; passes > 0 && !HasFatalFailure(); --passes) Pass(++order);
  };
  shuffled(8 * kPasses);
  EXPECT_GT(SharesSince().slept, 0.5);
  EXPECT_TRUE(
      notes().contains("the stream was not watched for a while: almost nothing "
                       "in it had come before"));
  // It repeats itself now: that is seen when it is watched again, and then it
  // is let pass no more.
  for (int i = 0; i < 20 && stats().replays < 1000; ++i) Run(kPasses);
  SharesSince();
  Run(4 * kPasses);
  const Shares shares = SharesSince();
  EXPECT_EQ(shares.slept, 0.0);
  EXPECT_GT(shares.followed, 0.95);
}

TEST_F(MeasuredTest, StreamThatIsWorthWatchingIsNeverLetPass) {
  costs_ = {.followed = microseconds(40),
            .eager = microseconds(400),
            .observed = microseconds(440),
            .recorded = microseconds(440),
            .unwatched = microseconds(400)};
  Run(10 * 32 * Attention::kOps / kOps);
  EXPECT_EQ(SharesSince().slept, 0.0);
}

TEST_F(MeasuredTest, ResetBeginsWithANewAccountOfAttention) {
  costs_ = {.followed = microseconds(400),
            .eager = microseconds(400),
            .observed = microseconds(440),
            .recorded = microseconds(440),
            .unwatched = microseconds(400)};
  uint32_t order = 0;
  for (int i = 0; i < 20'000 && !asleep_.on(); ++i) Pass(++order);
  ASSERT_TRUE(asleep_.on());
  session_->Reset();
  EXPECT_FALSE(asleep_.on());
  for (int i = 0; i < 100; ++i) Pass(++order);
  EXPECT_FALSE(asleep_.on());
  EXPECT_EQ(stats().ops, 100u * kOps);
}

}  // namespace
}  // namespace reprise::scheduler
