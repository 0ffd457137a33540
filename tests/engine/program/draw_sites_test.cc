// Where two recordings of an op that draws hold the generator's state, and what
// lies behind it that nobody writes.

#include "engine/program/draw_sites.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "engine/trace/trace.h"

namespace reprise::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Part = DrawSite::Part;

// Of parameters of eight bytes each, but for one of 32 at `struct_at`.
device::Launch Kernel(const std::vector<uint64_t>& words,
                      size_t struct_at = ~size_t{0}) {
  device::Launch launch;
  std::vector<device::ParamSpan> spans;
  for (size_t i = 0; i < words.size(); ++i) {
    if (i > struct_at && i < struct_at + 4) continue;
    spans.push_back({static_cast<uint32_t>(8 * i), i == struct_at ? 32u : 8u});
  }
  launch.params =
      std::make_shared<const std::vector<device::ParamSpan>>(std::move(spans));
  launch.image.resize(words.size() * 8);
  for (size_t i = 0; i < words.size(); ++i) launch.SetWord(i * 8, words[i]);
  return launch;
}

TracedOp Op(const GeneratorState& at, uint64_t increment,
            std::vector<device::Launch> launches) {
  TracedOp op;
  op.generator = {
      .draws = increment != 0, .before = at, .increment = increment};
  op.launches = std::move(launches);
  return op;
}

auto Site(uint32_t launch, uint32_t offset_bytes, Part part, uint64_t ahead) {
  return ::testing::AllOf(
      ::testing::Field("launch", &DrawSite::launch, launch),
      ::testing::Field("offset_bytes", &DrawSite::offset_bytes, offset_bytes),
      ::testing::Field("part", &DrawSite::part, part),
      ::testing::Field("ahead", &DrawSite::ahead, ahead));
}

std::vector<uint64_t> WordsOf(const device::Launch& launch) {
  std::vector<uint64_t> words;
  for (size_t at = 0; at < launch.image.size(); at += 8) {
    words.push_back(launch.Word(at));
  }
  return words;
}

constexpr uint64_t kStale = 0x7f00'1234'5600;
constexpr uint64_t kOther = 0x7f00'6543'2100;

TEST(DrawSitesTest, OffsetThatMovedIsASiteAndTheRestOfTheStructIsZero) {
  const auto draw =
      ExplainDraw(Op({7, 100}, 8, {Kernel({55, 7, 100, 0, kStale, 66})}),
                  Op({7, 200}, 8, {Kernel({55, 7, 200, 0, kOther, 66})}));
  ASSERT_TRUE(draw) << draw.error().message();
  EXPECT_THAT(draw->sites, ElementsAre(Site(0, 16, Part::kOffset, 0)));
  EXPECT_THAT(WordsOf(draw->launches[0]), ElementsAre(55, 7, 100, 0, 0, 66));
  EXPECT_THAT(WordsOf(draw->first[0]), ElementsAre(55, 0, 0, 0, 0, 66));
  EXPECT_THAT(WordsOf(draw->second[0]), ElementsAre(55, 0, 0, 0, 0, 66));
}

TEST(DrawSitesTest, SeedThatChangedIsASite) {
  const auto draw = ExplainDraw(Op({7, 0}, 4, {Kernel({7, 0, 0, kStale})}),
                                Op({8, 0}, 4, {Kernel({8, 0, 0, kOther})}));
  ASSERT_TRUE(draw) << draw.error().message();
  ASSERT_THAT(draw->sites, ElementsAre(Site(0, 0, Part::kSeed, 0)));
  EXPECT_EQ(draw->sites[0].WordAt({9, 40}), 9u);
}

// An op may take its numbers in several goes, and hold them in several kernels.
TEST(DrawSitesTest, GoesOfOneOpAreTold) {
  const auto draw = ExplainDraw(
      Op({7, 100}, 12,
         {Kernel({7, 100, 0, 0}), Kernel({1}), Kernel({5, 7, 108, 0, 0})}),
      Op({8, 40}, 12,
         {Kernel({8, 40, 0, 0}), Kernel({1}), Kernel({5, 8, 48, 0, 0})}));
  ASSERT_TRUE(draw) << draw.error().message();
  EXPECT_THAT(
      draw->sites,
      ElementsAre(Site(0, 0, Part::kSeed, 0), Site(0, 8, Part::kOffset, 0),
                  Site(2, 8, Part::kSeed, 8), Site(2, 16, Part::kOffset, 8)));
  EXPECT_EQ(draw->sites[3].WordAt({1, 1000}), 1008u);
}

TEST(DrawSitesTest, WordsThatAreNotTheGeneratorsAreLeft) {
  // Beyond the increment, no multiple of four, not as far in both, alone.
  const auto draw = ExplainDraw(
      Op({7, 100}, 8,
         {Kernel({7, 108, 7, 102, 7, 100, 3, 7}), Kernel({7, 104})}),
      Op({7, 200}, 8,
         {Kernel({7, 208, 7, 202, 7, 204, 3, 7}), Kernel({7, 204})}));
  ASSERT_TRUE(draw) << draw.error().message();
  EXPECT_THAT(draw->sites, ElementsAre(Site(1, 8, Part::kOffset, 4)));
}

// What lies behind is no struct's: a pointer stays.
TEST(DrawSitesTest, PairWithoutTheStructIsTwoWords) {
  const auto draw = ExplainDraw(Op({7, 100}, 4, {Kernel({7, 100, 1, kStale})}),
                                Op({7, 200}, 4, {Kernel({7, 200, 1, kOther})}));
  ASSERT_TRUE(draw) << draw.error().message();
  EXPECT_THAT(WordsOf(draw->launches[0]), ElementsAre(7, 100, 1, kStale));
  EXPECT_THAT(WordsOf(draw->second[0]), ElementsAre(0, 0, 1, kOther));
}

TEST(DrawSitesTest, SmallStateThatIsAlwaysTheSameIsOnlyKnownAsAParameter) {
  const std::vector<uint64_t> words = {0, 0, 0, 0, 0, kStale};
  const std::vector<uint64_t> others = {0, 0, 0, 0, 0, kOther};
  const auto among = ExplainDraw(Op({0, 0}, 4, {Kernel(words)}),
                                 Op({0, 0}, 4, {Kernel(others)}));
  ASSERT_TRUE(among) << among.error().message();
  EXPECT_THAT(among->sites, IsEmpty());
  EXPECT_THAT(WordsOf(among->launches[0]), ::testing::ElementsAreArray(words));
  const auto own = ExplainDraw(Op({0, 0}, 4, {Kernel(words, 2)}),
                               Op({0, 0}, 4, {Kernel(others, 2)}));
  ASSERT_TRUE(own) << own.error().message();
  EXPECT_THAT(own->sites, IsEmpty());
  EXPECT_THAT(WordsOf(own->launches[0]), ElementsAre(0, 0, 0, 0, 0, 0));
}

TEST(DrawSitesTest, StateThatStandsNowhereIsAFailure) {
  const auto draw = ExplainDraw(Op({7, 100}, 4, {Kernel({100})}),
                                Op({7, 200}, 4, {Kernel({200})}));
  ASSERT_FALSE(draw);
  EXPECT_THAT(draw.error().message(), HasSubstr("the generator's state"));
}

TEST(DrawSitesTest, AmountThatDiffersIsAFailure) {
  EXPECT_FALSE(ExplainDraw(Op({7, 100}, 4, {}), Op({7, 200}, 8, {})));
  EXPECT_FALSE(ExplainDraw(Op({7, 100}, 4, {}), Op({7, 200}, 0, {})));
}

}  // namespace
}  // namespace reprise::engine
