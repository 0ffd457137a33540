// Which words of recorded parameters are addresses of values.

#include "engine/device/parameter_scan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <random>

namespace reprise::device {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Two recordings: values at other addresses, whose halves all differ.
constexpr uint64_t kFirst = 0x7f4b'0000'0000;
constexpr uint64_t kSecond = 0x6a3c'4140'0200;
constexpr uint64_t kElsewhere = 0x5522'1100'0000;

Launch Kernel(std::initializer_list<uint64_t> words) {
  Launch launch;
  launch.name = std::make_shared<const std::string>("some_kernel");
  launch.image.resize(words.size() * 8);
  size_t offset = 0;
  for (const uint64_t word : words) {
    launch.SetWord(offset, word);
    offset += 8;
  }
  return launch;
}

bool IsDeviceAddress(uint64_t word) {
  return (word >> 40) == (kFirst >> 40) || (word >> 40) == (kSecond >> 40) ||
         (word >> 40) == (kElsewhere >> 40);
}

// Of 32 bytes.
Launch Copy(uint64_t to, uint64_t from) {
  Launch launch;
  launch.kind = Launch::Kind::kMemcpy;
  launch.image.resize(16);
  launch.width = 32;
  launch.SetWord(0, to);
  launch.SetWord(8, from);
  return launch;
}

base::Result<ScanResult> ScanOne(const Launch& first, const Launch& second,
                                 std::initializer_list<KnownRange> ranges) {
  return Scan({&first, 1}, {&second, 1},
              std::span(ranges.begin(), ranges.size()), {}, IsDeviceAddress);
}

// Of memory that has gone back to the device since the first recording nobody
// knows: a kernel may have read it there.
TEST(ParameterScanTest, AddressOfTheFirstRecordingMayBeGone) {
  const Launch first = Kernel({0x1234'5600'0200});
  const Launch second = Kernel({kElsewhere});
  const auto scan = [&](bool gone) {
    return Scan(
        {&first, 1}, {&second, 1}, {}, {}, IsDeviceAddress,
        [gone](uint64_t word) { return gone || IsDeviceAddress(word); });
  };
  EXPECT_TRUE(scan(false).has_value());
  EXPECT_FALSE(scan(true).has_value());
  // In the second one it would be known.
  EXPECT_TRUE(
      Scan({&second, 1}, {&first, 1}, {}, {}, IsDeviceAddress, [](uint64_t) {
        return true;
      }).has_value());
}

TEST(ParameterScanTest, StaleAddressFollowsWhatItPointedTo) {
  // An address of memory that an earlier op made, left in an unwritten entry.
  const KnownRange background{9, kFirst, kSecond, 64};
  const Launch first = Kernel({1, kFirst + 16});
  const Launch second = Kernel({1, kSecond + 16});
  const auto result =
      Scan({&first, 1}, {&second, 1}, {}, {&background, 1}, IsDeviceAddress);
  ASSERT_TRUE(result) << result.error().message();
  EXPECT_THAT(result->sites, testing::ElementsAre(PointerSite{0, 8, 9, 16}));
  EXPECT_FALSE(
      Scan({&first, 1}, {&second, 1}, {}, {}, IsDeviceAddress).has_value());
}

TEST(ParameterScanTest, FindsWordAtSameOffsetOfMovedRange) {
  const auto result =
      ScanOne(Kernel({1, kFirst, kFirst + 40}),
              Kernel({1, kSecond, kSecond + 40}), {{7, kFirst, kSecond, 64}});
  ASSERT_TRUE(result) << result.error().message();
  EXPECT_THAT(result->sites,
              ElementsAre(PointerSite{0, 8, 7, 0}, PointerSite{0, 16, 7, 40}));
  EXPECT_THAT(result->unexplained, IsEmpty());
}

// Somebody else's memory lies where it lay; what never moved is known.
TEST(ParameterScanTest, NamesMemoryThatIsNoRangeAndStayed) {
  const Launch launch = Kernel({1, kElsewhere + 16, kFirst, 64});
  const auto result =
      ScanOne(launch, launch, {{1, kFirst, kFirst, 64}, {2, kFirst, 0, 64}});
  ASSERT_TRUE(result) << result.error().message();
  EXPECT_THAT(result->sites, IsEmpty());
  EXPECT_THAT(result->lasting, ElementsAre(kElsewhere + 16));
}

TEST(ParameterScanTest, NumbersLaunchesOfTheOp) {
  const Launch first[] = {Kernel({kFirst}), Kernel({3}),
                          Kernel({4, kFirst + 8})};
  const Launch second[] = {Kernel({kSecond}), Kernel({3}),
                           Kernel({4, kSecond + 8})};
  const KnownRange range{1, kFirst, kSecond, 16};
  const auto result = Scan(first, second, {&range, 1}, {}, IsDeviceAddress);
  ASSERT_TRUE(result);
  EXPECT_THAT(result->sites,
              ElementsAre(PointerSite{0, 0, 1, 0}, PointerSite{2, 8, 1, 8}));
}

// An int of 512 beside four stale bytes looks like an address of the first
// recording. It says the same in the second, where the value has moved.
TEST(ParameterScanTest, HalfInitialisedWordStaysConstant) {
  const uint64_t stale = 0x7f4b'0000'0200;
  const auto result = ScanOne(Kernel({stale, kFirst}), Kernel({stale, kSecond}),
                              {{1, kFirst, kSecond, 4096}});
  ASSERT_TRUE(result);
  EXPECT_THAT(result->sites, ElementsAre(PointerSite{0, 8, 1, 0}));
  EXPECT_THAT(result->unexplained, IsEmpty());
}

// The same word with stale bytes that changed and are no address in either.
TEST(ParameterScanTest, ChangedPaddingIsNamedAndNoSite) {
  const auto result = ScanOne(Kernel({0x0000'1234'0000'0200, kFirst}),
                              Kernel({0x0000'4321'0000'0200, kSecond}),
                              {{1, kFirst, kSecond, 4096}});
  ASSERT_TRUE(result);
  EXPECT_THAT(result->sites, ElementsAre(PointerSite{0, 8, 1, 0}));
  ASSERT_THAT(result->unexplained, SizeIs(1));
  EXPECT_THAT(result->unexplained[0],
              AllOf(HasSubstr("launch 0"), HasSubstr("some_kernel"),
                    HasSubstr("offset 0"), HasSubstr("0x123400000200"),
                    HasSubstr("0x432100000200")));
}

// An int beside four stale bytes, and stale bytes beside four that stayed.
TEST(ParameterScanTest, HalfInitialisedWordThatChangedIsNoAddress) {
  const std::pair<uint64_t, uint64_t> words[] = {
      {0x7f4b'0000'0001, 0x7f4a'0000'0001},
      {0x7f4b'0000'0200, 0x7f4a'0000'0200},
      {0x7f4b'0001'9e0e, 0x7f4b'0001'eaee},
      {0x7f4b'0001'9e00, 0x7f4b'0001'eaee},
      {0x7f4b'0002'6680, 0x7f4b'0002'd7f0}};  // the host's heap
  for (const auto& [before, after] : words) {
    const auto result =
        ScanOne(Kernel({before, kFirst}), Kernel({after, kSecond}),
                {{1, kFirst, kSecond, 4096}});
    ASSERT_TRUE(result) << result.error().message();
    EXPECT_THAT(result->sites, ElementsAre(PointerSite{0, 8, 1, 0}));
    EXPECT_THAT(result->unexplained, SizeIs(1));
  }
}

TEST(ParameterScanTest, WordThatIsSaidToBeUnwrittenIsKeptAndNamed) {
  const Launch first[] = {Kernel({1}), Kernel({2, kElsewhere})};
  const Launch second[] = {Kernel({1}), Kernel({2, kElsewhere + 512})};
  const auto scan = [&](ImageWord unwritten) {
    return Scan(first, second, {}, {}, IsDeviceAddress, IsDeviceAddress,
                [=](ImageWord word) { return word == unwritten; });
  };
  EXPECT_FALSE(scan({.launch = 0, .offset_bytes = 8}));
  const auto result = scan({.launch = 1, .offset_bytes = 8});
  ASSERT_TRUE(result) << result.error().message();
  EXPECT_THAT(result->sites, IsEmpty());
  EXPECT_THAT(result->unexplained, SizeIs(1));
}

// What copies name is always written.
TEST(ParameterScanTest, CopyOfUnknownUnalignedMemoryMakesOpUnbuildable) {
  const Launch first = Copy(kFirst, kElsewhere + 1);
  const Launch second = Copy(kSecond, kElsewhere + 4096 + 1);
  EXPECT_FALSE(ScanOne(first, second, {{1, kFirst, kSecond, 32}}).has_value());
}

// A word that is aligned, looks like an address and changed cannot be told from
// an address that nobody explains: the op must not be built.
TEST(ParameterScanTest, ChangedStaleAddressMakesOpUnbuildable) {
  const auto result =
      ScanOne(Kernel({0x7f4b'0000'0200}), Kernel({kElsewhere + 0x200}),
              {{1, kFirst, kSecond, 4096}});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code(), base::Code::kFailedPrecondition);
}

TEST(ParameterScanTest, OnePastTheEndCounts) {
  const auto result = ScanOne(Kernel({kFirst + 64}), Kernel({kSecond + 64}),
                              {{1, kFirst, kSecond, 64}});
  ASSERT_TRUE(result);
  EXPECT_THAT(result->sites, ElementsAre(PointerSite{0, 0, 1, 64}));
}

TEST(ParameterScanTest, TwoPastTheEndDoesNot) {
  EXPECT_FALSE(ScanOne(Kernel({kFirst + 65}), Kernel({kSecond + 65}),
                       {{1, kFirst, kSecond, 64}}));
  EXPECT_FALSE(ScanOne(Kernel({kFirst - 1}), Kernel({kSecond - 1}),
                       {{1, kFirst, kSecond, 64}}));
}

// The end of one range is the beginning of its neighbour in both recordings.
TEST(ParameterScanTest, RangeFromWithinBeatsEndOfNeighbour) {
  for (const bool neighbour_first : {true, false}) {
    const KnownRange left{1, kFirst, kSecond, 64};
    const KnownRange right{2, kFirst + 64, kSecond + 64, 1 << 20};
    const Launch first = Kernel({kFirst + 64});
    const Launch second = Kernel({kSecond + 64});
    const auto result = neighbour_first ? ScanOne(first, second, {left, right})
                                        : ScanOne(first, second, {right, left});
    ASSERT_TRUE(result);
    EXPECT_THAT(result->sites, ElementsAre(PointerSite{0, 0, 2, 0}));
  }
}

// Neighbours in the first recording only: the second tells which was meant.
TEST(ParameterScanTest, EndOfRangeWinsWhereNeighbourMovedElsewhere) {
  const auto result =
      ScanOne(Kernel({kFirst + 64}), Kernel({kSecond + 64}),
              {{1, kFirst, kSecond, 64}, {2, kFirst + 64, kElsewhere, 64}});
  ASSERT_TRUE(result);
  EXPECT_THAT(result->sites, ElementsAre(PointerSite{0, 0, 1, 64}));
}

TEST(ParameterScanTest, RangeThatNeverMovedIsConstant) {
  const auto result = ScanOne(Kernel({kFirst + 8}), Kernel({kFirst + 8}),
                              {{1, kFirst, kFirst, 64}});
  ASSERT_TRUE(result);
  EXPECT_THAT(result->sites, IsEmpty());
  EXPECT_THAT(result->pinned, ElementsAre(PointerSite{0, 0, 1, 8}));
  EXPECT_THAT(result->unexplained, IsEmpty());
}

// Two addresses in one range that did not move, but at other offsets.
TEST(ParameterScanTest, OtherOffsetOfPinnedRangeMakesOpUnbuildable) {
  EXPECT_FALSE(ScanOne(Kernel({kFirst + 8}), Kernel({kFirst + 16}),
                       {{1, kFirst, kFirst, 64}}));
}

TEST(ParameterScanTest, OtherOffsetOfMovedRangeMakesOpUnbuildable) {
  EXPECT_FALSE(ScanOne(Kernel({kFirst + 8}), Kernel({kSecond + 16}),
                       {{1, kFirst, kSecond, 64}}));
}

TEST(ParameterScanTest, UnexplainedAddressNamesLaunchKernelAndOffset) {
  const Launch first[] = {Kernel({1}), Kernel({2, 3, kElsewhere})};
  const Launch second[] = {Kernel({1}), Kernel({2, 3, kElsewhere + 512})};
  const auto result = Scan(first, second, {}, {}, IsDeviceAddress);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code(), base::Code::kFailedPrecondition);
  EXPECT_THAT(result.error().message(),
              AllOf(HasSubstr("launch 1"), HasSubstr("some_kernel"),
                    HasSubstr("offset 16"), HasSubstr("0x552211000000")));
}

// One side alone is enough: a null pointer that became an address.
// No kernel can have read it in the recording where it was none.
TEST(ParameterScanTest, AddressInOneRecordingOnlyIsKeptAndNamed) {
  for (const auto& [before, after] :
       {std::pair{uint64_t{0}, kElsewhere}, {kElsewhere, uint64_t{0}}}) {
    const auto result = ScanOne(Kernel({before}), Kernel({after}), {});
    ASSERT_TRUE(result) << result.error().message();
    EXPECT_THAT(result->sites, ElementsAre());
    EXPECT_THAT(result->unexplained, testing::SizeIs(1));
  }
}

// The kernel may look whether it has the pointer.
TEST(ParameterScanTest, OwnAddressThatBecameNullMakesOpUnbuildable) {
  const Launch first = Kernel({kFirst + 8});
  const Launch second = Kernel({0});
  const KnownRange own{1, kFirst, kSecond, 64};
  const auto result = ScanOne(first, second, {own});
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().message(),
              AllOf(HasSubstr("some_kernel"), HasSubstr("offset 0"),
                    HasSubstr("became null")));
  // Nobody wrote it, or it lay beyond what the op has.
  EXPECT_TRUE(Scan({&first, 1}, {&second, 1}, {&own, 1}, {}, IsDeviceAddress,
                   IsDeviceAddress, [](ImageWord) { return true; }));
  EXPECT_TRUE(ScanOne(Kernel({kFirst + 64}), second, {own}));
  EXPECT_TRUE(ScanOne(second, first, {own}));
}

// It stays what it was in the first recording while that memory lasts.
TEST(ParameterScanTest, LibrarysAddressThatBecameNullIsNamed) {
  const Launch first = Kernel({kElsewhere});
  const Launch second = Kernel({0});
  const auto result = ScanOne(first, second, {});
  ASSERT_TRUE(result) << result.error().message();
  EXPECT_THAT(result->lasting, ElementsAre(kElsewhere));
  const auto unwritten =
      Scan({&first, 1}, {&second, 1}, {}, {}, IsDeviceAddress, IsDeviceAddress,
           [](ImageWord) { return true; });
  ASSERT_TRUE(unwritten) << unwritten.error().message();
  EXPECT_THAT(unwritten->lasting, IsEmpty());
}

TEST(ParameterScanTest, UnexplainedAddressNamesTheNearestRange) {
  const auto result = ScanOne(Kernel({kFirst - 256}), Kernel({kSecond - 512}),
                              {{7, kFirst, kSecond, 64}});
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().message(),
              testing::HasSubstr("range 7 of 64 bytes, at -256, then at -512"));
}

TEST(ParameterScanTest, SmallestRangeWinsWhereRangesOverlap) {
  const KnownRange storage{1, kFirst, kSecond, 4096};
  const KnownRange view{2, kFirst + 256, kSecond + 256, 64};
  for (const bool storage_first : {true, false}) {
    const Launch first = Kernel({kFirst + 264, kFirst + 512});
    const Launch second = Kernel({kSecond + 264, kSecond + 512});
    const auto result = storage_first ? ScanOne(first, second, {storage, view})
                                      : ScanOne(first, second, {view, storage});
    ASSERT_TRUE(result);
    EXPECT_THAT(result->sites, ElementsAre(PointerSite{0, 0, 2, 8},
                                           PointerSite{0, 8, 1, 512}));
  }
}

// The smallest range holds the word in the first recording, but went elsewhere.
TEST(ParameterScanTest, SmallestRangeMustAgreeInBothRecordings) {
  const auto result =
      ScanOne(Kernel({kFirst + 264}), Kernel({kSecond + 264}),
              {{1, kFirst, kSecond, 4096}, {2, kFirst + 256, kElsewhere, 64}});
  ASSERT_TRUE(result);
  EXPECT_THAT(result->sites, ElementsAre(PointerSite{0, 0, 1, 264}));
}

TEST(ParameterScanTest, EmptyRangeExplainsItsOwnAddressOnly) {
  const auto result =
      ScanOne(Kernel({kFirst}), Kernel({kSecond}), {{1, kFirst, kSecond, 0}});
  ASSERT_TRUE(result);
  EXPECT_THAT(result->sites, ElementsAre(PointerSite{0, 0, 1, 0}));
  EXPECT_FALSE(ScanOne(Kernel({kFirst + 1}), Kernel({kSecond + 1}),
                       {{1, kFirst, kSecond, 0}}));
}

// Parameters need not fill the last word; what is left of it cannot be an
// address, but a change in it is named.
TEST(ParameterScanTest, ShortTailIsComparedAndNamed) {
  Launch first = Kernel({kFirst, 5});
  Launch second = Kernel({kSecond, 6});
  first.image.resize(12);
  second.image.resize(12);
  const auto result = ScanOne(first, second, {{1, kFirst, kSecond, 64}});
  ASSERT_TRUE(result);
  EXPECT_THAT(result->sites, ElementsAre(PointerSite{0, 0, 1, 0}));
  ASSERT_THAT(result->unexplained, SizeIs(1));
  EXPECT_THAT(result->unexplained[0], HasSubstr("0x5 became 0x6"));
}

TEST(ParameterScanTest, NoParametersNothingToFind) {
  const auto result = ScanOne(Kernel({}), Kernel({}), {});
  ASSERT_TRUE(result);
  EXPECT_THAT(result->sites, IsEmpty());
}

TEST(ParameterScanTest, OtherNumberOfLaunchesMakesOpUnbuildable) {
  const Launch launches[] = {Kernel({1}), Kernel({1})};
  const auto result =
      Scan({launches, 2}, {launches, 1}, {}, {}, IsDeviceAddress);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code(), base::Code::kFailedPrecondition);
  EXPECT_THAT(result.error().message(), HasSubstr("2 launches"));
}

