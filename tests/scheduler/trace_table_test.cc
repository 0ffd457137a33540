// Proves that a table of traces stays within its budget, forgets what was seen
// least recently, and tells of it.

#include "scheduler/trace_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <vector>

#include "tests/sim/model_frontend.h"

namespace reprise::scheduler {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class TraceTableTest : public testing::Test {
 protected:
  // Room for ten entries of traces that were seen and no more.
  static constexpr size_t kRoom = 10;

  TraceTableTest() {
    TraceEntry bare(Identity{Externals(&frontend_)});
    entry_bytes_ = HostBytes(bare);
    Restart(kRoom * entry_bytes_);
  }
  ~TraceTableTest() override { table_->Clear(); }

  void Restart(size_t budget_bytes) {
    table_ = std::make_unique<TraceTable>(
        budget_bytes,
        [this](TraceEntry& entry) { gone_.push_back(entry.signature.lo); });
  }
  TraceEntry* See(uint64_t signature) {
    TraceEntry* entry = table_
                            ->EntryFor({.signature = {.lo = signature},
                                        .ops = 3,
                                        .head_hash = 5,
                                        .externals = Externals(&frontend_)})
                            .entry;
    table_->Use(entry);
    return entry;
  }
  void Trim() {
    table_->Trim([this](const TraceEntry& entry) {
      return in_cache_.contains(entry.signature.lo);
    });
  }
  std::shared_ptr<engine::Trace> Recording(size_t host_bytes) {
    auto trace = std::make_shared<engine::Trace>(&frontend_);
    trace->host_bytes = host_bytes;
    return trace;
  }

  sim::ModelFrontend frontend_;
  size_t entry_bytes_ = 0;
  std::unique_ptr<TraceTable> table_;
  std::vector<uint64_t> gone_;
  std::set<uint64_t> in_cache_;
};

TEST_F(TraceTableTest, FindsWhatItHasSeen) {
  TraceEntry* entry = See(1);
  EXPECT_EQ(entry->ops, 3u);
  EXPECT_EQ(entry->head_hash, 5u);
  EXPECT_EQ(See(1), entry);
  EXPECT_NE(See(2), entry);
  EXPECT_NE(See(2)->id, entry->id);
  EXPECT_EQ(table_->size(), 2u);
  EXPECT_EQ(table_->counted_bytes(), 2 * entry_bytes_);
  EXPECT_TRUE(table_
                  ->EntryFor({.signature = {.lo = 3},
                              .ops = 1,
                              .head_hash = 0,
                              .externals = Externals(&frontend_)})
                  .new_signature);
}

TEST_F(TraceTableTest, ForgetsWhatWasSeenLeastRecently) {
  for (uint64_t i = 0; i < kRoom; ++i) See(i);
  Trim();
  EXPECT_THAT(gone_, IsEmpty());
  See(0);
  See(100);
  Trim();
  EXPECT_THAT(gone_, ElementsAre(1));
  See(101);
  See(102);
  Trim();
  EXPECT_THAT(gone_, ElementsAre(1, 2, 3));
  EXPECT_EQ(table_->size(), kRoom);
  EXPECT_EQ(table_->forgotten(), 3u);
  EXPECT_LE(table_->counted_bytes(), kRoom * entry_bytes_);
}

TEST_F(TraceTableTest, OneThatComesAgainAfterItWasForgottenIsNew) {
  const TraceId id = See(0)->id;
  for (uint64_t i = 1; i <= kRoom; ++i) See(i);
  Trim();
  ASSERT_THAT(gone_, ElementsAre(0));
  EXPECT_NE(See(0)->id, id);
}

TEST_F(TraceTableTest, RecordingsCount) {
  for (uint64_t i = 0; i < kRoom; ++i) See(i);
  TraceEntry* entry = See(7);
  entry->first = Recording(3 * entry_bytes_);
  table_->Count(entry);
  Trim();
  EXPECT_THAT(gone_, ElementsAre(0, 1, 2));
  entry->second = Recording(2 * entry_bytes_);
  entry->known_ops.Know(
      std::vector<uint64_t>(1 + entry_bytes_ / sizeof(uint64_t)));
  table_->Count(entry);
  Trim();
  EXPECT_THAT(gone_, ElementsAre(0, 1, 2, 3, 4, 5, 6));
}

TEST_F(TraceTableTest, TheOneSeenLastStaysHoweverMuchItTakes) {
  for (uint64_t i = 0; i < kRoom; ++i) See(i);
  TraceEntry* entry = See(100);
  entry->first = Recording(100 * entry_bytes_);
  table_->Count(entry);
  Trim();
  EXPECT_EQ(table_->size(), 1u);
  EXPECT_EQ(See(100), entry);
  See(101);
  Trim();
  EXPECT_EQ(gone_.back(), 100u);
  EXPECT_EQ(table_->counted_bytes(), entry_bytes_);
}

TEST_F(TraceTableTest, WhatHasAPlanStaysAndDoesNotCount) {
  for (uint64_t i = 0; i < kRoom; ++i) {
    TraceEntry* entry = See(i);
    entry->first = Recording(10 * entry_bytes_);
    in_cache_.insert(i);
    table_->HasPlan(entry);
  }
  EXPECT_EQ(table_->counted_bytes(), 0u);
  for (uint64_t i = 1000; i < 2000; ++i) {
    See(i);
    Trim();
  }
  EXPECT_EQ(table_->size(), 2 * kRoom);
  EXPECT_EQ(*std::min_element(gone_.begin(), gone_.end()), 1000u);
  // Without it, it counts, and was seen last.
  TraceEntry* entry = See(3);
  entry->first.reset();
  table_->HasNoPlan(entry);
  Trim();
  EXPECT_EQ(table_->counted_bytes(), kRoom * entry_bytes_);
  EXPECT_EQ(See(3), entry);
}

// Nobody tells that a plan was evicted until its trace comes.
TEST_F(TraceTableTest, WhatLostItsPlanIsFoundOutAndForgotten) {
  constexpr uint64_t kPlans = 5;
  for (uint64_t i = 0; i < 10000; ++i) {
    table_->HasPlan(See(i));
    in_cache_.insert(i);
    if (i >= kPlans) in_cache_.erase(i - kPlans);
    Trim();
    ASSERT_LE(table_->size(), kRoom + 2 * kPlans + 100);
    ASSERT_LE(table_->counted_bytes(), kRoom * entry_bytes_);
  }
  EXPECT_EQ(table_->forgotten() + table_->size(), 10000u);
  for (const uint64_t signature : gone_) {
    ASSERT_FALSE(in_cache_.contains(signature));
  }
}

TEST_F(TraceTableTest, ClearTellsOfAll) {
  See(1);
  table_->HasPlan(See(2));
  table_->Clear();
  EXPECT_THAT(gone_, UnorderedElementsAre(1, 2));
  EXPECT_EQ(table_->size(), 0u);
  EXPECT_EQ(table_->counted_bytes(), 0u);
  EXPECT_EQ(table_->forgotten(), 0u);
}

}  // namespace
}  // namespace reprise::scheduler
