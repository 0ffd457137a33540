// Whose places overlap, and who is made over whom.

#include "engine/program/shared_places.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/engine/fake_frontend.h"
#include "tests/engine/trace_builder.h"

namespace reprise::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class SharedPlacesTest : public testing::Test {
 protected:
  // Values 0 to 3, one an op.
  SharedPlacesTest() {
    for (int k = 0; k < 4; ++k) builder_.Op({}, {}, 1);
  }

  SharedPlaces Make(std::vector<uint64_t> places) {
    const std::vector<Segment> segments = {{0, 2, 2}, {2, 4, 2}};
    const std::vector<ValueId> outputs = {0, 1, 2, 3};
    const std::vector<uint64_t> bytes = {512, 1024, 1024, 512};
    return SharedPlaces(builder_.trace(), segments, outputs, places, bytes);
  }

  FakeFrontend frontend_;
  TraceBuilder builder_{&frontend_};
};

TEST_F(SharedPlacesTest, PlacesThatTouchAreApart) {
  const SharedPlaces places = Make({0x1000, 0x1200, 0x1600, 0x1a00});
  for (ValueId v = 0; v < 4; ++v) EXPECT_THAT(places.neighbours(v), IsEmpty());
  EXPECT_THAT(places.followers(0), IsEmpty());
  EXPECT_THAT(places.followers(1), IsEmpty());
}

TEST_F(SharedPlacesTest, AValueOverSeveralOthersHasAllOfThemAsNeighbours) {
  // 2 lies over the ends of 0 and 1, 3 begins where 2 ends.
  const SharedPlaces places = Make({0x1200, 0x1400, 0x1300, 0x1700});
  EXPECT_THAT(places.neighbours(0), ElementsAre(2));
  EXPECT_THAT(places.neighbours(1), ElementsAre(2, 3));
  EXPECT_THAT(places.neighbours(2), ElementsAre(0, 1));
  EXPECT_THAT(places.neighbours(3), ElementsAre(1));
  EXPECT_THAT(places.followers(0), IsEmpty());
  EXPECT_THAT(places.followers(1), ElementsAre(2, 3));
}

TEST_F(SharedPlacesTest, AFollowerBelongsToTheSegmentThatMakesIt) {
  const SharedPlaces places = Make({0x1000, 0x1000, 0x2000, 0x3000});
  EXPECT_THAT(places.neighbours(0), ElementsAre(1));
  EXPECT_THAT(places.followers(0), ElementsAre(1));
  EXPECT_THAT(places.followers(1), IsEmpty());
}

}  // namespace
}  // namespace reprise::engine