TEST(ParameterScanTest, OtherShapeMakesOpUnbuildable) {
  Launch wider = Kernel({1});
  wider.grid.x = 2;
  const auto result = ScanOne(Kernel({1}), wider, {});
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().message(), HasSubstr("some_kernel"));
}

TEST(ParameterScanTest, CopiesAndFillsAreScannedLikeKernels) {
  const Launch first = Copy(kFirst, kElsewhere + 4);
  const Launch second = Copy(kSecond, kElsewhere + 4096 + 4);
  const auto result = ScanOne(
      first, second,
      {{1, kFirst, kSecond, 32}, {2, kElsewhere, kElsewhere + 4096, 64}});
  ASSERT_TRUE(result);
  EXPECT_THAT(result->sites,
              ElementsAre(PointerSite{0, 0, 1, 0}, PointerSite{0, 8, 2, 4}));
}

// Relocating by the sites that were found turns the first recording into the
// second, on random images of pointers, numbers and constants.
TEST(ParameterScanTest, SitesRelocateOneRecordingIntoTheOther) {
  std::mt19937_64 random(17);
  for (int round = 0; round < 200; ++round) {
    std::vector<KnownRange> ranges;
    for (uint64_t id = 0; id < 6; ++id) {
      const uint64_t size = random() % 3 * 512 + random() % 100 + 1;
      ranges.push_back({static_cast<uint32_t>(id),
                        kFirst + id * 8192 + random() % 4096 / 8 * 8,
                        kSecond + (5 - id) * 16384 + random() % 4096 / 8 * 8,
                        size});
    }
    Launch first = Kernel({});
    first.image.resize(8 * (1 + random() % 40));
    Launch second = first;
    for (size_t offset = 0; offset < first.image.size(); offset += 8) {
      if (random() % 2 == 0) {
        const KnownRange& range = ranges[random() % ranges.size()];
        const uint64_t delta = random() % (range.size_bytes + 1);
        first.SetWord(offset, range.first_address + delta);
        second.SetWord(offset, range.second_address + delta);
      } else {
        const uint64_t number = random() % 2 == 0 ? random() % 1000 : random();
        first.SetWord(offset, number);
        second.SetWord(offset, number);
      }
    }
    const auto result =
        Scan({&first, 1}, {&second, 1}, ranges, {}, IsDeviceAddress);
    ASSERT_TRUE(result) << result.error().message();
    EXPECT_THAT(result->unexplained, IsEmpty());
    for (const PointerSite& site : result->sites) {
      first.SetWord(site.offset_bytes,
                    ranges[site.id].second_address + site.delta_bytes);
    }
    EXPECT_EQ(first.image, second.image);
  }
}

}  // namespace
}  // namespace reprise::device
