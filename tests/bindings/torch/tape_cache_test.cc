// Which tapes are kept, which of them are looked at for a call, and which go.

#include "bindings/torch/region/tape_cache.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <set>
#include <utility>
#include <vector>

namespace reprise::bindings {
namespace {

using Names = std::set<int64_t>;

// A tape without calls, of such an argument.
std::shared_ptr<const Tape> TapeOf(const at::Tensor& input,
                                   bool fixed_offsets = false) {
  TapeRecord record;
  record.registers.resize(1);
  record.registers[0].origin = TapeRegister::Origin::kInput;
  record.registers[0].form = TensorForm::Of(input);
  record.inputs = {0};
  record.placement.sharing = {0};
  record.placement.fixed_offsets = fixed_offsets;
  return std::make_shared<const Tape>(std::move(record));
}
std::shared_ptr<const Tape> TapeOf(int64_t rows) {
  return TapeOf(at::zeros({rows}));
}

Names Visited(const TapeCache& cache, const at::Tensor& argument) {
  Names names;
  cache.ForEach(std::vector<at::Tensor>{argument},
                [&names](const CachedTape& cached) {
                  EXPECT_TRUE(names.insert(cached.name).second) << "twice";
                });
  return names;
}

// So many tapes that are trusted, of 1, 2, ... rows. The names of all of them.
std::vector<int64_t> AddTrusted(TapeCache& cache, size_t count) {
  std::vector<int64_t> names;
  for (size_t i = 1; i <= count; ++i) {
    CachedTape& tape = *cache.Add(TapeOf(static_cast<int64_t>(i))).tape;
    tape.trusted = true;
    names.push_back(tape.name);
  }
  return names;
}

TEST(TapeCacheTest, AmongManyOnlyTapesOfTheArgumentsSizesAreLookedAt) {
  TapeCache cache;
  const std::vector<int64_t> names = AddTrusted(cache, 15);
  const int64_t second = cache.Add(TapeOf(3)).tape->name;
  EXPECT_EQ(Visited(cache, at::zeros({3})), (Names{names[2], second}));
  EXPECT_EQ(Visited(cache, at::zeros({3, 1})), Names{});
  EXPECT_EQ(Visited(cache, at::zeros({99})), Names{});
}

TEST(TapeCacheTest, ATapeWhoseOffsetsCountIsLookedAtForThatOffset) {
  TapeCache cache;
  AddTrusted(cache, 15);
  const at::Tensor all = at::zeros({200});
  const int64_t anywhere = cache.Add(TapeOf(all.narrow(0, 5, 100))).tape->name;
  const int64_t at_five =
      cache.Add(TapeOf(all.narrow(0, 5, 100), /*fixed_offsets=*/true))
          .tape->name;
  EXPECT_EQ(Visited(cache, all.narrow(0, 5, 100)), (Names{anywhere, at_five}));
  EXPECT_EQ(Visited(cache, all.narrow(0, 6, 100)), Names{anywhere});
}

TEST(TapeCacheTest, ATapeInPlaceOfAnotherKeepsItsName) {
  TapeCache cache;
  const std::vector<int64_t> names = AddTrusted(cache, 15);
  const auto tape = TapeOf(at::zeros({3}), /*fixed_offsets=*/true);
  cache.Replace(*cache.Find(names[2]), tape);
  EXPECT_EQ(cache.size(), 15u);
  EXPECT_EQ(cache.Find(names[2])->tape, tape);
  EXPECT_EQ(Visited(cache, at::zeros({3})), Names{names[2]});
  EXPECT_EQ(Visited(cache, at::zeros({5}).narrow(0, 2, 3)), Names{});
  EXPECT_TRUE(cache.TakeDropped().empty()) << "the name is still in use";
}

TEST(TapeCacheTest, TheLastTapeIsTheOneThatRanOrWasAddedLast) {
  TapeCache cache;
  EXPECT_EQ(cache.last(), nullptr);
  const std::vector<int64_t> names = AddTrusted(cache, 3);
  EXPECT_EQ(cache.last(), cache.Find(names[2])->tape);
  cache.NoteRun(*cache.Find(names[0]));
  EXPECT_EQ(cache.last(), cache.Find(names[0])->tape);
  cache.Clear();
  EXPECT_EQ(cache.last(), nullptr);
  EXPECT_EQ(cache.Find(names[0]), nullptr);
}

TEST(TapeCacheTest, AFewAreKeptWithoutAnyBudget) {
  TapeCache cache(0);
  for (size_t i = 1; i <= TapeCache::kFew; ++i) {
    EXPECT_FALSE(cache.Add(TapeOf(static_cast<int64_t>(i))).dropped);
  }
  EXPECT_TRUE(cache.Add(TapeOf(99)).dropped);
  EXPECT_EQ(cache.size(), TapeCache::kFew);
}

TEST(TapeCacheTest, WhatIsAddedStays) {
  TapeCache cache(0);
  for (int64_t rows = 1; rows <= 200; ++rows) {
    const int64_t name = cache.Add(TapeOf(rows)).tape->name;
    ASSERT_NE(cache.Find(name), nullptr);
    ASSERT_TRUE(Visited(cache, at::zeros({rows})).contains(name));
  }
}

TEST(TapeCacheTest, TapesThatGoAreNamedOnceAndFoundNoMore) {
  TapeCache cache(0);
  AddTrusted(cache, TapeCache::kFew);
  cache.Add(TapeOf(99));
  const std::vector<int64_t> dropped = cache.TakeDropped();
  ASSERT_EQ(dropped.size(), 1u);
  EXPECT_EQ(cache.Find(dropped[0]), nullptr);
  // Names are given in a row, and so are rows.
  EXPECT_EQ(Visited(cache, at::zeros({dropped[0]})), Names{});
  EXPECT_TRUE(cache.TakeDropped().empty());
  cache.Clear();
  EXPECT_EQ(cache.TakeDropped().size(), TapeCache::kFew);
}

TEST(TapeCacheTest, TheTrustedTapeOfFewestUsesGoes) {
  TapeCache cache(0);
  const std::vector<int64_t> names = AddTrusted(cache, TapeCache::kFew);
  for (const int64_t name : names) {
    if (name != names[7]) cache.NoteUse(*cache.Find(name));
  }
  cache.Add(TapeOf(99));
  EXPECT_EQ(cache.TakeDropped(), std::vector{names[7]});
}

// After `turns` turns of all that are kept, in which the other tapes are used:
// whether the first one, which was used four times in a row, goes.
bool GoesAfter(size_t turns) {
  TapeCache cache(0);
  const std::vector<int64_t> names = AddTrusted(cache, TapeCache::kFew);
  for (int use = 0; use < 4; ++use) cache.NoteUse(*cache.Find(names[0]));
  for (size_t use = 0; use < turns * TapeCache::kFew; ++use) {
    cache.NoteUse(*cache.Find(names[2 + use % (TapeCache::kFew - 2)]));
  }
  // The second one has been used once, and just now.
  CachedTape& once = *cache.Find(names[1]);
  once.uses = 0;
  cache.NoteUse(once);
  cache.Add(TapeOf(99));
  return cache.TakeDropped() == std::vector{names[0]};
}

TEST(TapeCacheTest, UsesCountLessAsTurnsGoBy) {
  EXPECT_FALSE(GoesAfter(2));
  EXPECT_FALSE(GoesAfter(8)) << "five uses count half";
  EXPECT_TRUE(GoesAfter(40));
}

TEST(TapeCacheTest, TapesThatAreNotTrustedHaveAQuarterToThemselves) {
  TapeCache cache(0);
  const std::vector<int64_t> names = AddTrusted(cache, TapeCache::kFew);
  for (int64_t rows = 100; rows < 200; ++rows) cache.Add(TapeOf(rows));
  const auto kept = std::ranges::count_if(
      names, [&](int64_t name) { return cache.Find(name) != nullptr; });
  EXPECT_EQ(cache.size(), TapeCache::kFew);
  EXPECT_EQ(kept, 12);
}

TEST(TapeCacheTest, TapesThatAreNotTrustedAreBoundedWithinTheBudget) {
  TapeCache cache;
  for (int64_t rows = 1; rows <= 400; ++rows) cache.Add(TapeOf(rows));
  EXPECT_EQ(cache.size(), TapeCache::kFewUntrusted + 1);
  EXPECT_LT(TapeCache::bytes(), TapeCache::kBudget);
}

TEST(TapeCacheTest, AllCachesHaveOneBudget) {
  const size_t before = TapeCache::bytes();
  TapeCache large;
  AddTrusted(large, 60);
  const size_t taken = TapeCache::bytes() - before;
  EXPECT_GT(taken, 60 * sizeof(TapeRecord));
  {
    TapeCache small(TapeCache::bytes());
    for (int64_t rows = 1; rows <= 20; ++rows) small.Add(TapeOf(rows));
    EXPECT_EQ(small.size(), TapeCache::kFew) << "the others' bytes count";
    EXPECT_EQ(large.size(), 60u) << "who adds gives way";
    EXPECT_GT(TapeCache::bytes(), before + taken);
  }
  EXPECT_EQ(TapeCache::bytes(), before + taken);
  large.Clear();
  EXPECT_EQ(TapeCache::bytes(), before);
}

}  // namespace
}  // namespace reprise::bindings
