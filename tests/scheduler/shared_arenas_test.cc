// Proves that plans of one program for several sizes take turns in one arena,
// with eager's bits whatever the program keeps, and that those that are in use
// at once do not.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <random>
#include <utility>
#include <vector>

#include "tests/scheduler/twin_programs.h"

namespace reprise::scheduler {
namespace {

using sim::ModelTensor;

class SharedArenasTest : public TwinPrograms {
 protected:
  static constexpr size_t kSizes = 8;

  SharedArenasTest() {
    shared_arena_bytes_ = 1;
    Begin(size_t{1} << 24);
  }

  // Nothing is known, and weights are as long as the longest of all.
  void Begin(size_t plan_budget_bytes) {
    Restart(plan_budget_bytes);
    for (Side* side : {&watched_, &plain_}) {
      for (size_t i = 0; i < side->weights.size(); ++i) {
        side->weights[i] = side->program->Make(0.75f * static_cast<float>(i),
                                               Elements(kSizes - 1));
      }
    }
  }

  // Each size takes another number of places.
  static size_t Elements(size_t size) {
    return engine::kPlaceAlignment / sizeof(float) * (size + 1);
  }

  // Some ops on so many elements, with writes in place between reads; all that
  // they make, the result last.
  static Held Layers(Side& side, float seed, size_t elements, size_t layers) {
    Held made = {side.program->Make(seed, elements)};
    for (size_t layer = 0; layer < layers; ++layer) {
      const ModelTensor sum =
          side.program->Add(made.back(), side.weights[layer % 8]);
      made.push_back(sum);
      const ModelTensor scaled =
          side.program->Scale(sum, 0.5f + 0.125f * static_cast<float>(layer));
      side.program->Negate(sum);
      side.program->Mix(scaled, sum);
      made.push_back(scaled);
    }
    return made;
  }

  // A pass on that size. Its result, one of the values that it makes, or all of
  // them, is kept for so many passes more, and what is kept is compared.
  static constexpr size_t kAll = ~size_t{0};
  static constexpr size_t kLast = kAll - 1;
  void Pass(size_t size, size_t keep, size_t what = kLast, size_t layers = 3) {
    const auto seed = static_cast<float>(++passes_);
    const auto step = [&](Side& side) {
      Held made = Layers(side, seed, Elements(size), layers);
      side.program->Read(made.back());
      if (what == kAll) return made;
      return Held{made[std::min(what, made.size() - 1)]};
    };
    kept_.push_back({step(watched_), step(plain_), passes_ + keep});
    builds_now_ = true;
    while (builds_.RunOne()) builds_plan_ = false;
    builds_now_ = false;
    std::erase_if(kept_,
                  [this](const Kept& one) { return one.until < passes_; });
    for (const Kept& one : kept_) {
      ASSERT_EQ(one.held.size(), one.expected.size());
      for (size_t i = 0; i < one.held.size(); ++i) {
        ASSERT_EQ(one.held[i].values(), one.expected[i].values())
            << "tensor " << i << " in pass " << passes_;
      }
    }
  }
  void Passes(int count, size_t keep, size_t what = kLast) {
    for (int i = 0; i < count; ++i) {
      ASSERT_NO_FATAL_FAILURE(Pass(random_() % kSizes, keep, what));
    }
  }

  size_t Arenas() const {
    return plans_->CountIf([](const PlanKey& key) { return !key.is_plan(); });
  }
  // What all plans that are ready lay out, and the largest of them.
  std::pair<uint64_t, uint64_t> Layouts() {
    uint64_t sum = 0;
    uint64_t most = 0;
    session_->Inspect(
        [&](const Journal&, const auto& entries, const engine::Frontend&) {
          for (const TraceEntry* entry : entries) {
            if (entry->state != TraceEntry::State::kReady) continue;
            sum += entry->summary.layout_bytes;
            most = std::max(most, entry->summary.layout_bytes);
          }
        });
    return {sum, most};
  }
  // Arenas of instances that have one to themselves.
  uint64_t OwnBytes() {
    uint64_t sum = 0;
    session_->Inspect(
        [&](const Journal&, const auto& entries, const engine::Frontend&) {
          for (const TraceEntry* entry : entries)
            sum += entry->instances.bytes();
        });
    return sum;
  }

