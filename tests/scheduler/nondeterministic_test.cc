// Proves that traces with ops that give other bits each time are replayed, and
// nothing but such ops.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/scheduler/twin_programs.h"

namespace reprise::scheduler {
namespace {

using sim::ModelProgram;
using sim::ModelTensor;

constexpr float kRounding = 0x1p-20f;
constexpr float kMuch = 0x1p-6f;

class NondeterministicTest : public TwinPrograms {
 protected:
  NondeterministicTest()
      : program_(watched_.program), weight_(program_->Make(1)) {}

  bool Notes(const std::string& what) {
    return std::ranges::any_of(notes(), [&what](const auto& note) {
      return note.first.find(what) != std::string::npos;
    });
  }
  // An op is a cut for what it gave.
  bool GaveOtherBits() {
    bool cut = false;
    session_->Inspect([&](const Journal& journal, const auto&, const auto&) {
      for (const auto& [what, times] : journal.cuts) {
        cut |=
            what.second.find("gave other bits than eager") != what.second.npos;
      }
    });
    return cut;
  }

  // What the program has of a pass, of which each op follows from the one
  // before: `leave` ops run, then it goes another way.
  struct Seen {
    ModelTensor sum;
    ModelTensor twice;
    ModelTensor into;
    ModelTensor last;
  };
  Seen Pass(float share, int leave = 99) {
    ModelProgram& p = *program_;
    Seen seen;
    const ModelTensor x = p.Make(2);
    const auto left = [&leave] { return leave-- <= 0; };
    if (!left()) {
      const ModelTensor h = p.Scale(x, 3);
      if (!left()) seen.sum = p.Sum(h, weight_, share);
      if (!left()) seen.twice = p.Scale(seen.sum, 2);
      if (!left()) seen.into = p.Add(seen.twice, weight_);
      if (!left()) p.SumInto(seen.into, seen.sum, share);
      if (!left()) seen.last = p.Add(seen.into, seen.twice);
      if (!left()) p.Negate(seen.last);
      if (!left()) seen.last = p.Scale(seen.last, 5);
    }
    if (leave < 0 && leave > -90) p.Negate(p.Scale(weight_, 7));
    p.Read(x);
    builds_.RunAll();
    return seen;
  }

  // What is deterministic follows from what the program saw, bit by bit; the
  // rest to within rounding.
  void ExpectConsistent(const Seen& seen) {
    for (size_t i = 0; i < ModelProgram::kElements; ++i) {
      const float x = 2 + 0.25f * static_cast<float>(i);
      const float weight = 1 + 0.25f * static_cast<float>(i);
      const float sum = seen.sum.values()[i];
      ASSERT_NEAR(sum, x * 3 + weight, 1e-4f * sum);
      const float twice = seen.twice.values()[i];
      ASSERT_EQ(twice, sum * 2);
      const float into = seen.into.values()[i];
      ASSERT_NEAR(into, twice + weight + sum, 1e-4f * into);
      ASSERT_EQ(seen.last.values()[i], -(into + twice) * 5);
    }
  }

