// Memory that launches name counts as gone once it has been freed, and no other
// does.

#include "engine/trace/memory_watch.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace reprise::engine {
namespace {

TEST(AddressSetTest, HoldsEveryAddressOfARangeAndNoOther) {
  AddressSet set;
  set.Insert(100, 200);
  EXPECT_FALSE(set.Contains(99));
  EXPECT_TRUE(set.Contains(100));
  EXPECT_TRUE(set.Contains(199));
  EXPECT_FALSE(set.Contains(200));
}

TEST(AddressSetTest, JoinsRangesThatTouchOrOverlap) {
  AddressSet set;
  set.Insert(100, 200);
  set.Insert(300, 400);
  set.Insert(200, 250);
  set.Insert(240, 320);
  EXPECT_TRUE(set.Contains(260));
  set.Erase(100, 400);
  for (uint64_t address = 90; address < 410; ++address) {
    EXPECT_FALSE(set.Contains(address)) << address;
  }
}

TEST(AddressSetTest, SplitsARangeWhosePartGoes) {
  AddressSet set;
  set.Insert(100, 400);
  set.Erase(200, 300);
  EXPECT_TRUE(set.Contains(199));
  EXPECT_FALSE(set.Contains(200));
  EXPECT_FALSE(set.Contains(299));
  EXPECT_TRUE(set.Contains(300));
}

TEST(AddressSetTest, IgnoresEmptyRangesAndStrangersLeaving) {
  AddressSet set;
  set.Insert(100, 100);
  EXPECT_FALSE(set.Contains(100));
  set.Insert(100, 200);
  set.Erase(200, 300);
  set.Erase(0, 100);
  EXPECT_TRUE(set.Contains(100));
  EXPECT_TRUE(set.Contains(199));
}

class MemoryWatchTest : public testing::Test {
 protected:
  // A watch begun while blocks at 0x1000 and 0x2000 were in use.
  std::shared_ptr<MemoryWatch> Begin() {
    return watches_.Begin([] {
      return std::vector<MemoryWatches::Block>{{0x1000, 0x200},
                                               {0x2000, 0x200}};
    });
  }
  static void Narrow(MemoryWatch& watch, std::vector<uint64_t> addresses) {
    watch.Narrow(addresses);
  }

  MemoryWatches watches_;
};

TEST_F(MemoryWatchTest, BreaksWhenABlockThatCountsIsFreed) {
  const auto watch = Begin();
  Narrow(*watch, {0x1040});
  watches_.Freed(0x2000, 0x200);
  EXPECT_FALSE(watch->broken());
  watches_.Freed(0x1000, 0x200);
  EXPECT_TRUE(watch->broken());
}

TEST_F(MemoryWatchTest, BlockThatWasFreedSinceTheBeginningCounts) {
  const auto watch = Begin();
  watches_.Freed(0x1000, 0x200);
  watches_.Freed(0x1000, 0x200);  // by its next owner
  EXPECT_FALSE(watch->broken());
  Narrow(*watch, {0x1040});
  EXPECT_TRUE(watch->broken());
}

// Of which nobody else knows any more once it has gone back to the device.
TEST_F(MemoryWatchTest, KnowsWhatWasInUseAndWhatWasFreedSince) {
  const auto watch = Begin();
  EXPECT_TRUE(watch->Knows(0x1010));
  EXPECT_FALSE(watch->Knows(0x9010));
  watches_.Freed(0x1000, 0x100);
  watches_.Freed(0x9000, 0x100);
  EXPECT_TRUE(watch->Knows(0x1010));
  EXPECT_TRUE(watch->Knows(0x9010));
}

// Parameters hold stale addresses that no kernel follows.
TEST_F(MemoryWatchTest, AddressInMemoryThatWasNotInUseDoesNotCount) {
  const auto watch = Begin();
  watches_.Freed(0x3000, 0x200);
  Narrow(*watch, {0x3000, 0x4000});
  watches_.Freed(0x3000, 0x200);
  watches_.Freed(0x4000, 0x200);
  EXPECT_FALSE(watch->broken());
}

TEST_F(MemoryWatchTest, BlockThatIsFreedWhileAWatchBeginsIsNotMissed) {
  const auto watch = watches_.Begin([this] {
    const std::vector<MemoryWatches::Block> blocks = {{0x1000, 0x200}};
    watches_.Freed(0x1000, 0x200);
    return blocks;
  });
  Narrow(*watch, {0x1000});
  EXPECT_TRUE(watch->broken());
}

TEST_F(MemoryWatchTest, FirstNarrowingDecides) {
  const auto watch = Begin();
  Narrow(*watch, {0x1000});
  Narrow(*watch, {0x2000});
  watches_.Freed(0x2000, 0x200);
  EXPECT_FALSE(watch->broken());
}

TEST_F(MemoryWatchTest, WatchesOfOneBlockEndEachByItself) {
  auto first = Begin();
  const auto second = Begin();
  Narrow(*first, {0x1000, 0x1000, 0x1008});
  Narrow(*second, {0x1000});
  auto wide = Begin();
  first.reset();
  wide.reset();
  watches_.Freed(0x1000, 0x200);
  EXPECT_TRUE(second->broken());
}

}  // namespace
}  // namespace reprise::engine
