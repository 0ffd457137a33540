#include "cache/lru_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace reprise::cache {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Cache = PinnedLruCache<int, std::string>;

// A cache of values of ten bytes each that says what it evicts.
class LruCacheTest : public ::testing::Test {
 protected:
  void Insert(int key) {
    ASSERT_TRUE(cache_.Insert(key, std::to_string(key), 10));
  }
  bool Holds(int key) { return static_cast<bool>(cache_.Lookup(key)); }

  std::vector<int> evicted_;
  Cache cache_{30, [this](const int& key, std::string& value) {
                 EXPECT_EQ(value, std::to_string(key));
                 evicted_.push_back(key);
               }};
};

TEST_F(LruCacheTest, SecondLookupHits) {
  EXPECT_FALSE(cache_.Lookup(1));
  Insert(1);
  const Cache::Pin pin = cache_.Lookup(1);
  ASSERT_TRUE(pin);
  EXPECT_EQ(*pin, "1");
  EXPECT_EQ(pin->size(), 1u);
  EXPECT_EQ(pin.key(), 1);
  EXPECT_EQ(cache_.stats().misses, 1u);
  EXPECT_EQ(cache_.stats().hits, 1u);
}

TEST_F(LruCacheTest, EvictsLeastRecentlyUsed) {
  Insert(1);
  Insert(2);
  Insert(3);
  EXPECT_TRUE(Holds(1));
  Insert(4);
  EXPECT_THAT(evicted_, ElementsAre(2));
  Insert(5);
  EXPECT_THAT(evicted_, ElementsAre(2, 3));
  EXPECT_TRUE(Holds(1));
  EXPECT_FALSE(Holds(2));
  EXPECT_EQ(cache_.stats().evictions, 2u);
  EXPECT_EQ(cache_.stats().charge_bytes, 30u);
}

TEST_F(LruCacheTest, ValueThatGrewPushesOthersOut) {
  Insert(1);
  Insert(2);
  const auto pin = cache_.Insert(3, "3", 10);
  ASSERT_TRUE(pin);
  ASSERT_TRUE(cache_.Recharge(*pin, 15));
  EXPECT_THAT(evicted_, ElementsAre(1));
  EXPECT_EQ(cache_.stats().charge_bytes, 25u);
  ASSERT_TRUE(cache_.Recharge(*pin, 30));
  EXPECT_THAT(evicted_, ElementsAre(1, 2));
  EXPECT_EQ(cache_.stats().charge_bytes, 30u);
  ASSERT_TRUE(cache_.Recharge(*pin, 10));
  EXPECT_EQ(cache_.stats().charge_bytes, 10u);
  Insert(4);
  Insert(5);
  EXPECT_THAT(evicted_, ElementsAre(1, 2));
}

TEST_F(LruCacheTest, ValueDoesNotGrowBeyondWhatPinsLeave) {
  const auto pin = cache_.Insert(1, "1", 10);
  const auto other = cache_.Insert(2, "2", 10);
  Insert(3);
  ASSERT_TRUE(pin);
  const base::Status grown = cache_.Recharge(*pin, 21);
  ASSERT_FALSE(grown);
  EXPECT_EQ(grown.error().code(), base::Code::kResourceExhausted);
  EXPECT_THAT(evicted_, IsEmpty());
  EXPECT_EQ(cache_.stats().charge_bytes, 30u);
  EXPECT_FALSE(cache_.Recharge(*pin, ~size_t{0}));
  EXPECT_TRUE(cache_.Recharge(*pin, 20));
  EXPECT_THAT(evicted_, ElementsAre(3));
}

// An entry counts as used when its last pin goes, not when it was looked up.
TEST_F(LruCacheTest, UseEndsWithTheLastPin) {
  Insert(1);
  Cache::Pin pin = cache_.Lookup(1);
  Insert(2);
  Insert(3);
  pin = {};
  Insert(4);
  EXPECT_THAT(evicted_, ElementsAre(2));
}

TEST_F(LruCacheTest, PinnedIsNeverEvicted) {
  Insert(1);
  const Cache::Pin pin = cache_.Lookup(1);
  for (int key = 2; key < 20; ++key) Insert(key);
  EXPECT_TRUE(Holds(1));
  EXPECT_EQ(*pin, "1");
  cache_.Trim(0);
  EXPECT_TRUE(Holds(1));
  EXPECT_EQ(cache_.stats().entries, 1u);
}

