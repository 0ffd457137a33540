// What launches name beside what is their op's.

#include "engine/program/reach.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "tests/engine/fake_frontend.h"
#include "tests/engine/trace_builder.h"

namespace reprise::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr uint64_t kLibrarys = 0x7e00'0000'0000;

class ReachTest : public testing::Test {
 protected:
  ReachTest() {
    x_ = builder_.External();
    a_ = builder_.Op({x_}, {}, 1);
    y_ = builder_.External();
    b_ = builder_.Op({y_}, {}, 1);
    builder_.trace().ops[0].temporaries = {{0x1000, 10}};
    program_.op_begin = {0, 1, 2};
    program_.launches.resize(2);
    for (device::Launch& launch : program_.launches) launch.image.resize(36);
  }

  Reach OfTheSecond() {
    return ReachOf(builder_.trace(), program_,
                   [](uint64_t word) { return word >= kLibrarys; })[1];
  }
  device::Launch& launch() { return program_.launches[1]; }

  FakeFrontend frontend_;
  TraceBuilder builder_{&frontend_};
  ValueId x_, a_, y_, b_;
  LaunchProgram program_;
};

TEST_F(ReachTest, OwnValuesAndNumbersAreNothingElse) {
  program_.sites = {{1, 0, b_, 0}};
  program_.pinned = {{1, 8, y_, 0}};
  launch().SetWord(0, TraceBuilder::AddressOf(b_));
  launch().SetWord(8, TraceBuilder::AddressOf(y_));
  launch().SetWord(16, 0x3f80'0000'0040);
  launch().SetWord(24, 12);
  const Reach reach = OfTheSecond();
  EXPECT_FALSE(reach.alone);
  EXPECT_FALSE(reach.libraries);
  EXPECT_THAT(reach.others, IsEmpty());
}

TEST_F(ReachTest, SitesOfOtherValuesAreNamed) {
  const auto temporary = static_cast<ValueId>(builder_.trace().values.size());
  program_.sites = {{1, 0, a_, 0}, {1, 8, temporary, 0}, {1, 16, a_, 8}};
  for (const ValueSite& site : program_.sites) {
    launch().SetWord(site.offset_bytes, kLibrarys);
  }
  EXPECT_THAT(OfTheSecond().others, ElementsAre(a_, temporary));
  EXPECT_FALSE(OfTheSecond().libraries);
}

TEST_F(ReachTest, OtherAddressesAreLibraries) {
  launch().SetWord(24, kLibrarys + 0x10);
  EXPECT_TRUE(OfTheSecond().libraries);
  EXPECT_THAT(OfTheSecond().others, IsEmpty());
}

TEST_F(ReachTest, AddressInAnExternalIsThatExternals) {
  launch().SetWord(8, TraceBuilder::AddressOf(x_) + 8);
  EXPECT_THAT(OfTheSecond().others, ElementsAre(x_));
  EXPECT_FALSE(OfTheSecond().libraries);
  launch().SetWord(8, TraceBuilder::AddressOf(x_) + 64);  // behind its end
  EXPECT_THAT(OfTheSecond().others, IsEmpty());
  EXPECT_TRUE(OfTheSecond().libraries);
}

TEST_F(ReachTest, ForksAndCooperativeLaunchesHaveTheDevice) {
  EXPECT_FALSE(OfTheSecond().alone);
  CUlaunchAttribute cooperative{};
  cooperative.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
  launch().attributes = {cooperative};
  EXPECT_FALSE(OfTheSecond().alone);
  launch().attributes[0].value.cooperative = 1;
  EXPECT_TRUE(OfTheSecond().alone);
  launch().attributes = {};
  launch().behind = {1};
  EXPECT_TRUE(OfTheSecond().alone);
}

}  // namespace
}  // namespace reprise::engine
