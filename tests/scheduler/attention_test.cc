// A stream is let pass where watching it does not pay, and only there.

#include "scheduler/attention.h"

#include <gtest/gtest.h>

namespace reprise::scheduler {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Duration = Attention::Duration;

// A program whose ops take so long, and the clock that it goes by.
class Program {
 public:
  Duration watched = milliseconds(20);    // kOps ops, while it is watched
  Duration unwatched = milliseconds(20);  // while it is let pass
  uint64_t replayed_share = 0;            // of kOps, while it is watched
  Duration promises_for{};  // from its beginning: plans are made of all of it
  uint64_t promising = 0;   // of kOps, while it is watched: the same
  double saved_share = 0;   // of the time, by replays, while it is watched
  uint64_t traces = 1;      // of kOps, while it is watched
  uint64_t known = Attention::kOps;  // ops of those that had come before

  void Run(Duration duration) {
    for (const auto end = now_ + duration; now_ < end;) {
      const bool asleep = attention.asleep();
      Wait(asleep ? unwatched : watched);
      (asleep ? asleep_ : awake_) += asleep ? unwatched : watched;
      replayed_ += asleep ? 0 : replayed_share;
      if (!asleep) {
        saved_ += Duration(static_cast<Duration::rep>(
            saved_share * static_cast<double>(watched.count())));
      }
      if (now_ - begun_ < promises_for) {
        promising_ += Attention::kOps;
      } else if (!asleep) {
        promising_ += promising;
      }
      traces_ += asleep ? 0 : traces;
      known_ += asleep ? 0 : known;
      attention.Look({.replayed = replayed_,
                      .traces = traces_,
                      .known = known_,
                      .promising = promising_,
                      .saved = saved_},
                     now_);
    }
  }
  void Wait(Duration duration) { now_ += duration; }
  // The share of the time in which it was let pass.
  double rest() const {
    return static_cast<double>(asleep_.count()) /
           static_cast<double>((asleep_ + awake_).count());
  }

  Duration asleep() const { return asleep_; }

  Attention attention;

