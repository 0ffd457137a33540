// Proves which ops that gave other bits are taken for nondeterministic, and
// when.

#include "scheduler/suspects.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "engine/program/effects.h"
#include "engine/replay/executor.h"
#include "engine/replay/run_twice.h"
#include "tests/engine/fake_frontend.h"
#include "tests/engine/trace_builder.h"

namespace reprise::scheduler {
namespace {

using engine::ValueId;
using testing::ElementsAre;
using Compared = Suspects::Compared;
using Kind = Suspects::Finding::Kind;

// Of five ops: the first makes a value, the second writes over it, the third
// reads it, and the others have values of their own.
class SuspectsTest : public testing::Test {
 protected:
  SuspectsTest() {
    const ValueId x = builder_.External();
    const ValueId made = builder_.Op({x}, {}, 1);
    builder_.Op({x}, {made});
    const ValueId read = builder_.Op({made}, {}, 1);
    builder_.Op({x}, {}, 1);
    builder_.Op({read}, {}, 1);
    effects_ = engine::Effects(&builder_.trace(), {}, {},
                               engine::Effects::Remake::kWhatLasts);
  }

  // `twice`: those whose two runs gave different bits.
  Suspects::Finding Judge(std::vector<uint32_t> differing,
                          const std::vector<uint32_t>& twice = {},
                          Compared compared = Compared::kOpByOp) {
    for (const uint32_t op : twice) {
      differing.push_back(engine::TwiceTags::Of(op, builder_.ops()).repeated);
    }
    return suspects_.Judge(
        builder_.trace(), effects_, {.differing = std::move(differing)},
        compared, [this](engine::OpId op) { return op != deterministic_; });
  }
  Kind KindOf(std::vector<uint32_t> differing,
              const std::vector<uint32_t>& twice = {},
              Compared compared = Compared::kOpByOp) {
    return Judge(std::move(differing), twice, compared).kind;
  }

  engine::FakeFrontend frontend_;
  engine::TraceBuilder builder_{&frontend_};
  engine::Effects effects_;
  engine::OpId deterministic_ = 3;
  Suspects suspects_;
};

TEST_F(SuspectsTest, NothingThatDiffersIsEqual) {
  EXPECT_EQ(KindOf({}), Kind::kEqual);
  EXPECT_TRUE(suspects_.empty());
}

TEST_F(SuspectsTest, OpThatCannotBeNondeterministicDiffers) {
  const Suspects::Finding finding = Judge({3});
  EXPECT_EQ(finding.kind, Kind::kDiffers);
  EXPECT_EQ(finding.op, 3u);
}

TEST_F(SuspectsTest, OpThatIsKnownToBeNondeterministicDiffersBeyondRounding) {
  builder_.trace().ops[2].nondeterministic = true;
  EXPECT_EQ(KindOf({2}), Kind::kDiffers);
}

TEST_F(SuspectsTest, ASuspectIsConfirmedByItsSecondRun) {
  EXPECT_EQ(KindOf({2}), Kind::kNotKnown);
  EXPECT_THAT(suspects_.ops(), ElementsAre(2));
  EXPECT_EQ(KindOf({}, {2}), Kind::kConfirmed);
}

TEST_F(SuspectsTest, ASuspectThatDiffersBeyondItsSecondRunDiffers) {
  ASSERT_EQ(KindOf({2}), Kind::kNotKnown);
  const Suspects::Finding finding = Judge({2}, {2});
  EXPECT_EQ(finding.kind, Kind::kDiffers);
  EXPECT_EQ(finding.op, 2u);
}

TEST_F(SuspectsTest, OpByOpEachIsSuspectedForItselfAlone) {
  ASSERT_EQ(KindOf({2, 4}), Kind::kNotKnown);
  EXPECT_THAT(suspects_.ops(), ElementsAre(2, 4));
}

// Launched whole, nobody has compared what the first op made: the second one
// wrote over it. The last op may differ for the third alone.
TEST_F(SuspectsTest, WholeTheFirstIsSuspectedWithThoseThatNobodyCompared) {
  ASSERT_EQ(KindOf({2, 4}, {}, Compared::kWhole), Kind::kNotKnown);
  EXPECT_THAT(suspects_.ops(), ElementsAre(0, 2));
}

TEST_F(SuspectsTest, SuspectsThatGiveTheSameBitsThreeTimesDiffer) {
  ASSERT_EQ(KindOf({2, 4}), Kind::kNotKnown);
  EXPECT_EQ(KindOf({}), Kind::kNotKnown);
  EXPECT_EQ(KindOf({}), Kind::kNotKnown);
  const Suspects::Finding finding = Judge({});
  EXPECT_EQ(finding.kind, Kind::kDiffers);
  EXPECT_EQ(finding.op, 2u);
}

TEST_F(SuspectsTest, SuspectsMayHaveDifferedForTheConfirmedOne) {
  ASSERT_EQ(KindOf({2, 4}), Kind::kNotKnown);
  EXPECT_EQ(KindOf({}, {2}), Kind::kNotKnown);
  EXPECT_EQ(KindOf({}, {2}), Kind::kNotKnown);
  EXPECT_EQ(KindOf({}, {2}), Kind::kNotKnown);
  EXPECT_EQ(KindOf({}, {2}), Kind::kConfirmed);
  EXPECT_THAT(suspects_.ops(), ElementsAre(2));
}

TEST_F(SuspectsTest, ATraceThatIsRecordedAnewHasNone) {
  ASSERT_EQ(KindOf({2}), Kind::kNotKnown);
  suspects_.Clear();
  EXPECT_EQ(KindOf({}), Kind::kEqual);
}

}  // namespace
}  // namespace reprise::scheduler
