#include "scheduler/pass_edges.h"

#include <gtest/gtest.h>

namespace reprise::scheduler {
namespace {

TEST(PassEdgesTest, APassLastsFromItsBeginningToItsEnd) {
  PassEdges edges;
  EXPECT_FALSE(edges.in_pass());
  edges.BeginPass(7);
  EXPECT_TRUE(edges.in_pass());
  edges.EndPass();
  EXPECT_FALSE(edges.in_pass());
}

TEST(PassEdgesTest, TheFirstOpOfAPassIsTheOneBehindItsBeginning) {
  PassEdges edges;
  edges.BeginPass(7);
  EXPECT_FALSE(edges.IsFirst(7));
  EXPECT_TRUE(edges.IsFirst(8));
  EXPECT_FALSE(edges.IsFirst(9));
}

TEST(PassEdgesTest, NothingHasComeSinceAnEdgeUntilAnOpDoes) {
  PassEdges edges;
  EXPECT_TRUE(edges.IsAt(0));
  edges.Note(5);
  EXPECT_TRUE(edges.IsAt(5));
  EXPECT_FALSE(edges.IsAt(6));
  edges.Note(6);
  EXPECT_TRUE(edges.IsAt(6));
}

}  // namespace
}  // namespace reprise::scheduler
