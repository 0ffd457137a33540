// Where kernels hold the numbers of an op that changed: lists of them in
// several launches, among entries that nobody wrote.

#include "engine/program/scalar_scan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

namespace reprise::engine {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Two recordings of an op that takes `first`, then `second`.
class ScalarScanTest : public testing::Test {
 protected:
  void Numbers(const std::vector<double>& first,
               const std::vector<double>& second) {
    const auto set = [](TracedOp& op, const std::vector<double>& numbers) {
      for (uint32_t i = 0; i < numbers.size(); ++i) {
        op.slots.push_back({i,
                            {7 + 2 * i, NumberType::kFloat64,
                             std::bit_cast<uint64_t>(numbers[i])}});
      }
    };
    set(first_, first);
    set(second_, second);
    changing_.assign(first.size(), false);
    for (size_t i = 0; i < first.size(); ++i) {
      changing_[i] = first[i] != second[i];
    }
  }

  // A launch with these parameters, in each recording.
  template <typename T>
  void Launch(const std::vector<T>& first, const std::vector<T>& second) {
    const auto launch = [](const std::vector<T>& values) {
      device::Launch launch;
      launch.image.resize(values.size() * sizeof(T));
      std::memcpy(launch.image.data(), values.data(), launch.image.size());
      return launch;
    };
    const auto index = static_cast<uint32_t>(first_.launches.size());
    first_.launches.push_back(launch(first));
    second_.launches.push_back(launch(second));
    const std::span<const std::byte> a = first_.launches.back().image;
    const std::span<const std::byte> b = second_.launches.back().image;
    for (uint32_t at = 0; at < a.size(); at += 8) {
      const size_t size = std::min<size_t>(8, a.size() - at);
      if (std::memcmp(&a[at], &b[at], size) != 0) words_.push_back({index, at});
    }
  }

  NumberPlaces Find() const {
    return FindNumbers(first_, second_, changing_, words_);
  }

