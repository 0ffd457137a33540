// A plan runs beside eager, op by op and then whole, before it stands for it.
// What gives other bits than eager is never replayed, but for ops that do so
// each time, within rounding.

#include "scheduler/validation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/scheduler/twin_programs.h"

namespace reprise::scheduler {
namespace {

using sim::ModelProgram;
using sim::ModelTensor;
using State = TraceEntry::State;
using ::testing::ElementsAre;

constexpr float kRounding = 0x1p-20f;
constexpr float kMuch = 0x1p-6f;

// Of passes that read weights and write another one in place.
class ValidationTest : public TwinPrograms {
 protected:
  static constexpr int kOps = 5;

  // Before op `leave` the program goes another way. `before` is called with the
  // number of each op that is about to come.
  void Pass(int leave = kOps, const std::function<void(int)>& before = {}) {
    Both([&](Side& side) {
      ModelProgram& p = *side.program;
      ModelTensor h = side.weights[7];
      for (int op = 0; op < kOps; ++op) {
        if (before && &side == &watched_) before(op);
        if (op == leave) {
          p.Negate(h);
          break;
        }
        if (op == 3) {
          p.Mix(side.weights[5], h);
        } else {
          h = p.Add(h, side.weights[static_cast<size_t>(op)]);
        }
      }
      p.Read(h);
      return Held{h, side.weights[5]};
    });
  }
  void PassUntil(State state) {
    for (int i = 0; i < 20 && StateNow() != state; ++i) Pass();
    ASSERT_EQ(StateNow(), state) << Traces();
  }
  State StateNow() {
    State state = State::kSeen;
    session_->Inspect(
        [&state](const Journal&, const auto& entries, const engine::Frontend&) {
          for (const TraceEntry* entry : entries) {
            if (entry->ops == kOps) state = entry->state;
          }
        });
    return state;
  }
  bool AwaitsVerdict() {
    bool awaits = false;
    session_->Inspect([&awaits](const Journal&, const auto& entries,
                                const engine::Frontend&) {
      for (const TraceEntry* entry : entries) awaits |= entry->verdict_pending;
    });
    return awaits;
  }
};

TEST_F(ValidationTest, GoesOpByOpFirstAndThenByWholeSegments) {
  const Timeline::Position begin = timeline_.Start();
  for (int i = 0; i < 8; ++i) Pass();
  std::vector<Doing> done;
  for (const Timeline::Event& event : timeline_.Since(begin).events) {
    if (event.doing != Doing::kBuilding) done.push_back(event.doing);
  }
  timeline_.Stop();
  EXPECT_THAT(done, ElementsAre(Doing::kRecording, Doing::kRecordingAgain,
                                Doing::kValidatingOps, Doing::kValidatingWhole,
                                Doing::kReplaying, Doing::kReplaying,
                                Doing::kReplaying));
}

TEST_F(ValidationTest, WhereItIsLeftNothingIsLearned) {
  for (const State state : {State::kCheckOps, State::kCheckWhole}) {
    for (int leave = 1; leave < kOps; ++leave) {
      Restart();
      // The head of the pass that comes next finds that state.
      PassUntil(State::kBuilding);
      if (state == State::kCheckWhole) Pass();
      const uint64_t validated = stats().validated;
      Pass(leave);
      EXPECT_EQ(StateNow(), state) << leave;
      EXPECT_FALSE(AwaitsVerdict());
      EXPECT_EQ(stats().validated,
                validated + (state == State::kCheckWhole ? 1 : 0));
      PassUntil(State::kReady);
      EXPECT_EQ(stats().validated, 2u);
    }
  }
}

TEST_F(ValidationTest, WhatIsNoOpLeavesIt) {
  PassUntil(State::kBuilding);
  Pass(kOps, [this](int op) {
    if (op == 2) session_->Interrupt("told to");
  });
  EXPECT_EQ(StateNow(), State::kCheckOps);
  EXPECT_FALSE(AwaitsVerdict());
}

// Another pass may find the memory.
TEST_F(ValidationTest, WithoutMemoryForWhatAnOpWritesItIsPutOff) {
  PassUntil(State::kBuilding);
  Pass(kOps, [this](int op) { frontend_->fail_allocations = op == 3; });
  frontend_->fail_allocations = false;
  EXPECT_EQ(StateNow(), State::kCheckOps) << Traces();
  EXPECT_FALSE(AwaitsVerdict());
  const auto told = notes();
  EXPECT_TRUE(std::ranges::any_of(told, [](const auto& note) {
    return note.first.starts_with("not validated: what an op writes");
  }));
  PassUntil(State::kReady);
}

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
class RepeatingTest : public TwinPrograms {
 protected:
  RepeatingTest() { sim::g_sums_vary = false; }
  ~RepeatingTest() override { sim::g_sums_vary = true; }
};

// Compared op by op after each build, the sum repeats its bits; in whole
// passes it is an op behind it that gives others.
TEST_F(RepeatingTest, AnOpThatWritesBehindItIsNotBlamed) {
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
  EXPECT_TRUE(std::ranges::any_of(notes(), [](const auto& note) {
    return note.first.starts_with("nondeterministic");
  })) << Traces();
  const uint64_t replays = stats().replays;
  for (int i = 0; i < 20; ++i) pass();
  EXPECT_GT(stats().replays, replays + 10) << Traces();
}

}  // namespace
}  // namespace reprise::scheduler
