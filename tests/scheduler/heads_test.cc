// Proves that of traces with equal heads the weights choose, then the forecast,
// then the order.

#include "scheduler/heads.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tests/sim/model_frontend.h"

namespace reprise::scheduler {
namespace {

constexpr uint64_t kHash = 77;

class HeadsTest : public testing::Test {
 protected:
  HeadsTest()
      : a_(std::make_unique<TraceEntry>(Identity(Externals(&frontend_)))),
        b_(std::make_unique<TraceEntry>(Identity(Externals(&frontend_)))) {
    a_->id = TraceId{1};
    b_->id = TraceId{2};
  }

  static engine::StorageToken Token(uint64_t number) {
    return reinterpret_cast<engine::StorageToken>(number * 16);
  }
  TraceEntry* Choose(uint64_t input, uint64_t weight,
                     const TraceEntry* foreseen = nullptr) {
    engine::Operand operands[2];
    operands[0].storage = Token(input);
    operands[1].storage = Token(weight);
    return heads_.Choose(kHash, operands,
                         foreseen == nullptr ? TraceId::kNone : foreseen->id);
  }
  void Put(TraceEntry* entry, uint64_t input, uint64_t weight) {
    heads_.Put(kHash, entry, {Token(input), Token(weight)});
  }

  sim::ModelFrontend frontend_;
  std::unique_ptr<TraceEntry> a_;
  std::unique_ptr<TraceEntry> b_;
  Heads heads_;
};

TEST_F(HeadsTest, WeightsChoose) {
  for (uint64_t input = 10; input < 14; ++input) {
    Put(a_.get(), input, 1);
    Put(b_.get(), input, 2);
  }
  EXPECT_EQ(Choose(30, 1, b_.get()), a_.get());
  EXPECT_EQ(Choose(13, 2, a_.get()), b_.get());
  EXPECT_EQ(Choose(13, 3, a_.get()), nullptr);
}

// One stands for all, on another weight each time; the other one came once, on
// a weight of its own, and no more when it was promised.
TEST_F(HeadsTest, OneThatBreaksItsPromisesTellsNoMoreByItsWeight) {
  for (uint64_t pass = 0; pass < 4; ++pass) Put(a_.get(), 10 + pass, 20 + pass);
  Put(b_.get(), 14, 1);
  Put(b_.get(), 15, 1);
  EXPECT_EQ(Choose(30, 1, a_.get()), b_.get());
  b_->BrokePromise();
  b_->BrokePromise();
  EXPECT_EQ(Choose(30, 1, a_.get()), a_.get());
}

TEST_F(HeadsTest, AmongEqualOnesTheForecastChoosesElseTheLast) {
  for (uint64_t input = 10; input < 14; ++input) {
    Put(a_.get(), input, 1);
    Put(b_.get(), input, 1);
  }
  EXPECT_EQ(Choose(30, 1), b_.get());
  EXPECT_EQ(Choose(30, 1, a_.get()), a_.get());
  Put(a_.get(), 40, 1);
  EXPECT_EQ(Choose(30, 1), a_.get());
  heads_.Remove(kHash, a_.get());
  EXPECT_EQ(Choose(30, 1, a_.get()), b_.get());
}

TEST_F(HeadsTest, WhatCameOnceGivesWayToWhatCameAgain) {
  Put(a_.get(), 10, 1);
  Put(b_.get(), 11, 1);
  a_->seen = 2;
  b_->seen = 1;
  EXPECT_EQ(Choose(30, 1, b_.get()), a_.get());
  b_->seen = 2;
  EXPECT_EQ(Choose(30, 1, b_.get()), b_.get());
}

// It has come on one input only, which looks like a weight.
TEST_F(HeadsTest, WhatComesNoMoreGivesWay) {
  for (uint64_t input = 10; input < 14; ++input) Put(a_.get(), input, 1);
  Put(b_.get(), 30, 1);
  a_->seen = b_->seen = 3;
  b_->BrokePromise();
  EXPECT_EQ(Choose(30, 1), b_.get());
  b_->BrokePromise();
  EXPECT_EQ(Choose(30, 1), a_.get());
  EXPECT_EQ(Choose(31, 1), a_.get());
  for (int i = 0; i < 2; ++i) a_->BrokePromise();
  EXPECT_EQ(Choose(30, 1), b_.get());
}

// Where weights tell nothing, what it broke is forgotten if it is foreseen.
TEST_F(HeadsTest, WhatIsForeseenComesFirstAmongEqualOnes) {
  for (uint64_t input = 10; input < 14; ++input) {
    Put(a_.get(), input, 1);
    Put(b_.get(), input, 1);
  }
  a_->seen = b_->seen = 3;
  for (int i = 0; i < 2; ++i) a_->BrokePromise();
  EXPECT_EQ(Choose(30, 1), b_.get());
  EXPECT_EQ(Choose(30, 1, a_.get()), a_.get());
}

TEST_F(HeadsTest, TheOldestIsForgotten) {
  std::vector<std::unique_ptr<TraceEntry>> entries;
  for (uint64_t i = 0; i <= Heads::kMost; ++i) {
    entries.push_back(
        std::make_unique<TraceEntry>(Identity(Externals(&frontend_))));
    Put(entries.back().get(), 1000 + i, 2000 + i);
  }
  EXPECT_EQ(heads_.Find(kHash).size(), Heads::kMost);
  EXPECT_EQ(Choose(1000, 2000), nullptr);
  EXPECT_EQ(Choose(1001, 2001), entries[1].get());
}

TEST_F(HeadsTest, WhatWasRemovedTakesNoRoom) {
  constexpr uint64_t kHeads = 10000;
  std::vector<std::unique_ptr<TraceEntry>> entries;
  for (uint64_t hash = 0; hash < kHeads; ++hash) {
    entries.push_back(
        std::make_unique<TraceEntry>(Identity(Externals(&frontend_))));
    heads_.Put(hash, entries.back().get(), {Token(1)});
  }
  EXPECT_EQ(heads_.size(), kHeads);
  for (uint64_t hash = 0; hash < kHeads; ++hash) {
    EXPECT_EQ(heads_.Find(hash).size(), 1u);
    heads_.Remove(hash, entries[hash].get());
    EXPECT_TRUE(heads_.Find(hash).empty());
  }
  EXPECT_EQ(heads_.size(), 0u);
  // And is found again where it comes again.
  Put(a_.get(), 10, 1);
  EXPECT_EQ(Choose(10, 1), a_.get());
}

// Of the positions of a layer: no operand says in which pass, or layer, it is.
TEST_F(HeadsTest, WithoutOperandsTheOpBeforeTells) {
  const engine::OpenTrace open;
  const Heads::Likeness likeness = Heads::Compare({}, {}, open);
  EXPECT_FALSE(likeness.all());
  EXPECT_TRUE(likeness.some(true));
  EXPECT_FALSE(likeness.some(false));
  heads_.Put(kHash, a_.get(), {}, 5);
  EXPECT_EQ(heads_.Find(kHash)[0].behind, std::vector<uint64_t>{5});
  heads_.Put(kHash, a_.get(), {}, 6);
  EXPECT_EQ(heads_.Find(kHash)[0].behind, (std::vector<uint64_t>{6, 5}));
}

}  // namespace
}  // namespace reprise::scheduler