  TracedOp first_, second_;
  SlotSet changing_;
  std::vector<device::ImageWord> words_;
};

// A site that holds one number as it is, or rounded.
auto Holds(uint32_t launch, uint32_t offset_bytes, uint32_t width_bytes,
           uint32_t slot) {
  const Encoding encoding =
      width_bytes == 8 ? Encoding::kFloat64 : Encoding::kFloat32;
  return AllOf(
      Field("launch", &ScalarSite::launch, launch),
      Field("offset_bytes", &ScalarSite::offset_bytes, offset_bytes),
      Field("width_bytes", &ScalarSite::width_bytes, width_bytes),
      Field("sources", &ScalarSite::sources,
            ElementsAre(ScalarSource{slot, NumberType::kFloat64, encoding})));
}
auto Copies(uint32_t slot, uint32_t of) {
  return AllOf(Field("slot", &ScalarCopy::slot, slot),
               Field("of", &ScalarCopy::of, of));
}

TEST_F(ScalarScanTest, EachElementOfAListHasItsPlace) {
  Numbers({0.3, 0.7, 0.9}, {0.4, 0.1, 0.6});
  Launch<float>({0.3f, 0.7f, 0.9f}, {0.4f, 0.1f, 0.6f});
  const NumberPlaces places = Find();
  EXPECT_TRUE(places.complete);
  EXPECT_THAT(places.sites, ElementsAre(Holds(0, 0, 4, 0), Holds(0, 4, 4, 1),
                                        Holds(0, 8, 4, 2)));
  EXPECT_THAT(places.copies, IsEmpty());
}

TEST_F(ScalarScanTest, KernelsOfDoublesHoldThemAsTheyAre) {
  Numbers({0.3, 0.7}, {0.4, 0.1});
  Launch<double>({0.3, 0.7}, {0.4, 0.1});
  const NumberPlaces places = Find();
  EXPECT_TRUE(places.complete);
  EXPECT_THAT(places.sites, ElementsAre(Holds(0, 0, 8, 0), Holds(0, 8, 8, 1)));
}

TEST_F(ScalarScanTest, ListsGoOnInTheNextLaunch) {
  Numbers({0.3, 0.7, 0.9}, {0.4, 0.1, 0.6});
  // What was not written again is the launch's before.
  Launch<float>({0.3f, 0.7f}, {0.4f, 0.1f});
  Launch<float>({0.9f, 0.7f}, {0.6f, 0.1f});
  const NumberPlaces places = Find();
  EXPECT_TRUE(places.complete);
  EXPECT_THAT(places.sites, ElementsAre(Holds(0, 0, 4, 0), Holds(0, 4, 4, 1),
                                        Holds(1, 0, 4, 2), Holds(1, 4, 4, 1)));
}

TEST_F(ScalarScanTest, EntriesThatNobodyWroteAreNoNumbers) {
  Numbers({0.3}, {0.4});
  Launch<float>({0.3f, 5.5f, 0.125f, 0}, {0.4f, 1e9f, 0, 3});
  const NumberPlaces places = Find();
  EXPECT_TRUE(places.complete);
  EXPECT_THAT(places.sites, ElementsAre(Holds(0, 0, 4, 0)));
}

TEST_F(ScalarScanTest, ElementsThatHeldOneNumberTwiceAreCopiesOfTheFirst) {
  Numbers({0.3, 0.7, 0.3, 0.3}, {0.4, 0.1, 0.4, 0.6});
  Launch<float>({0.3f, 0.7f, 0.3f, 0.3f}, {0.4f, 0.1f, 0.4f, 0.6f});
  const NumberPlaces places = Find();
  EXPECT_TRUE(places.complete);
  EXPECT_THAT(places.sites, ElementsAre(Holds(0, 0, 4, 0), Holds(0, 4, 4, 1),
                                        Holds(0, 8, 4, 0), Holds(0, 12, 4, 3)));
  EXPECT_THAT(places.copies, ElementsAre(Copies(2, 0)));
}

TEST_F(ScalarScanTest, NumberWithoutAPlaceIsTold) {
  Numbers({0.3, 0.7, 0.7}, {0.4, 0.1, 0.1});
  Launch<float>({0.3f, 0.3f * 0.7f}, {0.4f, 0.4f * 0.1f});
  EXPECT_FALSE(Find().complete);
}

TEST_F(ScalarScanTest, NumbersThatStayedHaveNoPlace) {
  Numbers({0.3, 0.7}, {0.4, 0.7});
  Launch<float>({0.3f, 0.7f}, {0.4f, 0.7f});
  const NumberPlaces places = Find();
  EXPECT_TRUE(places.complete);
  EXPECT_THAT(places.sites, ElementsAre(Holds(0, 0, 4, 0)));
}

// Numbers that are one when they are rounded tell a place together.
TEST_F(ScalarScanTest, PlaceOfSeveralNumbersNamesAll) {
  Numbers({0.3, 0.3 + 1e-12}, {0.4, 0.4 + 1e-12});
  Launch<float>({0.3f, 0.3f}, {0.4f, 0.4f});
  const NumberPlaces places = Find();
  EXPECT_TRUE(places.complete);
  ASSERT_THAT(places.sites, SizeIs(2));
  EXPECT_THAT(places.sites[0].sources, SizeIs(2));
  EXPECT_THAT(places.copies, IsEmpty());
}

// A list that converges, as the corrections of optimizers do.
TEST_F(ScalarScanTest, NumberThatChangesByLessThanIsSeenMustStayRoundedSo) {
  Numbers({0.3, 0.3 + 1e-12}, {0.4, 0.3 + 2e-12});
  Launch<float>({0.3f, 0.3f}, {0.4f, 0.3f});
  const NumberPlaces places = Find();
  EXPECT_TRUE(places.complete);
  EXPECT_THAT(places.sites, ElementsAre(Holds(0, 0, 4, 0)));
  const auto stays = [&places](double number) {
    return std::ranges::all_of(
        places.roundings, [number](const ScalarRounding& rounding) {
          EXPECT_EQ(rounding.source.slot, 1u);
          return rounding.source.Encoded(std::bit_cast<uint64_t>(number)) ==
                 rounding.encoded;
        });
  };
  EXPECT_TRUE(stays(0.3 + 3e-12));
  EXPECT_FALSE(stays(0.3 + 1e-7));
  EXPECT_FALSE(stays(1 / 0.3));
}

// A kernel may hold both, and would divide by what the number was.
TEST_F(ScalarScanTest, InverseThatStayedBesideANumberMustStay) {
  const float number = 1.9f, next = std::nextafter(number, 1.0f);
  ASSERT_EQ(1 / number, 1 / next);
  Numbers({number}, {next});
  Launch<float>({number, 1 / number}, {next, 1 / next});
  const NumberPlaces places = Find();
  EXPECT_TRUE(places.complete);
  EXPECT_THAT(places.sites, ElementsAre(Holds(0, 0, 4, 0)));
  const auto stays = [&places](double now) {
    return std::ranges::all_of(
        places.roundings, [now](const ScalarRounding& rounding) {
          return rounding.source.Encoded(std::bit_cast<uint64_t>(now)) ==
                 rounding.encoded;
        });
  };
  EXPECT_TRUE(stays(number));
  EXPECT_FALSE(stays(1.7f));
}

TEST_F(ScalarScanTest, NumberThatIsWholeInBothIsNoRoundedOne) {
  Numbers({4.1}, {4.4});
  Launch<float>({4.1f * 4.1f}, {4.4f * 4.4f});
  EXPECT_FALSE(Find().complete);
}

TEST_F(ScalarScanTest, ANumberThatDecidesNothingMayBecomeOne) {
  Numbers({1 - 1e-9}, {1 - 2e-9});
  Launch<float>({1}, {1});
  EXPECT_FALSE(Find().complete);
  first_.slots[0].recorded.decides = Decides::kNothing;
  second_.slots[0].recorded.decides = Decides::kNothing;
  EXPECT_TRUE(Find().complete);
}

// A lone op without device work needs none, and holds none.
TEST_F(ScalarScanTest, OpThatLaunchesNothingIsComplete) {
  Numbers({0.3, 0.3, 0.7}, {0.4, 0.4, 0.7 + 1e-12});
  const NumberPlaces places = Find();
  EXPECT_TRUE(places.complete);
  EXPECT_THAT(places.copies, IsEmpty());
  EXPECT_THAT(places.roundings, IsEmpty());
}

TEST_F(ScalarScanTest, ResultsOfTheHostMayHoldANumber) {
  Numbers({0.3}, {0.4});
  Launch<float>({0.3f}, {0.4f});
  EXPECT_TRUE(Find().complete);
  first_.results.emplace_back().kind = ResultSpec::Kind::kHost;
  EXPECT_FALSE(Find().complete);
}

bool Tells(double first, double second, double third) {
  const auto op = [](double number) {
    TracedOp traced;
    traced.slots.push_back(
        {0, {7, NumberType::kFloat64, std::bit_cast<uint64_t>(number)}});
    return traced;
  };
  const uint64_t bits[] = {std::bit_cast<uint64_t>(third)};
  return TellOf(op(first), op(second), bits);
}

// Whether the inverse is the same, computed in float32 and in float64.
bool IsInverseTheSame(double value) {
  return 1.0f / static_cast<float>(value) == static_cast<float>(1.0 / value);
}

// Numbers with which it is, then one with which it is not: another pair of the
// first kind would leave that unknown, too.
TEST(TellOfTest, RecordingsThatTellTwoInversesApartTellOfANumber) {
  std::vector<double> same;
  std::vector<double> other;
  for (int t = 1; t < 64; ++t) {
    const double value = std::sqrt(1 - std::pow(0.999, t));
    (IsInverseTheSame(value) ? same : other).push_back(value);
  }
  ASSERT_GE(same.size(), 3u);
  ASSERT_GE(other.size(), 2u);
  EXPECT_FALSE(Tells(same[0], same[1], other[0]));
  EXPECT_TRUE(Tells(same[0], other[1], other[0]));
  EXPECT_TRUE(Tells(other[1], same[1], other[0]));
  EXPECT_TRUE(Tells(same[0], same[1], same[2]));
}

TEST(TellOfTest, NumberThatChangedTooLittleTellsOfNoneThatChangesMore) {
  EXPECT_FALSE(Tells(0.1, 0.1 + 1e-12, 0.1001));
  EXPECT_TRUE(Tells(0.1, 0.1 + 1e-12, 0.1 + 2e-12));
  EXPECT_TRUE(Tells(0.1, 0.1002, 0.1001));
}

// Nothing tells where each of them stands.
TEST_F(ScalarScanTest, CopiesTellOfNoTwoNumbers) {
  Numbers({0.3, 0.3, 0.7}, {0.4, 0.4, 0.8});
  const auto tell = [this](double a, double b) {
    const uint64_t bits[] = {std::bit_cast<uint64_t>(a),
                             std::bit_cast<uint64_t>(b),
                             std::bit_cast<uint64_t>(0.9)};
    return TellOf(first_, second_, bits);
  };
  EXPECT_FALSE(tell(0.45, 0.46));
  EXPECT_TRUE(tell(0.45, 0.45));
}

}  // namespace
}  // namespace reprise::engine
