// What two recordings tell of where the generator is when an op draws: told by
// the head, by the op, or the same always.

#include "engine/program/draws.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "tests/engine/fake_frontend.h"
#include "tests/engine/trace_builder.h"

namespace reprise::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Told = DrawSource::Told;

class DrawsTest : public testing::Test {
 protected:
  // What an op found of the generator and moved it by; 0: it did not draw.
  struct At {
    GeneratorState state;
    uint64_t increment = 4;
    bool keeps_out = false;  // it never draws
  };

  std::unique_ptr<Trace> Make(const GeneratorState& head,
                              const std::vector<At>& ops) {
    TraceBuilder builder(&frontend_);
    const ValueId x = builder.External();
    for (const At& at : ops) {
      builder.Op({x}, {}, 1);
      TracedOp& op = builder.trace().ops.back();
      op.may_draw = !at.keeps_out;
      op.generator = {.draws = at.increment != 0,
                      .before = at.state,
                      .increment = at.increment};
    }
    builder.trace().generator = head;
    return builder.Take();
  }

  Draws Ahead(const GeneratorState& first_head, const std::vector<At>& first,
              const GeneratorState& second_head,
              const std::vector<At>& second) {
    first_ = Make(first_head, first);
    second_ = Make(second_head, second);
    return Draws::Ahead(*first_, *second_);
  }

  FakeFrontend frontend_;
  std::unique_ptr<Trace> first_;
  std::unique_ptr<Trace> second_;
};

TEST_F(DrawsTest, AreAsFarFromTheHeadInEachPass) {
  const Draws draws = Ahead({7, 100}, {{{7, 100}}, {{}, 0}, {{7, 104}, 12}},
                            {7, 116}, {{{7, 116}}, {{}, 0}, {{7, 120}, 12}});
  ASSERT_THAT(draws.ahead(), SizeIs(2));
  EXPECT_EQ(draws.ahead()[0].op, 0u);
  EXPECT_EQ(draws.ahead()[0].ahead, 0u);
  EXPECT_EQ(draws.ahead()[1].op, 2u);
  EXPECT_EQ(draws.ahead()[1].ahead, 4u);
  EXPECT_EQ(draws.ahead()[1].increment, 12u);
  ASSERT_THAT(draws.sources(), SizeIs(1));
  EXPECT_TRUE(draws.uses_head());
  for (uint32_t op = 0; op < 3; ++op) EXPECT_FALSE(draws.Waits(op));
}

TEST_F(DrawsTest, SourceTakesWhatTheRecordingsSawVary) {
  const DrawSource varies =
      Ahead({7, 100}, {{{7, 100}}}, {7, 104}, {{{7, 104}}}).sources()[0];
  EXPECT_TRUE(varies.Takes({7, 900}));
  EXPECT_FALSE(varies.Takes({8, 900}));
  const DrawSource seeded =
      Ahead({1, 0}, {{{1, 0}}}, {2, 0}, {{{2, 0}}}).sources()[0];
  EXPECT_TRUE(seeded.Takes({3, 0}));
  EXPECT_FALSE(seeded.Takes({3, 4}));
  const DrawSource same =
      Ahead({1, 0}, {{{1, 0}}}, {1, 0}, {{{1, 0}}}).sources()[0];
  EXPECT_TRUE(same.Takes({1, 0}));
  EXPECT_FALSE(same.Takes({1, 4}));
}

// As where activations are computed again with the numbers that they had.
TEST_F(DrawsTest, MayGoBackToWhereTheyWere) {
  const Draws draws = Ahead({7, 100}, {{{7, 104}}, {{7, 100}}, {{7, 108}}},
                            {7, 200}, {{{7, 204}}, {{7, 200}}, {{7, 208}}});
  ASSERT_THAT(draws.ahead(), SizeIs(3));
  EXPECT_EQ(draws.ahead()[1].ahead, 0u);
  EXPECT_EQ(draws.ahead()[2].ahead, 8u);
  EXPECT_THAT(draws.sources(), SizeIs(1));
}

TEST_F(DrawsTest, WhatIsAlwaysSetToTheSameIsKnown) {
  const Draws draws = Ahead({7, 100}, {{{3, 0}}, {{3, 4}}, {{7, 100}}},
                            {7, 200}, {{{3, 0}}, {{3, 4}}, {{7, 200}}});
  ASSERT_THAT(draws.sources(), SizeIs(2));
  EXPECT_EQ(draws.sources()[1].told, Told::kRecordings);
  EXPECT_EQ(draws.ahead()[0].source, 1u);
  EXPECT_EQ(draws.ahead()[1].source, 1u);
  EXPECT_EQ(draws.ahead()[1].ahead, 4u);
  EXPECT_EQ(draws.ahead()[2].source, Draws::kHead);
  EXPECT_FALSE(draws.Waits(0));
}

TEST_F(DrawsTest, WhatIsSetInAnotherWayEachTimeIsToldByItsOp) {
  const Draws draws = Ahead({7, 100}, {{{7, 100}}, {{1, 0}}, {{1, 4}}},
                            {7, 104}, {{{7, 104}}, {{2, 0}}, {{2, 4}}});
  ASSERT_THAT(draws.sources(), SizeIs(2));
  EXPECT_EQ(draws.sources()[1].told, Told::kByOp);
  EXPECT_TRUE(draws.sources()[1].seed_varies);
  EXPECT_FALSE(draws.sources()[1].offset_varies);
  EXPECT_TRUE(draws.Waits(1));
  EXPECT_EQ(draws.ToldBy(1), 1u);
  // What follows it can run ahead again.
  EXPECT_FALSE(draws.Waits(2));
  EXPECT_EQ(draws.ToldBy(2), std::nullopt);
  EXPECT_EQ(draws.ahead()[2].source, 1u);
}

TEST_F(DrawsTest, HeadIsNotAskedForWhereNothingIsDrawnFromThere) {
  const Draws draws = Ahead({7, 100}, {{{3, 0}}}, {7, 200}, {{{3, 0}}});
  EXPECT_FALSE(draws.uses_head());
  EXPECT_FALSE(Draws().uses_head());
}

// One that did not draw when it was recorded may do so for other data.
TEST_F(DrawsTest, InTurnEachOpThatMayDrawWaitsAndNoneIsAhead) {
  const auto trace = Make({}, {{{1, 0}}, {{}, 0, true}, {{2, 0}, 0}});
  const Draws draws = Draws::InTurn(*trace);
  EXPECT_THAT(draws.ahead(), IsEmpty());
  EXPECT_TRUE(draws.Waits(0));
  EXPECT_FALSE(draws.Waits(1));
  EXPECT_TRUE(draws.Waits(2));
  EXPECT_EQ(draws.ToldBy(0), std::nullopt);
  EXPECT_FALSE(draws.uses_head());
}

}  // namespace
}  // namespace reprise::engine
