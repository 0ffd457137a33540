// Launches wait for those that they conflict with, for all where nothing is
// known, and for nobody else.

#include "engine/batch/dependencies.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <vector>

namespace reprise::engine {
namespace {

struct Touched {
  uint64_t begin;
  bool written;
};

class Launches {
 public:
  void Add(std::initializer_list<Touched> touched, bool ordered = false) {
    Add(std::vector<Touched>(touched), ordered);
  }
  void Add(const std::vector<Touched>& touched, bool ordered) {
    Node& node = nodes.emplace_back();
    node.ordered = ordered ? 1 : 0;
    node.access_begin = static_cast<uint32_t>(accesses.size());
    node.accesses = static_cast<uint32_t>(touched.size());
    for (const Touched& one : touched) {
      accesses.push_back({one.begin, 8, one.written ? 1u : 0u});
    }
  }

  std::vector<Node> nodes;
  std::vector<Access> accesses;
};

using Edges = device::Dependencies;

TEST(DependenciesTest, ReadersOfOneValueRunSideBySide) {
  Launches launches;
  launches.Add({{0, true}});
  launches.Add({{0, false}, {8, true}});
  launches.Add({{0, false}, {16, true}});
  launches.Add({{8, false}, {16, false}, {24, true}});
  EXPECT_EQ(DependenciesOf(launches.nodes, launches.accesses),
            (Edges{{}, {0}, {0}, {2, 1}}));
}

TEST(DependenciesTest, WritersWaitForReaders) {
  Launches launches;
  launches.Add({{0, false}, {8, true}});
  launches.Add({{4, true}});  // overlaps with both
  launches.Add({{100, true}});
  EXPECT_EQ(DependenciesOf(launches.nodes, launches.accesses),
            (Edges{{}, {0}, {}}));
}

// Of the launches' own memory nothing is unordered; of other memory the first
// launch that does not wait for one in its way.
TEST(DependenciesTest, OtherMemoryMayAskForAnotherOrder) {
  Launches launches;
  launches.Add({{0, true}});
  launches.Add({{0, false}, {8, true}});
  launches.Add({{0, false}, {16, true}});
  launches.Add({{16, false}, {24, true}});
  const Edges edges = DependenciesOf(launches.nodes, launches.accesses);
  EXPECT_FALSE(FirstUnordered(edges, launches.nodes, launches.accesses));
  // Launch 3 waits for launch 0 by way of launch 2.
  std::vector<Access> indirect = launches.accesses;
  indirect[5].begin = 0;
  EXPECT_FALSE(FirstUnordered(edges, launches.nodes, indirect));
  std::vector<Access> crossed = launches.accesses;
  crossed[4].begin = 8;  // launch 2 writes what launch 1 writes
  const auto found = FirstUnordered(edges, launches.nodes, crossed);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->earlier, 1u);
  EXPECT_EQ(found->later, 2u);
}

TEST(DependenciesTest, UnknownLaunchKeepsItsPlace) {
  Launches launches;
  launches.Add({{0, true}});
  launches.Add({{8, true}});
  launches.Add({}, /*ordered=*/true);
  launches.Add({{16, true}});
  launches.Add({{24, true}});
  launches.Add({}, /*ordered=*/true);
  EXPECT_EQ(DependenciesOf(launches.nodes, launches.accesses),
            (Edges{{}, {}, {0, 1}, {2}, {2}, {3, 4}}));
}

TEST(DependenciesTest, OrderedLaunchesAreALine) {
  Launches launches;
  for (int i = 0; i < 5; ++i) launches.Add({}, true);
  EXPECT_EQ(DependenciesOf(launches.nodes, launches.accesses),
            (Edges{{}, {0}, {1}, {2}, {3}}));
}

// Against the definition: a conflict is a path, and no edge is one too many.
TEST(DependenciesTest, RandomLaunchesHaveAllPathsAndNoEdgeToSpare) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    Launches launches;
    const size_t count = 2 + random() % 20;
    for (size_t i = 0; i < count; ++i) {
      std::vector<Touched> touched;
      for (size_t k = random() % 4; k > 0; --k) {
        touched.push_back({random() % 12 * 4, random() % 3 == 0});
      }
      launches.Add(touched, random() % 8 == 0);
    }
    const Edges edges = DependenciesOf(launches.nodes, launches.accesses);
    std::vector<std::set<size_t>> behind(count);  // i waits for each of these
    for (size_t i = 0; i < count; ++i) {
      for (uint32_t j : edges[i]) {
        ASSERT_LT(j, i);
        EXPECT_FALSE(behind[i].contains(j)) << "seed " << seed;
        behind[i].insert(j);
        behind[i].insert(behind[j].begin(), behind[j].end());
      }
      for (size_t j = 0; j < i; ++j) {
        bool conflict = launches.nodes[i].ordered || launches.nodes[j].ordered;
        for (uint32_t a = 0; a < launches.nodes[i].accesses; ++a) {
          for (uint32_t b = 0; b < launches.nodes[j].accesses; ++b) {
            conflict |=
                launches.accesses[launches.nodes[i].access_begin + a]
                    .ConflictsWith(
                        launches.accesses[launches.nodes[j].access_begin + b]);
          }
        }
        if (conflict) {
          EXPECT_TRUE(behind[i].contains(j))
              << "seed " << seed << ": " << i << " does not wait for " << j;
        }
      }
    }
  }
}

}  // namespace
}  // namespace reprise::engine
