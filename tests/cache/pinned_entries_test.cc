#include "cache/pinned_entries.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace reprise::cache {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Table = PinnedEntries<int, std::string>;
using Entries = Table::Entries;

std::vector<int> KeysOf(const Entries& entries) {
  std::vector<int> keys;
  for (const Table::Entry& entry : entries) keys.push_back(entry.key);
  return keys;
}

// Under a budget of 30 bytes.
class PinnedEntriesTest : public testing::Test {
 protected:
  base::Status Add(int key, size_t bytes = 10) {
    Entries made = Table::Make(key, std::to_string(key), bytes);
    base::Status added = entries_.Add(made, gone_, evicted_);
    EXPECT_EQ(made.empty(), added.has_value());
    return added;
  }
  // Without a pin.
  void AddIdle(int key) {
    ASSERT_TRUE(Add(key));
    Unpin(key);
  }
  // Of one that has a pin.
  void Unpin(int key) {
    const auto found = entries_.Find(key);
    ASSERT_TRUE(found.has_value());
    entries_.Unpin(*found, gone_);
    entries_.Unpin(*found, gone_);
  }

  Table entries_{30};
  Entries gone_;
  Entries evicted_;
};

TEST_F(PinnedEntriesTest, WhatIsIdleGoesLeastRecentlyUsedFirst) {
  for (const int key : {1, 2, 3}) AddIdle(key);
  const auto found = entries_.Find(1);
  ASSERT_TRUE(found.has_value());
  entries_.Unpin(*found, gone_);
  EXPECT_TRUE(Add(4));
  EXPECT_THAT(KeysOf(evicted_), ElementsAre(2));
  entries_.Trim(10, evicted_);
  EXPECT_THAT(KeysOf(evicted_), ElementsAre(2, 3, 1));
  EXPECT_EQ(entries_.evictions(), 3u);
  EXPECT_EQ(entries_.charge_bytes(), 10u);
}

TEST_F(PinnedEntriesTest, WhatIsPinnedStays) {
  EXPECT_TRUE(Add(1));
  EXPECT_EQ(entries_.pinned(), 1u);
  entries_.Trim(0, evicted_);
  EXPECT_EQ(entries_.EvictIf([](int) { return true; }, evicted_), 0u);
  EXPECT_THAT(evicted_, IsEmpty());
  Unpin(1);
  EXPECT_EQ(entries_.pinned(), 0u);
  EXPECT_EQ(entries_.EvictIf([](int) { return true; }, evicted_), 10u);
  EXPECT_THAT(KeysOf(evicted_), ElementsAre(1));
}

// It counts until its last pin ends.
TEST_F(PinnedEntriesTest, DetachedEntryGoesWithItsLastPin) {
  EXPECT_TRUE(Add(1));
  const auto found = entries_.Find(1);
  ASSERT_TRUE(found.has_value());
  EXPECT_TRUE(entries_.Detach(1, gone_));
  EXPECT_FALSE(entries_.Detach(1, gone_));
  EXPECT_FALSE(entries_.Contains(1));
  EXPECT_FALSE(entries_.Find(1).has_value());
  entries_.Unpin(*found, gone_);
  EXPECT_THAT(gone_, IsEmpty());
  EXPECT_EQ(entries_.charge_bytes(), 10u);
  entries_.Unpin(*found, gone_);
  EXPECT_THAT(KeysOf(gone_), ElementsAre(1));
  EXPECT_EQ(entries_.charge_bytes(), 0u);
}

TEST_F(PinnedEntriesTest, NewEntryTakesThePlaceOfOneWithItsKey) {
  AddIdle(1);
  EXPECT_TRUE(Add(1, 20));
  EXPECT_THAT(KeysOf(gone_), ElementsAre(1));
  EXPECT_THAT(evicted_, IsEmpty());
  EXPECT_EQ(entries_.size(), 1u);
  EXPECT_EQ(entries_.charge_bytes(), 20u);
}

TEST_F(PinnedEntriesTest, WhatDoesNotFitChangesNothing) {
  EXPECT_TRUE(Add(1));
  AddIdle(2);
  EXPECT_FALSE(Add(3, 21));
  EXPECT_FALSE(Add(2, 21));
  EXPECT_FALSE(Add(3, 31));
  EXPECT_TRUE(entries_.Contains(2));
  EXPECT_THAT(evicted_, IsEmpty());
  EXPECT_TRUE(Add(3, 20));
  EXPECT_THAT(KeysOf(evicted_), ElementsAre(2));
}

TEST_F(PinnedEntriesTest, PinnedEntryIsChargedAnew) {
  EXPECT_TRUE(Add(1));
  AddIdle(2);
  const auto found = entries_.Find(1);
  ASSERT_TRUE(found.has_value());
  EXPECT_FALSE(entries_.Recharge(*found, 31, evicted_));
  EXPECT_THAT(evicted_, IsEmpty());
  EXPECT_TRUE(entries_.Recharge(*found, 30, evicted_));
  EXPECT_THAT(KeysOf(evicted_), ElementsAre(2));
  EXPECT_TRUE(entries_.Recharge(*found, 5, evicted_));
  EXPECT_EQ(entries_.charge_bytes(), 5u);
}

TEST_F(PinnedEntriesTest, EntriesAreCountedByTheirKeys) {
  for (const int key : {1, 2, 3}) AddIdle(key);
  EXPECT_EQ(entries_.CountIf([](int key) { return key > 1; }), 2u);
  entries_.DetachAll(gone_);
  EXPECT_EQ(entries_.size(), 0u);
  EXPECT_EQ(entries_.charge_bytes(), 0u);
}

}  // namespace
}  // namespace reprise::cache
