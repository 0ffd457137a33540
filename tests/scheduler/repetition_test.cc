// A loop is found behind whatever came before it, once it has gone round twice.

#include "scheduler/repetition.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "engine/trace/open_trace.h"
#include "tests/engine/fake_frontend.h"

namespace reprise::scheduler {
namespace {

class RepetitionTest : public testing::Test {
 protected:
  // Weights have smaller numbers.
  static constexpr uint64_t kFirstResult = 1000;

  // As storages are in memory: tokens are even.
  static engine::StorageToken Token(uint64_t storage) {
    return engine::Token(0x1000 * storage);
  }

  // An op of such an operator on such storages of that size, that makes a new
  // one. True if the next op begins the loop's body once more.
  bool Op(uint64_t operation, const std::vector<uint64_t>& storages,
          uint64_t size = 0, uint64_t number = 0) {
    std::vector<engine::Operand> operands;
    const int64_t sizes[] = {static_cast<int64_t>(size)};
    for (const uint64_t storage : storages) {
      engine::Operand& operand = operands.emplace_back();
      operand.sizes = sizes;
      operand.storage = Token(storage);
      operand.base = storage * 0x1000;
      operand.storage_bytes = 64;
    }
    engine::OpView op;
    const uint64_t words[] = {operation, size, number};
    op.op = static_cast<engine::OpId>(operation);
    op.words = words;
    op.operands = operands;
    const cache::Signature hash = cache::HashWords(op.words);
    const auto values = open_.Enter(op, hash);
    const Repetition::Found found =
        repetition_.Add(op.op, hash.lo, operands, values, open_);
    engine::ResultView result;
    result.kind = engine::ResultView::Kind::kTensor;
    result.storage = Token(last_ = kFirstResult + results_++ % tokens_);
    result.base = last_ * 0x1000;
    open_.Leave({&result, 1});
    ++ops_;
    code_ |= found == Repetition::Found::kCode;
    return found != Repetition::Found::kNothing;
  }

  // A body of so many ops of words of their own, each on a weight and on what
  // the one before made. The number of the op that completed a period.
  std::optional<int> Body(uint64_t length) {
    std::optional<int> found;
    for (uint64_t i = 0; i < length; ++i) {
      if (Op(10 + i, {1 + i, last_})) found = ops_;
    }
    return found;
  }

