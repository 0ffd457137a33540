// Proves what a trace tells of what it was joined of.

#include "scheduler/joined.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace reprise::scheduler {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr cache::Signature kBeginning{1, 2};

std::vector<TraceId> IdsOf(const Joined::Parts& parts) {
  std::vector<TraceId> ids;
  for (const Joined::Part& part : parts) ids.push_back(part.id);
  return ids;
}

// What comes of `beginning`, which goes on.
Joined Longer(Joined beginning) {
  Joined longer;
  Joined::Parts parts = beginning.StopGoingOn();
  longer.Become(kBeginning, beginning, std::move(parts));
  return longer;
}

TEST(JoinedTest, GoesOnOnce) {
  Joined joined;
  EXPECT_TRUE(joined.may_go_on());
  EXPECT_EQ(joined.goes_on_for(), 0u);
  joined.GoOn(7);
  EXPECT_FALSE(joined.may_go_on());
  EXPECT_EQ(joined.goes_on_for(), 7u);
  EXPECT_FALSE(joined.is_joined());
  joined.StopGoingOn();
  EXPECT_EQ(joined.goes_on_for(), 0u);
  EXPECT_FALSE(joined.may_go_on());
}

TEST(JoinedTest, OfTwoIsLeftWhereTheyMeet) {
  Joined beginning;
  beginning.GoOn(1);
  beginning.GoOnWith({.id = TraceId{2}, .seen = 5}, Joined());
  Joined longer = Longer(std::move(beginning));
  EXPECT_TRUE(longer.is_joined());
  EXPECT_EQ(longer.at(), kBeginning);
  EXPECT_FALSE(longer.may_be_left_anywhere());
  longer.ComeApart();
  EXPECT_FALSE(longer.is_joined());
}

TEST(JoinedTest, OfSeveralMayBeLeftAnywhere) {
  Joined beginning;
  beginning.GoOn(2);
  beginning.GoOnWith({.id = TraceId{2}}, Joined());
  beginning.GoOnWith({.id = TraceId{3}}, Joined());
  const Joined three = Longer(beginning);
  EXPECT_TRUE(three.may_be_left_anywhere());
  EXPECT_FALSE(three.is_run());
  // So may one of two, of which one is of two.
  Joined pair;
  pair.GoOn(1);
  pair.GoOnWith({.id = TraceId{2}}, Joined());
  Joined other;
  other.GoOn(2);
  other.GoOnWith({.id = TraceId{4}}, Longer(pair));
  EXPECT_TRUE(Longer(other).may_be_left_anywhere());
}

TEST(JoinedTest, ARunIsOneOfWhateverItIsPart) {
  Joined layer;
  layer.GoOn(12);
  layer.GoOnAsRun();
  const Joined run = Longer(layer);
  EXPECT_TRUE(run.is_run());
  Joined beginning;
  beginning.GoOn(13);
  beginning.GoOnWith({.id = TraceId{2}}, run);
  EXPECT_TRUE(Longer(beginning).is_run());
}

TEST(JoinedTest, HasThePartsOfItsParts) {
  Joined pair;
  pair.GoOn(1);
  pair.GoOnWith({.id = TraceId{2}}, Joined());
  Joined beginning;
  beginning.GoOn(2);
  beginning.GoOnWith({.id = TraceId{3}}, Longer(pair));
  Joined longer = Longer(beginning);
  ASSERT_TRUE(longer.has_parts());
  EXPECT_THAT(IdsOf(longer.TakeParts(64)), ElementsAre(TraceId{2}, TraceId{3}));
  EXPECT_FALSE(longer.has_parts());
}

TEST(JoinedTest, PartsAreLookedAtNowAndThen) {
  Joined joined;
  EXPECT_FALSE(joined.AreDue(63));
  EXPECT_TRUE(joined.AreDue(64));
  EXPECT_THAT(joined.TakeParts(64), IsEmpty());
  EXPECT_FALSE(joined.AreDue(127));
  EXPECT_TRUE(joined.AreDue(128));
  EXPECT_TRUE(joined.MayLookForRotated(128));
  EXPECT_FALSE(joined.AreDue(191));
  EXPECT_FALSE(joined.MayLookForRotated(256));
}

}  // namespace
}  // namespace reprise::scheduler
