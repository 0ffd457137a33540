// Which ops wait for which: those that use what another one writes, wherever it
// lies, and no others.

#include "engine/program/branches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/program/layout.h"
#include "tests/engine/fake_frontend.h"
#include "tests/engine/trace_builder.h"

namespace reprise::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

using Waits = std::vector<std::vector<uint32_t>>;

class BranchesTest : public testing::Test {
 protected:
  // A line, but for what `reach_` says of ops, each of one launch.
  Branches Made() {
    const Trace& trace = builder_.trace();
    reach_.resize(trace.ops.size());
    launches_.resize(trace.ops.size(), 1);
    effects_.emplace(&trace, std::vector<ValueId>(), std::vector<SlotSet>(),
                     Effects::Remake::kWhatLasts, Draws(), privates_);
    return Branches(trace, *effects_, reach_, launches_);
  }
  Waits AllWaits() { return Made().Waits(0, builder_.ops()); }

  // Two ops that use nothing of each other's, behind one that both use.
  struct Fork {
    ValueId root, left, right;
  };
  Fork MakeFork() {
    const ValueId x = builder_.External();
    const ValueId root = builder_.Op({x}, {}, 1);
    const ValueId left = builder_.Op({root}, {}, 1);
    return {root, left, builder_.Op({root}, {}, 1)};
  }

  FakeFrontend frontend_;
  TraceBuilder builder_{&frontend_};
  std::vector<Reach> reach_;
  std::vector<uint32_t> launches_;
  std::vector<ValueId> privates_;
  std::optional<Effects> effects_;
};

TEST_F(BranchesTest, NoneMeansALine) {
  const Branches none;
  EXPECT_EQ(none.size(), 1u);
  EXPECT_THAT(none.lanes(), IsEmpty());
  EXPECT_EQ(none.Waits(3, 6), (Waits{{}, {3}, {4}}));
  EXPECT_EQ(none.Order(0, 2, {}, {}), std::nullopt);
}

TEST_F(BranchesTest, ChainIsALine) {
  ValueId value = builder_.External();
  for (int i = 0; i < 5; ++i) value = builder_.Op({value}, {}, 1);
  const Branches chain = Made();
  EXPECT_EQ(chain.size(), 1u);
  EXPECT_THAT(chain.lanes(), IsEmpty());
  EXPECT_EQ(chain.Waits(0, 5), (Waits{{}, {0}, {1}, {2}, {3}}));
}

TEST_F(BranchesTest, IndependentOpsRunSideBySideAndMeetAgain) {
  const Fork fork = MakeFork();
  builder_.Op({fork.left, fork.right}, {}, 1);
  const Branches branches = Made();
  EXPECT_EQ(branches.size(), 2u);
  EXPECT_THAT(branches.lanes(), ElementsAre(0, 0, 1, 0));
  EXPECT_EQ(branches.Waits(0, 4), (Waits{{}, {0}, {0}, {1, 2}}));
  // Of another graph's ops none waits: graphs of a stream follow each other.
  EXPECT_EQ(branches.Waits(1, 4), (Waits{{}, {}, {1, 2}}));
}

TEST_F(BranchesTest, MoreBranchesThanLanesShareThem) {
  const ValueId x = builder_.External();
  for (int i = 0; i < 9; ++i) builder_.Op({x}, {}, 1);
  const Branches branches = Made();
  EXPECT_EQ(branches.size(), Branches::kLanes);
  EXPECT_THAT(branches.lanes(), ElementsAre(0, 1, 2, 3, 0, 1, 2, 3, 0));
  EXPECT_EQ(branches.Waits(0, 9),
            (Waits{{}, {}, {}, {}, {0}, {1}, {2}, {3}, {4}}));
}

TEST_F(BranchesTest, WriterWaitsForReadersAndReadersForWriters) {
  const Fork fork = MakeFork();     // 0, 1, 2: read the root
  builder_.Op({}, {fork.root});     // 3: writes over it
  builder_.Op({fork.root}, {}, 1);  // 4
  builder_.Op({}, {fork.root});     // 5
  builder_.Op({fork.left}, {}, 1);  // 6: beside
  EXPECT_EQ(AllWaits(), (Waits{{}, {0}, {0}, {1, 2}, {3}, {4}, {1, 2}}));
}

TEST_F(BranchesTest, NoEdgeThatOthersImply) {
  const ValueId x = builder_.External();
  const ValueId a = builder_.Op({x}, {}, 1);
  const ValueId b = builder_.Op({a}, {}, 1);
  builder_.Op({x}, {}, 1);
  builder_.Op({a, b}, {}, 1);
  EXPECT_EQ(AllWaits(), (Waits{{}, {0}, {}, {1}}));
}