TEST_F(LruCacheTest, EntryStaysUntilItsLastPinGoes) {
  Insert(1);
  Cache::Pin first = cache_.Lookup(1);
  Cache::Pin second = cache_.Lookup(1);
  EXPECT_EQ(cache_.stats().pinned, 1u);
  first = {};
  cache_.Trim(0);
  EXPECT_EQ(*second, "1");
  second = {};
  EXPECT_EQ(cache_.stats().pinned, 0u);
  cache_.Trim(0);
  EXPECT_FALSE(Holds(1));
}

TEST_F(LruCacheTest, InsertGivesAPin) {
  const Cache::Pin pin = cache_.Insert(1, "1", 10).value();
  EXPECT_EQ(*pin, "1");
  EXPECT_EQ(cache_.stats().pinned, 1u);
  cache_.Trim(0);
  EXPECT_TRUE(Holds(1));
}

TEST_F(LruCacheTest, InsertEvictsAsManyAsItNeeds) {
  Insert(1);
  Insert(2);
  Insert(3);
  ASSERT_TRUE(cache_.Insert(4, "4", 15));
  EXPECT_THAT(evicted_, ElementsAre(1, 2));
  EXPECT_EQ(cache_.stats().charge_bytes, 25u);
}

// What cannot fit leaves everything as it was.
TEST_F(LruCacheTest, InsertBeyondTheBudgetIsRefused) {
  Insert(1);
  Insert(2);
  const Cache::Pin pin = cache_.Lookup(2);
  const auto larger = cache_.Insert(3, "3", 31);
  ASSERT_FALSE(larger);
  EXPECT_EQ(larger.error().code(), base::Code::kResourceExhausted);
  const auto beside_pin = cache_.Insert(1, "one", 21);
  ASSERT_FALSE(beside_pin);
  EXPECT_THAT(beside_pin.error().message(), HasSubstr("21 bytes"));
  EXPECT_THAT(evicted_, IsEmpty());
  EXPECT_EQ(*cache_.Lookup(1), "1");
  EXPECT_TRUE(cache_.Insert(3, "3", 20));
}

TEST_F(LruCacheTest, InsertOfAnIdleKeyReplacesIt) {
  Insert(1);
  ASSERT_TRUE(cache_.Insert(1, "one", 20));
  EXPECT_EQ(*cache_.Lookup(1), "one");
  EXPECT_THAT(evicted_, IsEmpty());
  EXPECT_EQ(cache_.stats().charge_bytes, 20u);
}

// The replaced value lives on, and is charged for, as long as its pin.
TEST_F(LruCacheTest, InsertOfAPinnedKeyDetachesIt) {
  Insert(1);
  Cache::Pin old = cache_.Lookup(1);
  ASSERT_TRUE(cache_.Insert(1, "one", 10));
  EXPECT_EQ(*old, "1");
  EXPECT_EQ(*cache_.Lookup(1), "one");
  EXPECT_EQ(cache_.stats().charge_bytes, 20u);
  old = {};
  EXPECT_EQ(cache_.stats().charge_bytes, 10u);
  EXPECT_EQ(*cache_.Lookup(1), "one");
}

TEST_F(LruCacheTest, EraseOfAPinnedKeyDetachesIt) {
  Insert(1);
  Cache::Pin pin = cache_.Lookup(1);
  EXPECT_TRUE(cache_.Erase(1));
  EXPECT_FALSE(cache_.Erase(1));
  EXPECT_FALSE(Holds(1));
  EXPECT_EQ(*pin, "1");
  pin = {};
  EXPECT_EQ(cache_.stats().charge_bytes, 0u);
  EXPECT_THAT(evicted_, IsEmpty());
}

TEST_F(LruCacheTest, ClearErasesEverything) {
  Insert(1);
  Insert(2);
  Cache::Pin pin = cache_.Lookup(2);
  cache_.Clear();
  EXPECT_EQ(cache_.stats().entries, 0u);
  EXPECT_EQ(cache_.stats().charge_bytes, 10u);
  EXPECT_EQ(*pin, "2");
}

