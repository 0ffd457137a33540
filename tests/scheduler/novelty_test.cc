// What is new each time where it stands is told from what is new once.

#include "scheduler/novelty.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "tests/scheduler/twin_programs.h"

namespace reprise::scheduler {
namespace {

// How many of a pass are new each time, behind a cut.
int NewOf(Novelty& novelty, const std::vector<uint64_t>& hashes) {
  novelty.CutPassed(7);
  int count = 0;
  std::optional<uint64_t> open;
  size_t ops = 0;
  for (const uint64_t hash : hashes) {
    if (novelty.Meet(hash, open)) {
      ++count;
      if (open.has_value()) novelty.TraceEnded(*open, ops);
      open.reset();
      ops = 0;
    } else {
      open = 31 * open.value_or(17) + hash;
      ++ops;
    }
  }
  if (open.has_value()) novelty.TraceEnded(*open, ops);
  return count;
}

TEST(NoveltyTest, WhatIsAnotherOneEachTimeIsTold) {
  Novelty novelty;
  for (uint64_t pass = 0; pass < 20; ++pass) {
    const uint64_t fresh = 1000 + 10 * pass;
    EXPECT_EQ(NewOf(novelty, {1, 2, fresh, fresh + 1, 3, 4}), pass < 4 ? 0 : 2)
        << pass;
    EXPECT_EQ(NewOf(novelty, {fresh + 5, 5}), pass < 3 ? 0 : 1) << pass;
  }
}

// The same stands in several places of a pass.
TEST(NoveltyTest, WhatIsNewIsSoInTheWholePass) {
  Novelty novelty;
  uint64_t fresh = 1000;
  const auto pass = [&] {
    novelty.CutPassed(7);
    int told = novelty.Meet(fresh);
    novelty.TraceEnded(8);
    EXPECT_FALSE(novelty.Meet(2));
    told += novelty.Meet(fresh, 2);
    told += novelty.Meet(fresh);
    return told;
  };
  for (int i = 0; i < 20; ++i, ++fresh) EXPECT_EQ(pass(), i < 3 ? 0 : 3) << i;
  --fresh;
  EXPECT_EQ(pass(), 1);
}

// Its calls are those of a pass that came before.
TEST(NoveltyTest, WhatCameBeforeIsNewNoMoreInAPassThatIsToldOf) {
  Novelty novelty;
  uint64_t fresh = 1000;
  for (; fresh < 1010; ++fresh) NewOf(novelty, {1, fresh, 3, 4});
  // As the first of what was new here it stays out, though it came before.
  EXPECT_EQ(NewOf(novelty, {1, fresh - 1, 3, 4}), 1);
  novelty.CutPassed(7);
  EXPECT_FALSE(novelty.Meet(1, std::nullopt, /*in_told_pass=*/true));
  EXPECT_FALSE(novelty.Meet(fresh - 1, 48, /*in_told_pass=*/true));
  EXPECT_EQ(NewOf(novelty, {1, fresh - 1, 3, 4}), 0);
}

// Batches of other lengths, in which every op is another one: behind one that
// never came, none has come before.
TEST(NoveltyTest, PartsThatAreNewAsAWholeAreNotLeftOut) {
  Novelty novelty;
  const auto pass = [](uint64_t size) {
    std::vector<uint64_t> hashes;
    for (uint64_t op = 0; op < 40; ++op) hashes.push_back(1000 * size + op);
    return hashes;
  };
  int left_out = 0;
  for (uint64_t size = 1; size <= 20; ++size) {
    left_out += NewOf(novelty, pass(size));
  }
  EXPECT_EQ(left_out, 0);
  for (uint64_t size = 1; size <= 20; ++size) {
    EXPECT_EQ(NewOf(novelty, pass(size)), 0) << size;
  }
}

// Of layers, whose ops are the same as those of the layer before.
TEST(NoveltyTest, LayersThatAreNewAsAWholeAreLeftOutOnceAltogether) {
  for (const uint64_t ops : {2, 3, 5, 13}) {
    Novelty novelty;
    const auto pass = [ops](uint64_t size) {
      std::vector<uint64_t> hashes = {1000 * size};
      for (uint64_t layer = 0; layer < 12; ++layer) {
        for (uint64_t op = 0; op < ops; ++op) {
          hashes.push_back(1000 * size + 1 + op);
        }
      }
      return hashes;
    };
    int passes = 0;
    for (uint64_t size = 1; size <= 20; ++size) {
      passes += NewOf(novelty, pass(size)) > 0 ? 1 : 0;
    }
    EXPECT_EQ(passes, 1) << ops;
    for (uint64_t size = 1; size <= 20; ++size) {
      EXPECT_EQ(NewOf(novelty, pass(size)), 0) << size << " " << ops;
    }
  }
}

// Behind what is the same in all passes one pass of other sizes is lost, and no
// more.
TEST(NoveltyTest, WhatComesAgainIsNotNew) {
  Novelty novelty;
  for (int again = 0; again < 3; ++again) {
    for (uint64_t size = 1; size < 12; ++size) {
      const uint64_t first = 100 * size;
      NewOf(novelty, {1, 2});
      const int told = NewOf(novelty, {first, first + 1, first + 2});
      const int lost = size == 4 && again == 0 ? 3 : 0;
      EXPECT_EQ(told, lost) << size << " " << again;
    }
  }
}

// Of a text: a few ops are as long as it is.
std::vector<uint64_t> Word(uint64_t length) {
  std::vector<uint64_t> hashes = {1000 + length, 2000 + length};
  for (uint64_t op = 1; op <= 40; ++op) hashes.push_back(op);
  hashes.insert(hashes.end(), {2000 + length, 50});
  return hashes;
}

TEST(NoveltyTest, WhereLittleWasNewItStaysOut) {
  Novelty novelty;
  for (uint64_t length = 1; length <= 40; ++length) {
    EXPECT_EQ(NewOf(novelty, Word(length)), length < 5 ? 0 : 3) << length;
  }
  int left_out = 0;
  for (int again = 0; again < 30; ++again) {
    for (uint64_t length = 5; length <= 40; ++length) {
      left_out += NewOf(novelty, Word(length)) == 3 ? 1 : 0;
    }
  }
  EXPECT_EQ(left_out, 30 * 36);
}

// Texts of other lengths, one after the other.
TEST(NoveltyTest, WhereLittleWasNewItStaysOutInAnyOrder) {
  Novelty novelty;
  for (uint64_t length = 1; length <= 60; ++length) {
    NewOf(novelty, Word(length));
  }
  std::mt19937 random{3};
  int left_out = 0;
  int words = 0;
  for (int text = 0; text < 100; ++text) {
    const uint64_t longest = 10 + random() % 51;
    for (uint64_t length = 10; length <= longest; ++length) {
      left_out += NewOf(novelty, Word(length)) == 3 ? 1 : 0;
      ++words;
    }
  }
  EXPECT_GT(left_out, words * 8 / 10);
}

// Of a length that stays, or of a few that come in turn.
TEST(NoveltyTest, OneOfAFewStaysOutForSomeTimeOnly) {
  for (const int lengths : {1, 2, 5}) {
    Novelty novelty;
    for (uint64_t length = 1; length <= 9; ++length) {
      NewOf(novelty, Word(length));
    }
    std::vector<int> left_out;
    for (int pass = 0; pass < 32 * lengths; ++pass) {
      left_out.push_back(
          NewOf(novelty, Word(9 - static_cast<uint64_t>(pass % lengths))));
    }
    EXPECT_THAT(std::span(left_out).first(3 * lengths), testing::Each(3));
    EXPECT_THAT(std::span(left_out).subspan(4 * lengths), testing::Each(0));
    EXPECT_EQ(NewOf(novelty, Word(10)), 3);
  }
}

// The chunks of an optimizer that goes from parameter to parameter and looks at
// a number between them: all are new in the first pass, behind one cut.
TEST(NoveltyTest, InAFirstPassNothingIsLeftOut) {
  Novelty novelty;
  for (int pass = 0; pass < 3; ++pass) {
    for (uint64_t shape = 0; shape < 20; ++shape) {
      const uint64_t first = 100 * shape;
      EXPECT_EQ(NewOf(novelty, {first, first + 1, first + 2}), 0) << shape;
    }
  }
}

TEST(NoveltyTest, APlaceIsWhatIsBehind) {
  Novelty novelty;
  for (uint64_t pass = 0; pass < 8; ++pass) {
    novelty.TraceEnded(4);
    EXPECT_EQ(novelty.Meet(1000 + pass), pass >= 3) << pass;
    EXPECT_FALSE(novelty.Meet(5, 6)) << pass;
    EXPECT_FALSE(novelty.Meet(2000 + pass, 100 * pass)) << pass;
    EXPECT_FALSE(novelty.Meet(8, 100 * pass + 1)) << pass;
  }
}

TEST(NoveltyTest, ClearedItKnowsNothing) {
  Novelty novelty;
  for (uint64_t pass = 0; pass < 8; ++pass) NewOf(novelty, {1, 1000 + pass});
  novelty.Clear();
  EXPECT_EQ(NewOf(novelty, {1, 2000, 1, 2001}), 0);
}

class GrowingProgramTest : public TwinPrograms {};

// What grows by an element a pass stands before, in and behind what stays.
TEST_F(GrowingProgramTest, WhatStaysIsReplayed) {
  const auto call = [&](int i) {
    Both([&](Side& side) {
      sim::ModelProgram& program = *side.program;
      const auto grow = [&] {
        const auto grown =
            program.Make(static_cast<float>(i), 100 + static_cast<size_t>(i));
        return program.Scale(program.Add(grown, grown), 7);
      };
      Held held{grow()};
      sim::ModelTensor h = program.Make(static_cast<float>(i), 64);
      for (size_t k = 0; k < 12; ++k) {
        h = program.Add(program.Scale(h, 7), side.weights[k % 8]);
        if (k == 8) program.Negate(h);
        if (k == 5) held.push_back(grow());
      }
      held.push_back(grow());
      program.Read(h);
      held.push_back(h);
      return held;
    });
  };
  int i = 0;
  for (; i < 30; ++i) call(i);
  const Stats before = stats();
  for (; i < 60; ++i) call(i);
  // All but what grows, and what reads.
  EXPECT_EQ(FollowedSince(before), 25.0 / 32) << Traces();
  EXPECT_EQ(stats().recorded, 4u) << Traces();
  EXPECT_GT(Cuts("a new op each time"), 150u);
  // It has been as long before, and what stays is what it was.
  const Stats grown = stats();
  for (int again = 0; again < 10; ++again) {
    for (i = 20; i < 60; ++i) call(i);
  }
  EXPECT_EQ(FollowedSince(grown), 25.0 / 32) << Traces();
  EXPECT_EQ(stats().recorded, 4u) << Traces();
}

}  // namespace
}  // namespace reprise::scheduler