TEST_F(BranchesTest, OpsWithoutLaunchesAreInNobodysWay) {
  const Fork fork = MakeFork();
  builder_.Op({fork.left, fork.right}, {}, 1);
  builder_.Op({fork.right}, {}, 1);
  launches_ = {1, 1, 1, 0, 1};
  reach_.resize(4);
  reach_.push_back({.alone = true});
  EXPECT_EQ(AllWaits(), (Waits{{}, {0}, {0}, {}, {1, 2}}));
}

TEST_F(BranchesTest, ValueMayFollowWhatItsMakerWaitsForAnyway) {
  const Fork fork = MakeFork();
  const ValueId more = builder_.Op({fork.left}, {}, 1);
  const ValueId end = builder_.Op({more, fork.right}, {}, 1);
  const ValueId unused = builder_.External();
  builder_.Op({}, {}, 1);
  const Branches branches = Made();
  // The one in the other lane may still read it.
  EXPECT_FALSE(branches.MayFollow(fork.root, more));
  EXPECT_TRUE(branches.MayFollow(fork.root, end));
  EXPECT_FALSE(branches.MayFollow(fork.left, fork.right));
  EXPECT_FALSE(branches.MayFollow(fork.right, more));
  // Its maker uses it.
  EXPECT_FALSE(branches.MayFollow(more, end));
  EXPECT_TRUE(branches.MayFollow(fork.left, end));
  EXPECT_TRUE(branches.MayFollow(end, unused));
}

// --- What runs alone ---------------------------------------------------------

TEST_F(BranchesTest, OpThatRunsAloneWaitsForAllAndAllForIt) {
  const Fork fork = MakeFork();  // 0, 1, 2
  const ValueId x = builder_.External();
  builder_.Op({x}, {}, 1);           // 3
  builder_.Op({fork.left}, {}, 1);   // 4
  builder_.Op({fork.right}, {}, 1);  // 5
  reach_.resize(3);
  reach_.push_back({.alone = true});
  EXPECT_EQ(AllWaits(), (Waits{{}, {0}, {0}, {1, 2}, {3}, {3}}));
}

class AloneTest : public BranchesTest {
 protected:
  // Of three independent ops, the one in the middle runs alone.
  void ExpectAlone() { EXPECT_EQ(AllWaits(), (Waits{{}, {0}, {1}})); }
  void SetUp() override {
    for (const ValueId x : {builder_.External(), builder_.External()}) {
      builder_.Op({x}, {}, 1);
    }
    builder_.Op({0}, {}, 1);
    ASSERT_EQ(AllWaits(), (Waits{{}, {}, {}}));
  }
  TracedOp& op() { return builder_.trace().ops[1]; }
};

TEST_F(AloneTest, NondeterministicOp) {
  op().nondeterministic = true;
  ExpectAlone();
}
TEST_F(AloneTest, OpThatDraws) {
  op().generator.draws = true;
  ExpectAlone();
}
TEST_F(AloneTest, OpRunByEager) {
  op().by_eager = true;
  ExpectAlone();
}
TEST_F(AloneTest, WriterOfThePrograms) {
  op().operands[0].written = true;
  ExpectAlone();
}
TEST_F(AloneTest, ResultInTheProgramsMemory) {
  op().results[0].value = 1;
  ExpectAlone();
}
TEST_F(AloneTest, NotTheWriterOfACopy) {
  op().operands[0].written = true;
  privates_ = {op().operands[0].value};
  EXPECT_EQ(AllWaits(), (Waits{{}, {}, {}}));
}

class OfOthersFrontend : public FakeFrontend {
 public:
  bool MayRunBeside(OpId op) const override { return op != 1; }
};

TEST_F(BranchesTest, OpOfAnotherLibraryRunsAlone) {
  OfOthersFrontend frontend;
  TraceBuilder builder(&frontend);
  const ValueId x = builder.External();
  for (int i = 0; i < 3; ++i) builder.Op({x}, {}, 1);
  const std::unique_ptr<Trace> trace = builder.Take();
  const Effects effects(trace.get(), {}, {}, Effects::Remake::kWhatLasts);
  const Branches branches(*trace, effects, std::vector<Reach>(3),
                          std::vector<uint32_t>(3, 1));
  EXPECT_EQ(branches.Waits(0, 3), (Waits{{}, {0}, {1}}));
}

// --- What launches name ------------------------------------------------------

TEST_F(BranchesTest, MemoryOfLibrariesIsOneValueThatOpsWrite) {
  const ValueId x = builder_.External();
  for (int i = 0; i < 4; ++i) builder_.Op({x}, {}, 1);
  reach_.resize(4);
  reach_[1].libraries = reach_[3].libraries = true;
  EXPECT_EQ(AllWaits(), (Waits{{}, {}, {}, {1}}));
}