  ModelProgram* program_;
  ModelTensor weight_;
};

TEST_F(NondeterministicTest, IsReplayed) {
  for (int pass = 0; pass < 20; ++pass) ExpectConsistent(Pass(kRounding));
  EXPECT_GE(stats().replays, 5u);
  EXPECT_TRUE(Notes("nondeterministic"));
  EXPECT_TRUE(Notes("model::sum_"));
}

TEST_F(NondeterministicTest, WhatTheProgramHasSeenStaysWhereverItLeaves) {
  for (int pass = 0; pass < 20; ++pass) Pass(kRounding);
  for (int leave = 0; leave <= 8; ++leave) {
    const uint64_t squashes = stats().squashes;
    Seen seen = Pass(kRounding, leave);
    EXPECT_EQ(stats().squashes, squashes + (leave > 0 && leave < 8 ? 1 : 0));
    for (size_t i = 0; i < ModelProgram::kElements && leave > 2; ++i) {
      ASSERT_EQ(seen.twice.values()[i], seen.sum.values()[i] * 2) << leave;
    }
    for (size_t i = 0; i < ModelProgram::kElements && leave == 6; ++i) {
      const float twice = seen.twice.values()[i];
      ASSERT_EQ(seen.last.values()[i], seen.into.values()[i] + twice);
    }
    for (int pass = 0; pass < 80; ++pass) Pass(kRounding);
  }
}

TEST_F(NondeterministicTest, OneThatIsFarOffIsACut) {
  for (int pass = 0; pass < 60; ++pass) {
    const Seen seen = Pass(kMuch);
    ASSERT_EQ(seen.twice.values()[3], seen.sum.values()[3] * 2);
  }
  EXPECT_FALSE(Notes("nondeterministic"));
  EXPECT_TRUE(GaveOtherBits());
}

TEST_F(NondeterministicTest, WhereItMustNotBeItIsACut) {
  frontend_->may_be_nondeterministic = false;
  for (int pass = 0; pass < 60; ++pass) ExpectConsistent(Pass(kRounding));
  EXPECT_FALSE(Notes("nondeterministic"));
  EXPECT_TRUE(GaveOtherBits());
}

// Written over in a replay before the program leaves, it could not be made
// again as it was.
TEST_F(NondeterministicTest, IsNotMadeAgain) {
  const auto pass = [this](int leave) {
    ModelProgram& p = *program_;
    const ModelTensor x = p.Make(2);
    ModelTensor sum = p.Sum(p.Scale(x, 3), weight_, kRounding);
    const ModelTensor twice = p.Scale(sum, 2);
    if (leave == 0) p.Negate(p.Scale(weight_, 7));
    if (leave != 0) p.Negate(sum);
    const ModelTensor last = leave == 0 ? sum : p.Scale(sum, 5);
    for (size_t i = 0; i < ModelProgram::kElements && leave == 0; ++i) {
      EXPECT_EQ(twice.values()[i], sum.values()[i] * 2);
    }
    p.Read(x);
    builds_.RunAll();
  };
  for (int i = 0; i < 20; ++i) pass(1);
  const uint64_t replays = stats().replays;
  EXPECT_GE(replays, 5u);
  pass(0);
  EXPECT_GT(stats().replays, replays);
}

// Sums that repeat their bits until they are told to vary.
class LateTest : public TwinPrograms {
 protected:
  LateTest() { sim::g_sums_vary = false; }
  ~LateTest() override { sim::g_sums_vary = true; }