  engine::OpenTrace open_;
  Repetition repetition_;
  uint64_t last_ = 999;
  uint64_t results_ = 0;
  uint64_t tokens_ = 1 << 20;  // after so many results one is used again
  int ops_ = 0;
  bool code_ = false;  // what was found has several sizes
};

TEST_F(RepetitionTest, BodyThatCameTwiceIsFound) {
  EXPECT_EQ(Body(20), std::nullopt);
  EXPECT_EQ(Body(20), 40);
}

// Each op of the ring takes one value from the one before: any of them may
// begin the body. It is the same one, wherever the loop is found: an op of
// another form has ended what repeated before.
TEST_F(RepetitionTest, BodyBeginsWithOneOpWhereverItIsFound) {
  constexpr uint64_t kLength = 20;
  std::set<uint64_t> begins;
  for (uint64_t other = 0; other < kLength; ++other) {
    open_.Clear();
    repetition_.Clear();
    EXPECT_FALSE(Op(5, {900}));
    std::optional<uint64_t> last;
    for (uint64_t i = 0; i < 6 * kLength && !last.has_value(); ++i) {
      if (i == kLength + other) (void)Op(6, {901});
      const uint64_t k = i % kLength;
      if (Op(10 + k, {1 + k, last_})) last = k;
    }
    ASSERT_TRUE(last.has_value()) << other;
    begins.insert(*last);
  }
  EXPECT_EQ(begins.size(), 1u);
}

// The state goes from pass to pass, as in a simulation: each trace of the loop
// begins with the op with which the one before began.
TEST_F(RepetitionTest, TracesOfASimulationBeginWithOneOp) {
  constexpr uint64_t kLength = 20;
  uint64_t first = 3;  // the trace's first op
  std::vector<uint64_t> begins;
  for (int trace = 0; trace < 4; ++trace) {
    open_.Clear();
    repetition_.Clear();
    std::optional<uint64_t> last;
    for (uint64_t i = 0; i < 6 * kLength && !last.has_value(); ++i) {
      const uint64_t k = (first + i) % kLength;
      if (Op(10 + k, {last_})) last = k;
    }
    ASSERT_TRUE(last.has_value()) << trace;
    first = (*last + 1) % kLength;
    begins.push_back(first);
  }
  EXPECT_EQ(begins[1], begins[2]);
  EXPECT_EQ(begins[2], begins[3]);
}

TEST_F(RepetitionTest, ShortBodyIsFoundInMultiples) {
  constexpr uint64_t kLength = 5;
  std::optional<int> found;
  int bodies = 0;
  while (!found.has_value() && bodies < 20) {
    found = Body(kLength);
    ++bodies;
  }
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(*found % kLength, 0u);
  // Two periods, each of as many bodies as make the shortest one.
  EXPECT_EQ(*found, 2 * 20);
}

// Two towers of one network, behind what made their weights: each op comes
// twice in a body whose length no distance between the two divides.
TEST_F(RepetitionTest, BodyInWhichOpsComeTwiceIsFound) {
  std::optional<int> found;
  for (uint64_t i = 0; i < 3; ++i) EXPECT_FALSE(Op(5 + i, {900 + i}));
  for (int body = 0; body < 8 && !found.has_value(); ++body) {
    for (uint64_t layer = 0; layer < 6; ++layer) {
      for (int tower = 0; tower < 2; ++tower) {
        if (Op(10 + layer, {1 + layer, last_})) found = ops_;
      }
    }
  }
  ASSERT_TRUE(found.has_value());
}

// One op takes nothing from those before it.
TEST_F(RepetitionTest, BodyBeginsWhereTheFewestValuesCross) {
  const auto op = [this](uint64_t i) {
    return i == 5 ? Op(10 + i, {1 + i}) : Op(10 + i, {1 + i, last_});
  };
  for (uint64_t i = 12; i < 20; ++i) EXPECT_FALSE(op(i));
  std::optional<uint64_t> last;
  for (uint64_t i = 0; i < 60 && !last.has_value(); ++i) {
    if (op(i % 20)) last = i % 20;
  }
  EXPECT_EQ(last, 4u);
}

// What a pass is given (labels) is used by some op with nothing else.
TEST_F(RepetitionTest, OpsOnWhatAPassIsGivenMayBeInALoop) {
  const auto pass = [this](uint64_t number) {
    for (uint64_t i = 0; i < 30; ++i) {
      const uint64_t given = 5000 + 2 * number;
      if (Op(10 + i, {i == 7 ? given : 100 + i})) return true;
    }
    return false;
  };
  EXPECT_FALSE(pass(0));
  EXPECT_TRUE(pass(1));
}

// Layers of equal form, which differ in their weights.
TEST_F(RepetitionTest, OtherWeightsAreNoRepetition) {
  for (uint64_t layer = 0; layer < 4; ++layer) {
    for (uint64_t i = 0; i < 20; ++i) {
      EXPECT_FALSE(Op(10 + i, {100 * layer + i, 100 * layer + i + 50}));
    }
  }
}

// Batches of several lengths: no words come again.
TEST_F(RepetitionTest, CodeThatGoesRoundOnOtherSizesIsFound) {
  EXPECT_FALSE(Op(5, {900}));
  std::optional<uint64_t> found;
  for (uint64_t pass = 0; pass < 10 && !found.has_value(); ++pass) {
    for (uint64_t i = 0; i < 20; ++i) {
      // The first op is given another input each time.
      const uint64_t in = i == 0 ? 5000 + 2 * pass : last_;
      if (Op(10 + i, {1 + i, in}, /*size=*/pass)) found = pass;
    }
  }
  EXPECT_EQ(found, Repetition::kTimesOfCode);
  EXPECT_TRUE(code_);
}

// A number that is another one each time parts nothing.
TEST_F(RepetitionTest, CodeOnOtherNumbersIsNoLoop) {
  for (uint64_t pass = 0; pass < 10; ++pass) {
    for (uint64_t i = 0; i < 20; ++i) {
      EXPECT_FALSE(Op(10 + i, {1 + i, last_}, /*size=*/0, /*number=*/pass));
    }
  }
}

TEST_F(RepetitionTest, WhatRepeatsByItsWordsIsNoCode) {
  EXPECT_EQ(Body(20), std::nullopt);
  EXPECT_EQ(Body(20), 40);
  EXPECT_FALSE(code_);
}

// A head of a detector, on five levels of a pyramid.
TEST_F(RepetitionTest, LayersThatAreUsedSeveralTimesInAPassAreNoLoop) {
  for (uint64_t pass = 0; pass < 2; ++pass) {
    for (uint64_t i = 0; i < 30; ++i) {
      EXPECT_FALSE(Op(10 + i, {1 + i, last_}, /*size=*/pass));
    }
    for (uint64_t level = 0; level < 5; ++level) {
      for (uint64_t i = 0; i < 12; ++i) {
        EXPECT_FALSE(Op(60 + i, {61 + i, last_}, /*size=*/10 * pass + level));
      }
    }
  }
}

TEST_F(RepetitionTest, OneOtherOpBeginsThePeriodAnew) {
  EXPECT_EQ(Body(20), std::nullopt);
  for (uint64_t i = 0; i < 10; ++i) EXPECT_FALSE(Op(10 + i, {1 + i, last_}));
  EXPECT_FALSE(Op(77, {78}));
  for (uint64_t i = 10; i < 20; ++i) EXPECT_FALSE(Op(10 + i, {1 + i, last_}));
  // Both of the bodies that complete it come behind that op.
  std::optional<int> found;
  for (int bodies = 0; bodies < 3 && !found.has_value(); ++bodies) {
    found = Body(20);
  }
  ASSERT_TRUE(found.has_value());
  EXPECT_GE(*found, 41 + 20);
}

// Ops on nothing but what the loop made repeat by their words alone.
TEST_F(RepetitionTest, BodyWithoutWeightsIsFound) {
  EXPECT_FALSE(Op(5, {900}));
  std::optional<int> found;
  for (int i = 0; i < 3 * 18 && !found.has_value(); ++i) {
    if (Op(10 + static_cast<uint64_t>(i) % 18, {last_})) found = ops_;
  }
  ASSERT_TRUE(found.has_value());
  EXPECT_GE(*found, 1 + 2 * 18);
}

// A storage that the trace made has the token of an older one that died. It is
// no weight that comes again.
TEST_F(RepetitionTest, TokenThatIsUsedAgainIsNoWeight) {
  tokens_ = 2;  // the operand is alive while the op runs
  EXPECT_FALSE(Op(5, {900}));
  for (uint64_t layer = 0; layer < 4; ++layer) {
    for (uint64_t i = 0; i < 20; ++i) {
      EXPECT_FALSE(Op(10 + i, {100 * layer + i, last_})) << layer << " " << i;
    }
  }
}

// A draw from nothing, then some layers, of which one does something else in
// each pass.
class RoundTest : public RepetitionTest {
 protected:
  static constexpr uint64_t kDraw = 500;