TEST_F(BranchesTest, ValueThatIsNoneOfTheOpsCountsAsWritten) {
  const Fork fork = MakeFork();
  const ValueId x = builder_.External();
  builder_.Op({x}, {}, 1);          // 3
  builder_.Op({fork.left}, {}, 1);  // 4
  reach_.resize(3);
  reach_.push_back({.others = {fork.left}});
  EXPECT_EQ(AllWaits(), (Waits{{}, {0}, {0}, {1}, {3}}));
}

TEST_F(BranchesTest, TemporaryOfAnotherOpCountsAsWritten) {
  const ValueId x = builder_.External();
  for (int i = 0; i < 3; ++i) builder_.Op({x}, {}, 1);
  builder_.trace().ops[0].temporaries = {{0x1000, 10}};
  reach_.resize(2);
  reach_.push_back(
      {.others = {static_cast<ValueId>(builder_.trace().values.size())}});
  EXPECT_EQ(AllWaits(), (Waits{{}, {}, {0}}));
}

// --- Places ------------------------------------------------------------------

TEST_F(BranchesTest, ValuesThatShareBytesOrderTheirOps) {
  const ValueId x = builder_.External();
  for (int i = 0; i < 4; ++i) builder_.Op({x}, {}, 1);  // make 1, 2, 3, 4
  Branches branches = Made();
  ArenaLayout layout;
  layout.places = {kNoPlace, 0, 1024, 512, 2048};
  layout.temporaries.resize(4);
  const std::vector<uint64_t> bytes = {0, 700, 700, 600, 600};
  branches.Place(builder_.trace(), *effects_, layout, bytes);
  // 1: to 1024; 2: to 2048; 3: from 512 to 1536.
  EXPECT_EQ(branches.Waits(0, 4), (Waits{{}, {}, {0, 1}, {}}));
}

TEST_F(BranchesTest, TemporariesThatShareBytesOrderTheirOps) {
  const ValueId x = builder_.External();
  for (int i = 0; i < 3; ++i) {
    builder_.Op({x}, {}, 1);
    builder_.trace().ops.back().temporaries = {{0x1000, 10}};
  }
  Branches branches = Made();
  ArenaLayout layout;
  layout.places = {kNoPlace, 0, 512, 1024};
  layout.temporaries = {{2048}, {2560}, {2048}};
  const std::vector<uint64_t> bytes = {0, 1, 1, 1, 10, 10, 10};
  branches.Place(builder_.trace(), *effects_, layout, bytes);
  EXPECT_EQ(branches.Waits(0, 3), (Waits{{}, {}, {0}}));
}

TEST_F(BranchesTest, CopyOfAPrivateValueIsInTheArena) {
  const ValueId x = builder_.External();
  builder_.Op({}, {x});
  builder_.Op({}, {}, 1);
  builder_.Op({x}, {}, 1);
  privates_ = {x};
  Branches branches = Made();
  ArenaLayout layout;
  layout.places = {kNoPlace, 512, 1024};
  layout.temporaries.resize(3);
  layout.privates = {512};
  const std::vector<uint64_t> bytes = {0, 1, 1};
  branches.Place(builder_.trace(), *effects_, layout, bytes);
  EXPECT_EQ(branches.Waits(0, 3), (Waits{{}, {0}, {1}}));
}

// --- Launches ----------------------------------------------------------------

TEST_F(BranchesTest, LaunchesOfAnOpKeepTheirOrder) {
  const Fork fork = MakeFork();
  builder_.Op({fork.left, fork.right}, {}, 1);
  const std::vector<uint32_t> op_begin = {0, 1, 3, 5, 6};
  launches_ = {1, 2, 2, 1};
  const std::vector<device::Launch> launches(6);
  const Branches branches = Made();
  EXPECT_EQ(branches.Order(0, 4, launches, op_begin),
            (device::Dependencies{{}, {0}, {1}, {0}, {3}, {2, 4}}));
  EXPECT_EQ(branches.Order(1, 3, launches, op_begin),
            (device::Dependencies{{}, {0}, {}, {2}}));
  // A line is none of ours.
  EXPECT_EQ(branches.Order(0, 2, launches, op_begin), std::nullopt);
  EXPECT_EQ(branches.Order(2, 4, launches, op_begin), std::nullopt);
}

TEST_F(BranchesTest, WhatAnOpForksStaysWithinIt) {
  const Fork fork = MakeFork();
  builder_.Op({fork.left}, {}, 1);
  // The second op's third launch runs beside its second one.
  const std::vector<uint32_t> op_begin = {0, 1, 4, 5, 6};
  launches_ = {1, 3, 1, 1};
  std::vector<device::Launch> launches(6);
  launches[2].behind = {1};
  launches[3].behind = {2};
  EXPECT_EQ(Made().Order(0, 4, launches, op_begin),
            (device::Dependencies{{}, {0}, {1}, {1}, {0}, {2, 3}}));
}

}  // namespace
}  // namespace reprise::engine