  bool Learned() {
    return std::ranges::any_of(notes(), [](const auto& note) {
      return note.first.starts_with("nondeterministic");
    });
  }
  // Another trace with such a sum.
  void Other() {
    ModelProgram& p = *watched_.program;
    ModelTensor h = p.Add(p.Make(2), watched_.weights[1]);
    h = p.Sum(h, h, kRounding);
    h = p.Add(h, h);
    p.Read(p.Random(h));
    builds_.RunAll();
  }
  // Verdicts may be asked for in its middle; true if that tells. Then it goes
  // on with another number.
  bool Pass(bool settles) {
    ModelProgram& p = *watched_.program;
    const ModelTensor x = p.Make(3);
    ModelTensor h = p.Scale(x, 1.5f);
    h = p.Sum(h, h, kRounding);
    h = p.Add(h, x);
    const bool before = Learned();
    if (settles) session_->Settle();
    const bool told = Learned() && !before;
    h = p.Scale(h, told ? 0.371f : 0.713f);
    h = p.Add(h, h);
    p.Read(p.Add(h, x));
    builds_.RunAll();
    return told;
  }
};

TEST_F(LateTest, ItMayBeLearnedWhileAReplayIsUnderWay) {
  for (int pass = 0; pass < 14; ++pass) Pass(false);
  ASSERT_GT(stats().replays, 0u) << Traces();
  sim::g_sums_vary = true;
  bool told = false;
  for (int pass = 0; pass < 30 && !told; ++pass) {
    Other();
    told = Pass(true);
  }
  ASSERT_TRUE(told) << Traces();
  for (int pass = 0; pass < 30; ++pass) Pass(false);
  const uint64_t replays = stats().replays;
  for (int pass = 0; pass < 10; ++pass) Pass(false);
  EXPECT_GT(stats().replays, replays) << Traces();
}

// What was given up stays so.
TEST_F(LateTest, WhatIsLearnedBringsNothingBack) {
  const auto step = [this] {
    ModelProgram& p = *watched_.program;
    ModelTensor h = p.Scale(p.Make(3), 1.5f);
    h = p.Sum(h, h, kRounding);
    for (int k = 0; k < 6; ++k) h = p.Add(h, watched_.weights[0]);
    p.Read(h);
    builds_.RunAll();
  };
  const auto given_up = [this] {
    std::vector<cache::Signature> signatures;
    session_->Inspect([&signatures](const Journal&, const auto& entries,
                                    const engine::Frontend&) {
      for (const TraceEntry* entry : entries) {
        if (entry->state != TraceEntry::State::kGivenUp) continue;
        signatures.push_back(entry->signature);
      }
    });
    return signatures;
  };
  for (failing_builds_ = 3; failing_builds_ > 0;) step();
  for (int pass = 0; pass < 4; ++pass) step();
  const auto before = given_up();
  ASSERT_FALSE(before.empty()) << Traces();
  sim::g_sums_vary = true;
  for (int pass = 0; pass < 30 && !Learned(); ++pass) Other();
  ASSERT_TRUE(Learned());
  EXPECT_EQ(given_up(), before) << Traces();
}

// Nor does it where nobody has come for the build that failed.
TEST_F(LateTest, ABuildThatFailedLastStaysTheLast) {
  sim::g_sums_vary = true;
  const auto step = [this] {
    ModelProgram& p = *watched_.program;
    ModelTensor h = p.Scale(p.Make(2), 3);
    h = p.Add(h, watched_.weights[2]);
    h = p.Sum(h, h, kRounding);
    p.Read(p.Scale(h, 5));
    builds_.RunAll();
  };
  for (failing_builds_ = 3; failing_builds_ > 0;) step();
  for (int pass = 0; pass < 60 && !Learned(); ++pass) Other();
  ASSERT_TRUE(Learned()) << Traces();
  // Found to be outdated first, it is built anew; and not in vain.
  for (int pass = 0; pass < 20; ++pass) step();
  const uint64_t replays = stats().replays;
  for (int pass = 0; pass < 10; ++pass) step();
  EXPECT_EQ(stats().replays, replays + 10) << Traces();
}

// Compared op by op after each build, the sum repeats its bits; in whole
// passes it is an op behind it that gives others.
TEST_F(LateTest, AnOpThatWritesBehindItIsNotBlamed) {
  const auto repeats = [this] {
    bool repeats = false;
    session_->Inspect([&repeats](const Journal&, const auto& entries,
                                 const engine::Frontend&) {
      for (const TraceEntry* entry : entries) {
        repeats |= (entry->state == TraceEntry::State::kBuilding ||
                    entry->state == TraceEntry::State::kCheckOps) &&
                   entry->suspects.empty() && !entry->verdict_pending;
      }
    });
    return repeats;
  };
  const auto pass = [&] {
    sim::g_sums_vary = !repeats();
    ModelProgram& p = *watched_.program;
    ModelTensor h = p.Add(p.Make(2), watched_.weights[1]);
    h = p.Sum(h, h, kRounding);
    p.Negate(h);
    p.Read(p.Scale(p.Add(h, h), 0.713f));
    builds_.RunAll();
  };
  for (int i = 0; i < 60; ++i) pass();
  EXPECT_TRUE(Learned()) << Traces();
  const uint64_t replays = stats().replays;
  for (int i = 0; i < 20; ++i) pass();
  EXPECT_GT(stats().replays, replays + 10) << Traces();
}

}  // namespace
}  // namespace reprise::scheduler