  bool ComesRound() {
    const uint64_t words[] = {kDraw, 0, 0};
    return repetition_.ComesRound(cache::HashWords(words).lo);
  }
  void Draw() { Op(kDraw, {}); }
  void Pass(uint64_t number, uint64_t first_weight = 1) {
    Draw();
    for (uint64_t i = 0; i < 6; ++i) Op(10 + i, {first_weight + i, last_});
    Op(30 + number, {last_});
    Op(20, {first_weight + 6, last_});
  }
};

TEST_F(RoundTest, PassesThatUseTheSameWeightsComeRound) {
  for (uint64_t pass = 0; pass < 2; ++pass) {
    EXPECT_FALSE(ComesRound());
    Pass(pass);
  }
  EXPECT_TRUE(ComesRound());
}

TEST_F(RoundTest, SeveralDrawsInAPassComeRoundWithTheFirst) {
  const auto pass = [this](uint64_t number) {
    Pass(number);
    EXPECT_FALSE(ComesRound());
    Draw();
    Op(70, {80, last_});
    Op(71, {81, last_});
  };
  pass(0);
  EXPECT_FALSE(ComesRound());
  pass(1);
  EXPECT_TRUE(ComesRound());
}

TEST_F(RoundTest, LayersOnOtherWeightsDoNotComeRound) {
  for (uint64_t layer = 0; layer < 8; ++layer) {
    EXPECT_FALSE(ComesRound());
    Pass(0, 1 + 10 * layer);
  }
}

TEST_F(RoundTest, WhatUsesNoWeightTellsNothing) {
  for (int i = 0; i < 6; ++i) {
    EXPECT_FALSE(ComesRound());
    Draw();
    for (uint64_t k = 0; k < 5; ++k) Op(10 + k, {last_});
  }
}

TEST_F(RepetitionTest, ClearForgets) {
  EXPECT_EQ(Body(20), std::nullopt);
  open_.Clear();
  repetition_.Clear();
  EXPECT_EQ(Body(20), std::nullopt);
  EXPECT_EQ(Body(20), 60);
}

}  // namespace
}  // namespace reprise::scheduler
