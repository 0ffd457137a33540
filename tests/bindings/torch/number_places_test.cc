// Where numbers that differ were given first.

#include "bindings/torch/region/number_places.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>

namespace reprise::bindings {
namespace {

using Values = NumberPlaces::Values;

TEST(NumberPlacesTest, KnowsNothingBeforeNumbersCome) {
  NumberPlaces places;
  places.Ask({});
  EXPECT_EQ(places.Of(Values(1, 2)), 0);
  EXPECT_EQ(places.Of(std::nullopt), 0);
}

TEST(NumberPlacesTest, TellsWhereEachCameFirst) {
  NumberPlaces places;
  places.Ask({{1, 2}, {3, 4}});
  places.Ask({{5, 6}, {1, 2}});
  const uint64_t first = places.Of(Values(1, 2));
  EXPECT_NE(first, 0);
  EXPECT_EQ(places.Of(Values(3, 4)), first);
  EXPECT_GT(places.Of(Values(5, 6)), first);
  // Of others, where numbers differed first.
  EXPECT_EQ(places.Of(Values(7, 8)), first);
  EXPECT_EQ(places.Of(std::nullopt), first);
}

}  // namespace
}  // namespace reprise::bindings
