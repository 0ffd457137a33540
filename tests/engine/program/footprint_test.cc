// Which memory of the program each segment relies on.

#include "engine/program/footprint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "tests/engine/fake_frontend.h"
#include "tests/engine/trace_builder.h"

namespace reprise::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class FootprintTest : public testing::Test {
 protected:
  // a = f(x); b = f(a, weight); c = f(b, late); d = f(c, late, x, weight).
  FootprintTest() {
    x_ = builder_.External();
    a_ = builder_.Op({x_}, {}, 1);
    weight_ = builder_.External();
    b_ = builder_.Op({a_, weight_}, {}, 1);
    late_ = builder_.External();
    c_ = builder_.Op({b_, late_}, {}, 1);
    builder_.Op({c_, late_, x_, weight_}, {}, 1);
  }

  Footprint Make(std::vector<Segment> segments,
                 std::vector<ValueId> privates = {}) {
    const Effects effects(&builder_.trace(), {late_}, {},
                          Effects::Remake::kWhatLasts, {}, std::move(privates));
    return Footprint(builder_.trace(), effects, segments);
  }

  FakeFrontend frontend_;
  TraceBuilder builder_{&frontend_};
  ValueId x_, a_, weight_, b_, late_, c_;
};

TEST_F(FootprintTest, TheHeadShowsItsOperandsAndNoOthers) {
  const Footprint footprint = Make({{0, 4, 4}});
  EXPECT_THAT(footprint.externals(0), ElementsAre(weight_, late_));
  EXPECT_THAT(footprint.values(0), IsEmpty());
}

TEST_F(FootprintTest, ALaterSegmentTouchesExternalsAndWhatWasMadeBefore) {
  const Footprint footprint = Make({{0, 2, 2}, {2, 4, 2}});
  EXPECT_THAT(footprint.externals(0), ElementsAre(weight_));
  EXPECT_THAT(footprint.values(0), IsEmpty());
  // The late one is shown by the segment's first op.
  EXPECT_THAT(footprint.externals(1), ElementsAre(x_, weight_));
  EXPECT_THAT(footprint.values(1), ElementsAre(b_));
}

TEST_F(FootprintTest, ALateInputOfAnEarlierSegmentIsTouched) {
  const Footprint footprint = Make({{0, 2, 2}, {2, 3, 1}, {3, 4, 1}});
  EXPECT_THAT(footprint.externals(1), IsEmpty());
  EXPECT_THAT(footprint.externals(2), ElementsAre(late_, x_, weight_));
  EXPECT_THAT(footprint.values(2), ElementsAre(c_));
}

TEST_F(FootprintTest, AnOpsOwnExternalThatIsNoInputIsTouchedByALaterSegment) {
  const Footprint footprint = Make({{0, 1, 1}, {1, 4, 3}});
  EXPECT_THAT(footprint.externals(1), ElementsAre(weight_, late_, x_));
  EXPECT_THAT(footprint.values(1), ElementsAre(a_));
}

TEST_F(FootprintTest, PrivateValuesAreTheFirstSegments) {
  const Footprint footprint = Make({{0, 2, 2}, {2, 4, 2}}, {weight_});
  EXPECT_THAT(footprint.externals(0), ElementsAre(weight_));
}

}  // namespace
}  // namespace reprise::engine