 private:
  const Attention::Clock::time_point begun_{seconds(1)};
  Attention::Clock::time_point now_ = begun_;
  uint64_t promising_ = 0;
  Duration asleep_{};
  Duration awake_{};
  uint64_t replayed_ = 0;
  uint64_t traces_ = 0;
  uint64_t known_ = 0;
  Duration saved_{};
};

TEST(AttentionTest, StreamThatGainsNothingIsLetPassMostOfTheTime) {
  Program program;
  program.watched = milliseconds(21);
  program.Run(seconds(300));
  EXPECT_GT(program.rest(), 0.9);
  EXPECT_EQ(program.attention.watched(), milliseconds(21));
  EXPECT_EQ(program.attention.unwatched(), milliseconds(20));
}

TEST(AttentionTest, StreamThatIsReplayedIsNeverLetPass) {
  Program program;
  program.watched = milliseconds(10);
  program.replayed_share = Attention::kOps;
  program.Run(seconds(300));
  EXPECT_EQ(program.rest(), 0.0);
}

TEST(AttentionTest, FewReplaysThatGainMuchAreKept) {
  Program program;
  program.watched = milliseconds(15);
  program.replayed_share = Attention::kOps / 4;
  program.Run(seconds(300));
  EXPECT_LT(program.rest(), 0.02);
}

// Where plans show what they save, nothing has to be let pass to find it out.
TEST(AttentionTest, StreamThatPlansSaveTimeOfIsNeverLetPass) {
  Program program;
  program.watched = milliseconds(15);
  program.replayed_share = Attention::kOps / 4;
  program.saved_share = 0.1;
  program.Run(seconds(300));
  EXPECT_EQ(program.rest(), 0.0);
}

TEST(AttentionTest, WhatSavesNextToNothingMustPayWhenItIsCompared) {
  Program program;
  program.watched = milliseconds(21);
  program.replayed_share = Attention::kOps / 4;
  program.saved_share = 0.01;
  program.Run(seconds(300));
  EXPECT_GT(program.rest(), 0.8);
}

TEST(AttentionTest, BeginningIsNotJudged) {
  Program program;
  program.watched = milliseconds(50);
  program.Run(Attention::kLearn + Attention::kMeasure / 2);
  EXPECT_EQ(program.rest(), 0.0);
}

// Its passes are long, so that it takes some seconds to learn them.
TEST(AttentionTest, StreamIsNotJudgedWhilePlansAreMade) {
  Program program;
  program.watched = milliseconds(21);
  program.promises_for = seconds(5);
  program.Run(seconds(5));
  EXPECT_EQ(program.rest(), 0.0);
  program.watched = milliseconds(10);
  program.replayed_share = Attention::kOps;
  program.Run(seconds(300));
  EXPECT_EQ(program.rest(), 0.0);
}

TEST(AttentionTest, StreamThatNeverStopsLearningIsLetPassToo) {
  Program program;
  program.watched = milliseconds(21);
  program.promises_for = seconds(1000);
  program.Run(seconds(300));
  EXPECT_GT(program.rest(), 0.85);
}

// Whether plans of the little that it does may pay makes no difference.
TEST(AttentionTest, LittleThatPromisesIsNotWaitedFor) {
  Program program;
  program.watched = milliseconds(21);
  program.promising = Attention::kOps / 32;
  program.Run(seconds(4));
  EXPECT_GT(program.rest(), 0.0);
}

// Its plans go, and others are made in some seconds: its traces were joined.
TEST(AttentionTest, StreamThatPaidIsNotJudgedWhileItIsLearnedAnew) {
  Program program;
  program.watched = milliseconds(10);
  program.replayed_share = Attention::kOps;
  program.Run(seconds(60));
  for (int i = 0; i < 20; ++i) {
    program.replayed_share = 0;
    program.promising = Attention::kOps;
    program.watched = milliseconds(25);
    program.Run(seconds(4));
    program.replayed_share = Attention::kOps;
    program.promising = 0;
    program.watched = milliseconds(10);
    program.Run(seconds(10));
  }
  EXPECT_EQ(program.rest(), 0.0);
}

// Who paid for little is not waited for for long.
TEST(AttentionTest, PatienceMustBeEarned) {
  Program program;
  program.watched = milliseconds(21);
  program.promising = Attention::kOps;
  program.Run(seconds(40));  // all of it is used up
  Duration rested{};
  for (int i = 0; i < 40; ++i) {
    program.replayed_share = Attention::kOps;
    program.promising = 0;
    while (program.attention.asleep()) program.Run(milliseconds(20));
    program.Run(milliseconds(2500));
    program.replayed_share = 0;
    program.promising = Attention::kOps;
    const Duration begun = program.asleep();
    program.Run(seconds(16));
    rested += program.asleep() - begun;
  }
  EXPECT_GT(rested, 40 * seconds(7));
}

// It repeats itself from the middle of a long rest on.
TEST(AttentionTest, StreamThatMayPayIsGivenTimeBehindARest) {
  Program program;
  program.watched = milliseconds(21);
  program.promises_for = seconds(20);
  program.Run(seconds(300));
  while (!program.attention.asleep()) program.Run(milliseconds(20));
  while (program.attention.asleep()) program.Run(milliseconds(20));
  program.promising = Attention::kOps;
  program.Run(seconds(4));
  EXPECT_FALSE(program.attention.asleep());
  program.promising = 0;
  program.replayed_share = Attention::kOps;
  const Duration before = program.asleep();
  program.Run(seconds(300));
  EXPECT_EQ(program.asleep(), before);
}

// When what it did before has shown that this pays, the next rest is a short
// one again, however long others were.
TEST(AttentionTest, RestsAreShortAgainBehindWhatPaid) {
  Program program;
  program.watched = milliseconds(21);
  program.Run(seconds(600));
  program.replayed_share = Attention::kOps;
  program.Run(2 * Attention::kLongest);
  ASSERT_FALSE(program.attention.asleep());
  program.replayed_share = 0;
  while (!program.attention.asleep()) program.Run(milliseconds(20));
  program.replayed_share = Attention::kOps;
  const Duration before = program.asleep();
  program.Run(seconds(100));
  EXPECT_LT(program.asleep() - before,
            Attention::kShortest + Attention::kTrial + milliseconds(100));
}

// A measurement is over before the first of them has come to its end.
TEST(AttentionTest, PassesThatTakeSecondsAreAwaited) {
  Program program;
  program.watched = program.unwatched = milliseconds(100);
  constexpr int kLooksAPass = 25;
  for (int look = 0; look < 200; ++look) {
    const bool ends = look % kLooksAPass == kLooksAPass - 1;
    program.traces = ends ? 1 : 0;
    const bool learned = look >= 3 * kLooksAPass;
    program.promising = ends && !learned ? kLooksAPass * Attention::kOps : 0;
    program.replayed_share = learned ? Attention::kOps : 0;
    program.Run(milliseconds(100));
  }
  EXPECT_EQ(program.rest(), 0.0);
}

TEST(AttentionTest, ProgramThatChangesIsTakenUpAgain) {
  Program program;
  program.watched = milliseconds(21);
  program.Run(seconds(300));
  const double before = program.rest();
  program.watched = milliseconds(10);
  program.replayed_share = Attention::kOps;
  program.Run(2 * Attention::kLongest);
  program.Run(seconds(600));
  EXPECT_FALSE(program.attention.asleep());
  EXPECT_LT(program.rest(), before / 2);
}

// Nothing has to be measured to know that it gains nothing.
TEST(AttentionTest, StreamOfNewTracesIsGlancedAt) {
  Program program;
  program.watched = program.unwatched = milliseconds(4);
  program.known = Attention::kOps / 32;
  program.Run(seconds(1));
  EXPECT_GT(program.rest(), 0.9);
  EXPECT_TRUE(program.attention.backs_off());
  program.Run(seconds(300));
  EXPECT_GT(program.rest(), 0.93);
  EXPECT_EQ(program.attention.watched(), Duration{});
}

TEST(AttentionTest, ShortTracesTellSoonerThatTheyAreNew) {
  Program program;
  program.watched = program.unwatched = milliseconds(30);
  program.known = 0;
  program.traces = 2 * Attention::kTracesALook * Attention::kGlance;
  program.Run(milliseconds(31));
  EXPECT_TRUE(program.attention.backs_off());
  program.Run(seconds(10));
  EXPECT_GT(program.rest(), 0.9);
}

TEST(AttentionTest, StreamThatComesAgainBehindNewTracesIsTakenUp) {
  Program program;
  program.watched = program.unwatched = milliseconds(4);
  program.known = 0;
  program.Run(milliseconds(500));
  program.known = Attention::kOps;
  program.watched = milliseconds(2);
  program.replayed_share = Attention::kOps;
  // The back-off that it has begun is fifteen times a glance.
  program.Run(milliseconds(4) * Attention::kBackOff * Attention::kGlance);
  EXPECT_FALSE(program.attention.asleep());
  const double before = program.rest();
  program.Run(seconds(300));
  EXPECT_LT(program.rest(), before / 50);
}

// Passes longer than a glance: the next ones are longer, too.
TEST(AttentionTest, GlancesGrowUntilTheySeeWhatRepeats) {
  Program program;
  program.watched = program.unwatched = milliseconds(4);
  constexpr uint64_t kLooksAPass = 3 * Attention::kGlance;
  uint64_t awake = 0;
  for (int look = 0; look < 8'000; ++look) {
    const bool asleep = program.attention.asleep();
    awake = asleep ? 0 : awake + 1;
    // Of two passes the second one is known.
    program.known = awake > 2 * kLooksAPass ? Attention::kOps : 0;
    if (program.known > 0) program.replayed_share = Attention::kOps;
    program.Run(milliseconds(4));
  }
  EXPECT_FALSE(program.attention.asleep());
  EXPECT_GT(awake, 4'000u);
}

TEST(AttentionTest, TimeInWhichTheProgramIsAwayIsNotCounted) {
  Program program;
  program.watched = milliseconds(15);
  program.replayed_share = Attention::kOps / 4;
  for (int i = 0; i < 200; ++i) {
    program.Run(milliseconds(400));
    if (!program.attention.asleep()) program.Wait(seconds(1));
  }
  EXPECT_EQ(program.attention.watched(), milliseconds(15));
  EXPECT_LT(program.rest(), 0.05);
}

}  // namespace
}  // namespace reprise::scheduler
