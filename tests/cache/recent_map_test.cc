// Proves that the map knows what was used last, and forgets what was not.

#include "cache/recent_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <unordered_map>

namespace reprise::cache {
namespace {

using ::testing::IsNull;
using ::testing::NotNull;
using ::testing::Pointee;

TEST(RecentMapTest, FindsWhatWasPut) {
  RecentMap<int> map(4);
  EXPECT_THAT(map.Find(7), IsNull());
  map.Put(7) = 70;
  map.Put(0) = 5;  // a hash like any other
  map.Put(1) = 15;
  EXPECT_THAT(map.Find(7), Pointee(70));
  EXPECT_THAT(map.Find(0), Pointee(5));
  EXPECT_THAT(map.Find(1), Pointee(15));
  EXPECT_EQ(map.Put(7), 70);
}

TEST(RecentMapTest, KnowsTheOnesUsedLast) {
  constexpr size_t kMost = 100;
  RecentMap<uint64_t> map(kMost);
  std::mt19937_64 random(1);
  std::unordered_map<uint64_t, uint64_t> used;  // when it was used last
  for (uint64_t step = 0; step < 20'000; ++step) {
    const uint64_t key = random() % 300;
    const auto last = used.find(key);
    uint64_t others = 0;
    if (last != used.end()) {
      for (const auto& [other, when] : used) others += when > last->second;
    }
    if (last != used.end() && others < kMost) {
      ASSERT_THAT(map.Find(key), Pointee(key * 3)) << step;
    }
    map.Put(key) = key * 3;
    used[key] = step;
  }
}

TEST(RecentMapTest, ForgetsWhatWasNotUsedForLong) {
  RecentMap<int> map(8);
  map.Put(1) = 10;
  map.Put(2) = 20;
  for (uint64_t key = 100; key < 200; ++key) {
    map.Put(key);
    ASSERT_THAT(map.Find(1), Pointee(10)) << key;
  }
  EXPECT_THAT(map.Find(2), IsNull());
  EXPECT_THAT(map.Find(183), IsNull());
  EXPECT_THAT(map.Find(199), NotNull());
}

TEST(RecentMapTest, ClearedItKnowsNothing) {
  RecentMap<int> map(8);
  for (uint64_t key = 1; key < 20; ++key) map.Put(key) = 3;
  map.Clear();
  for (uint64_t key = 1; key < 20; ++key) {
    EXPECT_THAT(map.Find(key), IsNull()) << key;
  }
  EXPECT_EQ(map.Put(19), 0);
}

TEST(RecentMapTest, ClearedAgainAndAgainItKnowsWhatCameSince) {
  RecentMap<uint64_t> map(64);
  for (uint64_t round = 1; round < 1000; ++round) {
    for (uint64_t key = round % 7; key < 30; key += 1 + round % 3) {
      ASSERT_THAT(map.Find(key), IsNull()) << round;
      map.Put(key) = round;
      ASSERT_THAT(map.Find(key), Pointee(round)) << round;
    }
    map.Clear();
  }
}

TEST(RecentMapTest, SaysWhatIsMadeAnew) {
  RecentMap<int> map(8);
  EXPECT_TRUE(map.FindOrPut(7).second);
  map.FindOrPut(7).first = 70;
  const auto [value, fresh] = map.FindOrPut(7);
  EXPECT_EQ(value, 70);
  EXPECT_FALSE(fresh);
}

}  // namespace
}  // namespace reprise::cache
