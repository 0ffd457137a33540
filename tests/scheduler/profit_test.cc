// Of replay and eager the one that the program is better off with is kept, and
// the other tried now and then.

#include "scheduler/profit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
#include <random>
#include <vector>

namespace reprise::scheduler {
namespace {

using std::chrono::microseconds;
using std::chrono::nanoseconds;
using Duration = Profit::Duration;
using Finding = Profit::Finding;
using Mode = Profit::Mode;

constexpr double kMargin = 0.05;

// A loop whose passes take the host so long, and the device; the program waits
// for that at the end of each pass, and does something else in between.
class Loop {
 public:
  Duration eager = microseconds(1000);
  Duration replay = microseconds(1000);
  Duration eager_device{};
  Duration replay_device{};
  Duration between{};
  double between_noise = 0;  // a standard deviation, of `between`
  double noise = 0.01;       // of all else

  Mode Pass() {
    const Mode mode = profit.Choose(kMargin);
    const bool replays = mode == Mode::kReplay;
    const Duration host = Noisy(replays ? replay : eager, noise);
    const Duration device =
        Noisy(replays ? replay_device : eager_device, noise);
    profit.Passed(mode, PassTime{host, std::max(host, device) +
                                           Noisy(between, between_noise)});
    modes.push_back(mode);
    return mode;
  }
  void Run(size_t passes) {
    for (; passes > 0; --passes) Pass();
  }

  // Of the passes from `first` on.
  double Share(Mode mode, size_t first = 0) const {
    const auto begin = modes.begin() + static_cast<ptrdiff_t>(first);
    return static_cast<double>(std::count(begin, modes.end(), mode)) /
           static_cast<double>(modes.end() - begin);
  }
  // How long each block of passes of one mode was, the last one left out.
  std::vector<size_t> Blocks() const {
    std::vector<size_t> blocks;
    size_t begin = 0;
    for (size_t i = 1; i < modes.size(); ++i) {
      if (modes[i] == modes[i - 1]) continue;
      blocks.push_back(i - begin);
      begin = i;
    }
    return blocks;
  }

  Profit profit;
  std::vector<Mode> modes;

 private:
  // Never negative.
  Duration Noisy(Duration duration, double deviation) {
    const double factor =
        1.0 + deviation * std::normal_distribution<double>()(random_);
    return Duration(static_cast<Duration::rep>(
        static_cast<double>(duration.count()) * std::max(0.0, factor)));
  }

