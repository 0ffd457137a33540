// Traces of one form are told apart by their weights, and by nothing that
// changes from pass to pass.

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "scheduler/externals.h"
#include "tests/engine/fake_frontend.h"

namespace reprise::scheduler {
namespace {

using engine::Token;

class IdentityTest : public testing::Test {
 protected:
  // What a pass took, alive.
  Externals Pass(const std::vector<uint64_t>& storages) {
    Externals externals(&frontend_);
    for (const uint64_t storage : storages) {
      frontend_.bases[Token(storage)] = storage * 0x1000;
      externals.Add(Token(storage));
    }
    return externals;
  }
  void Die(uint64_t storage) { frontend_.bases.erase(Token(storage)); }

  engine::FakeFrontend frontend_;
};

TEST_F(IdentityTest, StoragesAreHeldWeaklyUntilTheyAreDropped) {
  {
    Externals pass = Pass({1, 2});
    EXPECT_EQ(pass.size(), 2u);
    EXPECT_EQ(pass[1], Token(2));
    Die(2);
    EXPECT_TRUE(pass.Alive(0));
    EXPECT_FALSE(pass.Alive(1));
    Externals other = std::move(pass);
    EXPECT_EQ(other.size(), 2u);
    EXPECT_EQ(frontend_.references.size(), 2u);
    other.Clear();
    EXPECT_TRUE(frontend_.references.empty());
    pass = Pass({3});
  }
  EXPECT_TRUE(frontend_.references.empty());
}

TEST_F(IdentityTest, EqualWeightsAreTheSameTrace) {
  const Identity layer(Pass({1, 2, 3}));
  const Identity::Likeness likeness = layer.Compare(Pass({1, 2, 3}));
  EXPECT_TRUE(likeness.one());
  EXPECT_EQ(likeness.same, 3u);
  EXPECT_EQ(likeness.other, 0u);
}

TEST_F(IdentityTest, OtherWeightsBesideThoseThatLiveAreAnotherTrace) {
  const Identity layer(Pass({1, 2, 3}));
  EXPECT_FALSE(layer.Compare(Pass({11, 12, 13})).one());
  EXPECT_FALSE(layer.Compare(Pass({1, 12, 13})).one());
  EXPECT_TRUE(layer.Compare(Pass({1, 2, 13})).one());
}

// New weights in place of old ones, as a program that loads a checkpoint has.
TEST_F(IdentityTest, WeightsThatDiedTellNothing) {
  const Identity layer(Pass({1, 2, 3}));
  for (const uint64_t weight : {1, 2, 3}) Die(weight);
  EXPECT_TRUE(layer.Compare(Pass({11, 12, 13})).one());
}

TEST_F(IdentityTest, FewStoragesAreNeverToldApart) {
  const Identity layer(Pass({1, 2}));
  EXPECT_TRUE(layer.Compare(Pass({11, 12})).one());
  const Identity none(Pass({}));
  EXPECT_TRUE(none.Compare(Pass({})).one());
}

TEST_F(IdentityTest, WhatHasChangedOnceIsAnInputAndTellsNothing) {
  Identity layer(Pass({1, 2, 3, 91, 92, 93}));
  const Identity other(Pass({11, 12, 13, 91, 92, 93}));
  layer.Follow(Pass({1, 2, 3, 94, 95, 96}));
  // Its inputs are those of the other one now, its weights are not.
  const Identity::Likeness likeness =
      layer.Compare(Pass({11, 12, 13, 94, 95, 96}));
  EXPECT_EQ(likeness.same, 0u);
  EXPECT_EQ(likeness.other, 3u);
  EXPECT_FALSE(likeness.one());
  EXPECT_TRUE(layer.Compare(Pass({1, 2, 3, 97, 98, 99})).one());
  EXPECT_TRUE(layer.Compare(Pass({1, 2, 3, 97, 98, 99})).one());
}

// Weights are compared with those of the pass that came last.
TEST_F(IdentityTest, FollowKeepsTheLatestStorages) {
  Identity layer(Pass({1, 2, 3}));
  for (const uint64_t weight : {1, 2, 3}) Die(weight);
  layer.Follow(Pass({11, 12, 13}));
  EXPECT_TRUE(frontend_.references.contains(Token(11)));
  EXPECT_FALSE(frontend_.references.contains(Token(1)));
}

TEST_F(IdentityTest, TheTraceWithMoreEqualWeightsIsLiker) {
  const Identity most(Pass({1, 2, 3, 4}));
  const Identity some(Pass({1, 2, 13, 14}));
  const Externals pass = Pass({1, 2, 3, 24});
  EXPECT_LT(some.Compare(pass), most.Compare(pass));
  EXPECT_FALSE(most.Compare(pass) < some.Compare(pass));
  // Of equally many equal ones, the one with fewer others.
  const Identity dead(Pass({1, 2, 33, 34}));
  Die(33);
  Die(34);
  EXPECT_LT(some.Compare(pass), dead.Compare(pass));
}

}  // namespace
}  // namespace reprise::scheduler