TEST_F(LruCacheTest, TrimEvictsDownToItsTarget) {
  Insert(1);
  Insert(2);
  Insert(3);
  cache_.Trim(20);
  EXPECT_THAT(evicted_, ElementsAre(1));
  cache_.Trim(5);
  EXPECT_THAT(evicted_, ElementsAre(1, 2, 3));
}

TEST_F(LruCacheTest, EvictIfTakesWhatIsAcceptedAndNotPinned) {
  for (int key = 1; key <= 3; ++key) Insert(key);
  const Cache::Pin pin = cache_.Lookup(1);
  EXPECT_EQ(cache_.EvictIf([](int key) { return key != 3; }), 10u);
  EXPECT_THAT(evicted_, ElementsAre(2));
  EXPECT_EQ(cache_.stats().charge_bytes, 20u);
  EXPECT_EQ(cache_.stats().evictions, 1u);
  EXPECT_EQ(cache_.EvictIf([](int key) { return key != 3; }), 0u);
  EXPECT_TRUE(cache_.Lookup(1));
  EXPECT_TRUE(cache_.Lookup(3));
}

TEST_F(LruCacheTest, MovedFromPinHoldsNothing) {
  Insert(1);
  Cache::Pin pin = cache_.Lookup(1);
  Cache::Pin moved = std::move(pin);
  EXPECT_FALSE(pin);
  EXPECT_TRUE(moved);
  pin = std::move(moved);
  EXPECT_EQ(cache_.stats().pinned, 1u);
  pin = {};
  EXPECT_EQ(cache_.stats().pinned, 0u);
}

// Would deadlock if the callback or a destructor ran under the lock.
TEST(LruCacheLockTest, ValuesGoUnderNoLock) {
  struct User {
    explicit User(std::function<void()> at_end) : at_end(std::move(at_end)) {}
    User(User&&) = default;
    ~User() {
      if (at_end) at_end();
    }
    std::function<void()> at_end;
  };
  using UserCache = PinnedLruCache<int, std::unique_ptr<User>>;
  int calls = 0;
  std::optional<UserCache> cache;
  auto use = [&] {
    ++calls;
    cache->Lookup(99);
  };
  cache.emplace(10, [&](const int&, std::unique_ptr<User>&) { use(); });
  auto insert = [&](int key) {
    ASSERT_TRUE(cache->Insert(key, std::make_unique<User>(use), 10));
  };
  insert(1);
  insert(2);  // evicts: callback and destructor
  EXPECT_EQ(calls, 2);
  insert(2);  // replaces
  EXPECT_EQ(calls, 3);
  EXPECT_FALSE(cache->Insert(3, std::make_unique<User>(use), 11));  // refuses
  EXPECT_EQ(calls, 4);
  cache->Erase(2);
  EXPECT_EQ(calls, 5);
  insert(4);
  cache->Clear();
  EXPECT_EQ(calls, 6);
  insert(5);
  UserCache::Pin pin = cache->Lookup(5);
  cache->Erase(5);
  pin = {};  // the last pin of a detached entry
  EXPECT_EQ(calls, 7);
}

// Threads that insert, look up and erase the same keys: every pin shows the
// value of its key, and in the end nothing is pinned and the charge is right.
TEST(LruCacheLockTest, ThreadsShareIt) {
  PinnedLruCache<int, int> cache(8);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&cache, t] {
      unsigned random = 12345u + t;
      for (int i = 0; i < 5000; ++i) {
        random = random * 1664525u + 1013904223u;
        const int key = (random >> 16) % 12;
        if (const auto pin = cache.Lookup(key)) {
          ASSERT_EQ(*pin, key * 7);
        } else {
          // May be refused while the other threads hold pins.
          (void)cache.Insert(key, key * 7, 1 + key % 2);
        }
        if (random % 16 == 0) cache.Erase((random >> 8) % 12);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(cache.stats().pinned, 0u);
  EXPECT_LE(cache.stats().charge_bytes, 8u);
  cache.Clear();
  EXPECT_EQ(cache.stats().charge_bytes, 0u);
}

}  // namespace
}  // namespace reprise::cache
