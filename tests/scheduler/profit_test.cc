// Of replay and eager the faster one is kept, and the other tried now and then.

#include "scheduler/profit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "engine/base/clock.h"

namespace reprise::scheduler {
namespace {

using std::chrono::microseconds;
using Duration = Profit::Duration;
using Mode = Profit::Mode;

constexpr double kMargin = 0.05;

// A loop whose passes take so long, and the clock that it goes by.
class Loop {
 public:
  Duration eager = microseconds(1000);
  Duration replay = microseconds(1000);

  Mode Pass() {
    const Mode mode = profit.Choose(kMargin);
    profit.AtHead(mode, clock.Now());
    clock.Advance(mode == Mode::kReplay ? replay : eager);
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
  base::ManualClock clock;
  std::vector<Mode> modes;
};

TEST(ProfitTest, ReplayIsTriedFirstThenEager) {
  Loop loop;
  EXPECT_EQ(loop.Pass(), Mode::kReplay);
  EXPECT_TRUE(loop.profit.Pays(kMargin));
  while (loop.Pass() == Mode::kReplay) ASSERT_LT(loop.modes.size(), 20u);
  EXPECT_GE(loop.modes.size(), 4u);
}

TEST(ProfitTest, FasterReplayIsKept) {
  Loop loop;
  loop.replay = microseconds(700);
  loop.Run(5000);
  EXPECT_GT(loop.Share(Mode::kReplay), 0.98);
  EXPECT_TRUE(loop.profit.Pays(kMargin));
  EXPECT_EQ(loop.profit.Median(Mode::kReplay), loop.replay);
  EXPECT_EQ(loop.profit.Median(Mode::kEager), loop.eager);
}

TEST(ProfitTest, FasterEagerIsKept) {
  Loop loop;
  loop.replay = microseconds(1300);
  loop.Run(5000);
  EXPECT_GT(loop.Share(Mode::kEager), 0.98);
  EXPECT_FALSE(loop.profit.Pays(kMargin));
}

TEST(ProfitTest, ReplayMustBeatEagerByTheMargin) {
  Loop just_below;
  just_below.replay = microseconds(951);
  just_below.Run(2000);
  EXPECT_GT(just_below.Share(Mode::kEager), 0.95);
  Loop just_above;
  just_above.replay = microseconds(949);
  just_above.Run(2000);
  EXPECT_GT(just_above.Share(Mode::kReplay), 0.95);
}

// The first pass of a block waits for what the other mode left to be done.
TEST(ProfitTest, BacklogOfTheOtherModeIsNotCounted) {
  Profit profit;
  base::ManualClock clock;
  for (const Mode mode : {Mode::kReplay, Mode::kEager}) {
    for (const int time : {9000, 10}) {
      profit.AtHead(mode, clock.Now());
      clock.Advance(microseconds(time));
    }
  }
  profit.AtHead(Mode::kOther, clock.Now());
  EXPECT_EQ(profit.Median(Mode::kReplay), microseconds(10));
  EXPECT_EQ(profit.Median(Mode::kEager), microseconds(10));
}

TEST(ProfitTest, AFewLongPassesChangeNoMedian) {
  Loop loop;
  loop.replay = microseconds(700);
  loop.Run(300);
  for (int i = 0; i < 4; ++i) {
    loop.clock.Advance(microseconds(100'000));
    loop.Run(2);
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
    EXPECT_TRUE(blocks[i] == 2 * blocks[i - 2] || blocks[i] == longest)
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
  // Nine samples are kept, and a trial gives four of them.
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
  base::ManualClock clock;
  const auto pass = [&](Mode mode, int time, bool disregard = false) {
    profit.AtHead(mode, clock.Now());
    if (disregard) profit.Disregard();
    clock.Advance(microseconds(time));
  };
  for (int i = 0; i < 20; ++i) {
    pass(Mode::kReplay, 9000, true);  // was no replay after all
    pass(Mode::kReplay, 10);
    pass(Mode::kOther, 9000);
    pass(Mode::kReplay, 10);
  }
  EXPECT_EQ(profit.Median(Mode::kReplay), Duration::zero());
  for (int i = 0; i < 4; ++i) pass(Mode::kReplay, 10);
  EXPECT_EQ(profit.Median(Mode::kReplay), microseconds(10));
  EXPECT_EQ(profit.Median(Mode::kEager), Duration::zero());
}

}  // namespace
}  // namespace reprise::scheduler
