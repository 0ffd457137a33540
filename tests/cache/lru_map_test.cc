// Proves that the map stays within its bound by forgetting what has not been
// used for longest.

#include "cache/lru_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace reprise::cache {
namespace {

using ::testing::ElementsAre;
using ::testing::IsNull;
using ::testing::NotNull;
using ::testing::Pointee;

using Map = LruMap<int, std::string>;

std::vector<int> Keys(const Map& map) {
  std::vector<int> keys;
  for (const auto& [key, value] : map) keys.push_back(key);
  return keys;
}

TEST(LruMapTest, FindsWhatWasPut) {
  Map map(4);
  EXPECT_TRUE(map.empty());
  map.Put(1, "one");
  map.Put(2, "two");
  EXPECT_THAT(map.Find(1), Pointee(std::string("one")));
  EXPECT_THAT(map.Peek(2), Pointee(std::string("two")));
  EXPECT_THAT(map.Find(3), IsNull());
  EXPECT_EQ(map.size(), 2u);
  EXPECT_EQ(map.forgotten(), 0u);
}

TEST(LruMapTest, WhatIsThereKeepsItsValueAndItsWeight) {
  Map map(10);
  map.Put(1, "one", 7);
  EXPECT_EQ(map.Put(1, "another", 100), "one");
  EXPECT_EQ(map.weight(), 7u);
  map.Put(1) = "now";
  EXPECT_THAT(map.Peek(1), Pointee(std::string("now")));
}

TEST(LruMapTest, TheLeastRecentlyUsedGoes) {
  Map map(3);
  for (int key = 0; key < 3; ++key) map.Put(key, "");
  EXPECT_THAT(Keys(map), ElementsAre(2, 1, 0));
  EXPECT_THAT(map.Find(0), NotNull());
  EXPECT_THAT(map.Find(1), NotNull());
  EXPECT_THAT(Keys(map), ElementsAre(1, 0, 2));
  map.Put(3, "");
  EXPECT_THAT(Keys(map), ElementsAre(3, 1, 0));
  EXPECT_THAT(map.Peek(0), NotNull());  // uses nothing
  map.Put(4, "");
  EXPECT_THAT(Keys(map), ElementsAre(4, 3, 1));
  map.Put(1, "");
  map.Put(5, "");
  EXPECT_THAT(Keys(map), ElementsAre(5, 1, 4));
  EXPECT_EQ(map.forgotten(), 3u);
}

TEST(LruMapTest, AHeavyEntryTakesTheRoomOfSeveral) {
  Map map(10);
  for (int key = 0; key < 10; ++key) map.Put(key, "");
  map.Put(10, "", 4);
  EXPECT_EQ(map.size(), 7u);
  EXPECT_EQ(map.weight(), 10u);
  EXPECT_THAT(map.Peek(3), IsNull());
  EXPECT_THAT(map.Peek(4), NotNull());
  // One that is too heavy by itself is all there is, until the next one.
  map.Put(11, "", 100);
  EXPECT_THAT(Keys(map), ElementsAre(11));
  map.Put(12, "");
  EXPECT_THAT(Keys(map), ElementsAre(12));
  EXPECT_EQ(map.weight(), 1u);
  EXPECT_EQ(map.forgotten(), 12u);
}

TEST(LruMapTest, MillionsOfKeysTakeNoMoreRoomThanTheBound) {
  LruMap<uint64_t, uint64_t> map(1000);
  for (uint64_t key = 0; key < 1000000; ++key) {
    map.Put(key, key);
    map.Find(key / 2);
  }
  EXPECT_EQ(map.size(), 1000u);
  EXPECT_EQ(map.forgotten(), 1000000u - 1000u);
  EXPECT_THAT(map.Peek(999999), Pointee(999999u));
}

TEST(LruMapTest, ClearedItBeginsAnew) {
  Map map(2);
  for (int key = 0; key < 5; ++key) map.Put(key, "");
  map.Clear();
  EXPECT_TRUE(map.empty());
  EXPECT_EQ(map.weight(), 0u);
  EXPECT_EQ(map.forgotten(), 0u);
  EXPECT_EQ(Keys(map).size(), 0u);
  map.Put(7, "seven");
  EXPECT_THAT(Keys(map), ElementsAre(7));
}

}  // namespace
}  // namespace reprise::cache