  struct Kept {
    Held held;
    Held expected;
    uint64_t until = 0;
  };
  std::deque<Kept> kept_;
  uint64_t passes_ = 0;
  bool builds_now_ = false;
  bool builds_plan_ = false;  // no other instance of one
  std::mt19937 random_{7};
};

TEST_F(SharedArenasTest, BatchesOfSeveralSizesTakeTurnsInOne) {
  ASSERT_NO_FATAL_FAILURE(Passes(300, 1));
  EXPECT_EQ(Arenas(), 1u) << Traces();
  EXPECT_EQ(OwnBytes(), 0u) << Traces();
  const auto [sum, most] = Layouts();
  EXPECT_GT(sum, 4 * most);
  const Stats before = stats();
  ASSERT_NO_FATAL_FAILURE(Passes(100, 1));
  EXPECT_GT(FollowedSince(before), 0.7) << Traces();  // Read is a cut
  EXPECT_EQ(stats().builds, before.builds);
}

TEST_F(SharedArenasTest, OneSizeHasItsOwn) {
  for (int i = 0; i < 30; ++i) ASSERT_NO_FATAL_FAILURE(Pass(3, 1));
  EXPECT_EQ(Arenas(), 0u);
  EXPECT_GT(OwnBytes(), 0u);
  EXPECT_GT(stats().replays, 10u);
}

TEST_F(SharedArenasTest, SmallOnesHaveTheirOwn) {
  shared_arena_bytes_ = size_t{1} << 20;
  Begin(size_t{1} << 24);
  ASSERT_NO_FATAL_FAILURE(Passes(200, 1));
  EXPECT_EQ(Arenas(), 0u);
  EXPECT_GT(stats().replays, 100u);
}

// What is kept of one pass stands in the way of all others.
TEST_F(SharedArenasTest, AnArenaOfWhichValuesAreKeptForEverIsLeft) {
  ASSERT_NO_FATAL_FAILURE(Passes(200, 0));
  ASSERT_EQ(Arenas(), 1u);
  ASSERT_NO_FATAL_FAILURE(Pass(2, 1 << 20, kAll));
  ASSERT_NO_FATAL_FAILURE(Passes(100, 0));
  const Stats before = stats();
  ASSERT_NO_FATAL_FAILURE(Passes(100, 0));
  EXPECT_GT(FollowedSince(before), 0.7) << Traces();
  EXPECT_EQ(Arenas(), 1u);
}

// Its plan would keep an arena that all others have left.
TEST_F(SharedArenasTest, WhatComesNoMoreKeepsNoArena) {
  for (int i = 0; i < 30; ++i) {
    ASSERT_NO_FATAL_FAILURE(Pass(static_cast<size_t>(i) % 2, 0));
  }
  ASSERT_EQ(Arenas(), 1u) << Traces();
  // The first two come no more, and the others need more.
  for (int i = 0; i < 400; ++i) {
    ASSERT_NO_FATAL_FAILURE(Pass(2 + random_() % (kSizes - 2), 0));
  }
  EXPECT_EQ(Arenas(), 1u) << Traces();
  EXPECT_EQ(OwnBytes(), 0u) << Traces();
  const Stats before = stats();
  ASSERT_NO_FATAL_FAILURE(Passes(200, 0));
  EXPECT_GT(FollowedSince(before), 0.5) << Traces();
}

TEST_F(SharedArenasTest, KeepingEveryResultCostsNoReplays) {
  ASSERT_NO_FATAL_FAILURE(Passes(300, 1 << 20));
  const Stats before = stats();
  ASSERT_NO_FATAL_FAILURE(Passes(100, 1 << 20));
  EXPECT_GT(FollowedSince(before), 0.7) << Traces();
}

// One that is kept from before it was known stands in the way of one of two.
TEST_F(SharedArenasTest, AFewSizesInTurnWhoseResultsAreKeptAreReplayed) {
  for (size_t sizes = 2; sizes <= 5; ++sizes) {
    kept_.clear();
    Begin(size_t{1} << 24);
    for (size_t i = 0; i < 200; ++i) {
      ASSERT_NO_FATAL_FAILURE(Pass(i % sizes, 1 << 20));
    }
    const Stats before = stats();
    for (size_t i = 0; i < 40; ++i) {
      ASSERT_NO_FATAL_FAILURE(Pass(i % sizes, 1 << 20));
    }
    EXPECT_GT(FollowedSince(before), 0.7) << sizes << "\n" << Traces();
  }
}

// Values that several passes keep count once.
TEST_F(SharedArenasTest, AnArenaOfWhichSeveralValuesAreKeptIsLeft) {
  ASSERT_NO_FATAL_FAILURE(Passes(200, 0));
  for (size_t i = 0; i < 3; ++i) {
    ASSERT_NO_FATAL_FAILURE(Pass(2 + i, 1 << 20, kAll));
  }
  ASSERT_NO_FATAL_FAILURE(Passes(300, 0));
  EXPECT_EQ(OwnBytes(), 0u) << Traces();
}

// Idle plans give way with their arena to a larger one.
TEST_F(SharedArenasTest, IdlePlansGiveTheirArenaToOthers) {
  ASSERT_NO_FATAL_FAILURE(Passes(200, 0));
  Begin(plans_->stats().charge_bytes);
  for (int i = 0; i < 60; ++i) {
    ASSERT_NO_FATAL_FAILURE(Pass(3 + static_cast<size_t>(i) % 2, 0));
  }
  ASSERT_EQ(Arenas(), 1u);
  // Another program, whose layers are more.
  for (int i = 0; i < 60; ++i) {
    ASSERT_NO_FATAL_FAILURE(
        Pass(6 + static_cast<size_t>(i) % 2, 0, kLast, /*layers=*/6));
  }
  const Stats before = stats();
  for (int i = 0; i < 20; ++i) {
    ASSERT_NO_FATAL_FAILURE(
        Pass(6 + static_cast<size_t>(i) % 2, 0, kLast, /*layers=*/6));
  }
  EXPECT_GT(FollowedSince(before), 0.7) << Traces();
}

TEST_F(SharedArenasTest, ThoseThatAreInUseAtOnceHaveArenasOfTheirOwn) {
  const auto both = [this] {
    const auto seed = static_cast<float>(++passes_);
    Both([&](Side& side) {
      // All that the longer one makes is alive, as a backward pass needs it.
      Held made = Layers(side, seed, Elements(3), 12);
      side.program->Read(made.back());
      Held shorter = Layers(side, seed, Elements(1), 12);
      side.program->Read(shorter.back());
      made.insert(made.end(), shorter.begin(), shorter.end());
      return made;
    });
  };
  for (int i = 0; i < 200; ++i) ASSERT_NO_FATAL_FAILURE(both());
  const Stats before = stats();
  for (int i = 0; i < 20; ++i) ASSERT_NO_FATAL_FAILURE(both());
  EXPECT_GT(FollowedSince(before), 0.9) << Traces();
  EXPECT_EQ(stats().escapes, before.escapes);
}

// Layers of one pass that differ in their weights alone.
TEST_F(SharedArenasTest, WhatSharesASignatureIsInAGroupOfItsOwn) {
  engine::Trace trace(frontend_);
  for (const engine::OpId op : {1, 2, 3}) {
    trace.ops.emplace_back().op = op;
  }
  ArenaGroups groups(plans_.get(), 1);
  auto layer = groups.Join(trace, {1, 1});
  const auto longer = groups.Join(trace, {2, 2});
  const auto other_layer = groups.Join(trace, {1, 1});
  ArenaGroup* const group = &layer->group();
  EXPECT_EQ(&longer->group(), group);
  EXPECT_TRUE(group->shares());
  EXPECT_NE(&other_layer->group(), group);
  EXPECT_FALSE(other_layer->group().shares());
  layer.reset();
  EXPECT_FALSE(group->shares());
  layer = groups.Join(trace, {1, 1});
  EXPECT_EQ(&layer->group(), group);
  trace.ops.back().op = 4;
  EXPECT_NE(&groups.Join(trace, {3, 3})->group(), group);
}

TEST_F(SharedArenasTest, TheBudgetHoldsAndNothingIsLeftBehind) {
  ASSERT_NO_FATAL_FAILURE(Passes(300, 1));
  const size_t charge = plans_->stats().charge_bytes;
  Begin(charge / 2);
  ASSERT_NO_FATAL_FAILURE(Passes(400, 1));
  EXPECT_LE(plans_->stats().charge_bytes, charge / 2);
  EXPECT_GT(plans_->stats().evictions, 0u);
  EXPECT_GT(stats().replays, 0u);
  session_->Reset();
  EXPECT_EQ(plans_->stats().charge_bytes, 0u);
  EXPECT_EQ(Arenas(), 0u);
}

TEST_F(SharedArenasTest, WithoutMemoryToMoveToItGoesOnAsItIs) {
  ASSERT_NO_FATAL_FAILURE(Passes(200, 0));
  on_build_ = [this] { builds_plan_ = true; };
  int refused = 0;
  frontend_->on_allocate = [&] {
    const bool moves = builds_now_ && !builds_plan_;
    refused += moves ? 1 : 0;
    return !moves;
  };
  // Its arena is left.
  ASSERT_NO_FATAL_FAILURE(Pass(2, 1 << 20, kAll));
  ASSERT_NO_FATAL_FAILURE(Passes(200, 0));
  EXPECT_GT(refused, 0);
  const Stats before = stats();
  ASSERT_NO_FATAL_FAILURE(Passes(100, 0));
  EXPECT_GT(FollowedSince(before), 0.7) << Traces();
}

// Several programs in several sizes, which keep what they like for as long as
// they like.
TEST_F(SharedArenasTest, RandomProgramsHaveEagersBits) {
  uint64_t replays = 0;
  uint64_t moved = 0;
  for (uint32_t seed = 0; seed < 40; ++seed) {
    random_.seed(seed);
    kept_.clear();
    Begin(seed % 4 == 0 ? 100000 : size_t{1} << 24);
    const size_t longest = 1 + random_() % 4;
    const size_t most_all = seed % 3 == 0 ? 3 : 1;  // 1: never all
    for (int i = 0; i < 250; ++i) {
      const size_t keep =
          random_() % 8 == 0 ? random_() % 40 : random_() % longest;
      const size_t what = random_() % 16 == 0         ? random_() % 8
                          : random_() % most_all == 1 ? kAll
                                                      : kLast;
      ASSERT_NO_FATAL_FAILURE(
          Pass(random_() % kSizes, keep, what, 2 + random_() % 2))
          << "seed " << seed;
    }
    replays += stats().replays;
    moved += Arenas();
  }
  EXPECT_GT(replays, 2000u);
  EXPECT_GT(moved, 20u);
}

}  // namespace
}  // namespace reprise::scheduler