  std::mt19937 random_{7};
};

TEST(ProfitTest, ReplayIsTriedFirstThenEager) {
  Loop loop;
  EXPECT_EQ(loop.Pass(), Mode::kReplay);
  EXPECT_EQ(loop.profit.Judge(kMargin), Finding::kUnknown);
  while (loop.Pass() == Mode::kReplay) ASSERT_LT(loop.modes.size(), 20u);
  EXPECT_GE(loop.modes.size(), 4u);
}

TEST(ProfitTest, FasterReplayIsKept) {
  Loop loop;
  loop.replay = microseconds(700);
  loop.noise = 0;
  loop.Run(5000);
  EXPECT_GT(loop.Share(Mode::kReplay), 0.98);
  EXPECT_EQ(loop.profit.Judge(kMargin), Finding::kSaves);
  EXPECT_EQ(loop.profit.Median(Mode::kReplay), loop.replay);
  EXPECT_EQ(loop.profit.Median(Mode::kEager), loop.eager);
  EXPECT_EQ(loop.profit.saving(), microseconds(300));
}

// Passes may take a second.
TEST(ProfitTest, AClearDifferenceIsDecidedAfterAFewPasses) {
  Loop loop;
  loop.eager = microseconds(200'000);
  loop.replay = microseconds(80'000);
  loop.Run(7);
  EXPECT_EQ(loop.profit.finding(), Finding::kSaves);
  EXPECT_EQ(loop.modes.back(), Mode::kReplay);
  EXPECT_EQ(loop.Share(Mode::kEager), 3.0 / 7);
}

TEST(ProfitTest, WhatIsNoisyOrCloseIsTriedForLonger) {
  Loop noisy;
  noisy.eager = microseconds(200'000);
  noisy.replay = microseconds(80'000);
  noisy.noise = 0.4;
  Loop close;
  close.eager = microseconds(200'000);
  close.replay = microseconds(180'000);
  Loop brief;
  brief.replay = microseconds(400);
  for (Loop* loop : {&noisy, &close, &brief}) {
    loop->Run(9);
    EXPECT_EQ(loop->profit.finding(), Finding::kUnknown);
    loop->Run(10);
    EXPECT_NE(loop->profit.finding(), Finding::kUnknown);
  }
}

// A device that is busy with something else at the beginning hides what a plan
// saves.
TEST(ProfitTest, APlanThatDidNotPayAtOnceIsTriedAgainSoon) {
  Loop loop;
  loop.replay = microseconds(400);
  loop.eager_device = loop.replay_device = microseconds(2000);
  loop.noise = 0.001;
  loop.Run(20);
  EXPECT_EQ(loop.profit.finding(), Finding::kSavesNoTime);
  loop.eager_device = loop.replay_device = microseconds(100);
  loop.Run(100);
  EXPECT_EQ(loop.profit.finding(), Finding::kSaves);
}

// Where one mode takes five times as long, six passes of it are many.
TEST(ProfitTest, TrialsCostAHundredthOfTheTime) {
  for (const int replay : {200, 900, 1200, 5000}) {
    Loop loop;
    loop.replay = microseconds(replay);
    loop.Run(20);
    const size_t decided = loop.modes.size();
    loop.Run(20'000);
    const bool wins = replay < 1000;
    const double lost =
        loop.Share(wins ? Mode::kEager : Mode::kReplay, decided) *
        std::abs(1000.0 - replay) / std::min(1000.0, double(replay));
    EXPECT_LT(lost, 0.011) << replay;
  }
}

TEST(ProfitTest, FasterEagerIsKept) {
  Loop loop;
  loop.replay = microseconds(1300);
  loop.Run(5000);
  EXPECT_GT(loop.Share(Mode::kEager), 0.98);
  EXPECT_EQ(loop.profit.Judge(kMargin), Finding::kSavesNoHost);
  EXPECT_EQ(loop.profit.saving(), Duration::zero());
}

TEST(ProfitTest, ReplayMustSaveTheMarginOfTheHostsTime) {
  Loop just_below;
  just_below.noise = 0;
  just_below.replay = microseconds(951);
  just_below.Run(2000);
  EXPECT_GT(just_below.Share(Mode::kEager), 0.95);
  Loop just_above;
  just_above.noise = 0;
  just_above.replay = microseconds(949);
  just_above.Run(2000);
  EXPECT_GT(just_above.Share(Mode::kReplay), 0.95);
}

// The program sleeps between passes, never equally long: what the host saves
// is seen beside it, however little of the whole it is.
TEST(ProfitTest, WhatIsSavedBetweenLongPausesIsSeen) {
  for (const double noise : {0.0, 0.05, 0.5}) {
    Loop loop;
    loop.replay = microseconds(400);
    loop.between = microseconds(10'000);
    loop.between_noise = noise;
    loop.Run(5000);
    EXPECT_GT(loop.Share(Mode::kReplay, 300), 0.97) << noise;
    EXPECT_NEAR(static_cast<double>(loop.profit.saving().count()), 600e3,
                noise == 0.05 ? 600e3 : 60e3)
        << noise;
  }
}

// The host is free sooner, and waits for the device as much longer.
TEST(ProfitTest, WhereTheDeviceIsWaitedForNothingIsSaved) {
  Loop loop;
  loop.replay = microseconds(300);
  loop.eager_device = loop.replay_device = microseconds(2000);
  loop.noise = 0.001;
  loop.Run(5000);
  EXPECT_GT(loop.Share(Mode::kEager), 0.97);
  EXPECT_EQ(loop.profit.Judge(kMargin), Finding::kSavesNoTime);
  EXPECT_LT(loop.profit.saving(), microseconds(50));
}

TEST(ProfitTest, ReplayThatTakesTheDeviceLongerIsNotKept) {
  Loop loop;
  loop.replay = microseconds(300);
  loop.eager_device = microseconds(900);
  loop.replay_device = microseconds(1100);
  loop.Run(5000);
  EXPECT_GT(loop.Share(Mode::kEager), 0.97);
}

// Graphs have smaller gaps between kernels, where the host is as busy as
// before.
TEST(ProfitTest, WhatTheDeviceSavesIsSavedToo) {
  Loop loop;
  loop.eager = loop.replay = microseconds(900);
  loop.eager_device = microseconds(1600);
  loop.replay_device = microseconds(1500);
  loop.Run(20'000);
  EXPECT_GT(loop.Share(Mode::kReplay), 0.97);
  EXPECT_EQ(loop.profit.Judge(kMargin), Finding::kSaves);
}

// Half of what the host saves is waited for: the other half is saved.
TEST(ProfitTest, WhatTheDeviceLeavesOfTheSavingIsKept) {
  Loop loop;
  loop.replay = microseconds(300);
  loop.eager_device = loop.replay_device = microseconds(650);
  loop.noise = 0;
  loop.Run(5000);
  EXPECT_GT(loop.Share(Mode::kReplay), 0.97);
  EXPECT_EQ(loop.profit.saving(), microseconds(350));
}

// Whatever a program's times, what is kept costs at most a few per cent of the
// better one.
TEST(ProfitTest, RandomProgramsAreDecidedNearlyRight) {
  std::mt19937 random(11);
  const auto between = [&random](double low, double high) {
    return Duration(nanoseconds(static_cast<int64_t>(
        1e3 * std::uniform_real_distribution<double>(low, high)(random))));
  };
  for (int i = 0; i < 300; ++i) {
    Loop loop;
    loop.eager = between(50, 2000);
    loop.replay = between(50, 2000);
    loop.eager_device = between(0, 2000);
    loop.replay_device = loop.eager_device + between(-20, 60);
    loop.between = between(0, 500);
    loop.between_noise = 0.05;
    loop.noise = 0.02;
    loop.Run(4000);
    const double eager =
        static_cast<double>(std::max(loop.eager, loop.eager_device).count());
    const double replay =
        static_cast<double>(std::max(loop.replay, loop.replay_device).count());
    const double rest = static_cast<double>(loop.between.count());
    const double share = loop.Share(Mode::kReplay, 300);
    const double took = share * replay + (1 - share) * eager + rest;
    EXPECT_LT(took, 1.04 * (std::min(eager, replay) + rest))
        << i << ": eager " << eager << ", replay " << replay << ", between "
        << rest << ", replayed " << share;
  }
}

// The first pass of a block waits for what the other mode left to be done.
TEST(ProfitTest, BacklogOfTheOtherModeIsNotCounted) {
  Profit profit;
  for (const Mode mode : {Mode::kReplay, Mode::kEager}) {
    for (const int time : {9000, 10}) {
      profit.Passed(mode, PassTime{microseconds(time), microseconds(time)});
    }
  }
  EXPECT_EQ(profit.Median(Mode::kReplay), microseconds(10));
  EXPECT_EQ(profit.Median(Mode::kEager), microseconds(10));
}

TEST(ProfitTest, AFewLongPassesChangeNoMedian) {
  Loop loop;
  loop.replay = microseconds(700);
  loop.noise = 0;
  loop.Run(300);
  for (int i = 0; i < 4; ++i) {
    loop.between = microseconds(100'000);
    loop.Run(1);
    loop.between = {};
    loop.Run(1);
  }
  EXPECT_EQ(loop.profit.Median(Mode::kReplay), loop.replay);
}

TEST(ProfitTest, EachKeepingLastsTwiceAsLongUpToABound) {
  Loop loop;
  loop.replay = microseconds(700);
  loop.Run(200'000);
  // Blocks are, in turn, keepings of replay and trials of eager.
  const std::vector<size_t> blocks = loop.Blocks();
  ASSERT_GT(blocks.size(), 20u);
  size_t longest = 0;
  for (size_t i = 4; i + 1 < blocks.size(); i += 2) {
    EXPECT_TRUE(blocks[i] == 2 * blocks[i - 2] || blocks[i] == 1u << 14)
        << blocks[i] << " passes behind " << blocks[i - 2];
    EXPECT_LT(blocks[i + 1], 10u);
    longest = std::max(longest, blocks[i]);
  }
  EXPECT_LE(longest, 1u << 14);
}

TEST(ProfitTest, ProgramThatChangesIsFoundOutByTrials) {
  Loop loop;
  loop.replay = microseconds(700);
  loop.Run(1000);
  loop.eager = microseconds(500);
  loop.Run(20'000);
  EXPECT_EQ(loop.modes.back(), Mode::kEager);
  const size_t before = loop.modes.size();
  loop.replay = microseconds(300);
  loop.Run(200'000);
  EXPECT_EQ(loop.modes.back(), Mode::kReplay);
  EXPECT_GT(loop.Share(Mode::kReplay, before), 0.5);
}

TEST(ProfitTest, PassesThatTellNothingAreNotCounted) {
  Profit profit;
  const auto pass = [&](Mode mode, std::optional<int> time) {
    profit.Passed(mode, time ? std::optional(PassTime{microseconds(*time),
                                                      microseconds(*time)})
                             : std::nullopt);
  };
  for (int i = 0; i < 20; ++i) {
    pass(Mode::kReplay, std::nullopt);  // was left
    pass(Mode::kReplay, 9000);
  }
  EXPECT_EQ(profit.Median(Mode::kReplay), Duration::zero());
  for (int i = 0; i < 4; ++i) pass(Mode::kReplay, 10);
  EXPECT_EQ(profit.Median(Mode::kReplay), microseconds(10));
  EXPECT_EQ(profit.Median(Mode::kEager), Duration::zero());
}

}  // namespace
}  // namespace reprise::scheduler
