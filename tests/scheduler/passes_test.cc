// Who knows tells where passes begin and end, and what looks like a loop in one
// is none.

#include <gtest/gtest.h>

#include <cstdint>

#include "tests/scheduler/twin_programs.h"

namespace reprise::scheduler {
namespace {

class PassesTest : public TwinPrograms {
 protected:
  // A chain of equal terms on one weight, longer each time it is another one.
  void Terms(int terms, bool told) {
    const float x = 0.25f * static_cast<float>(number_++);
    Both([&](Side& side) {
      sim::ModelProgram& p = *side.program;
      const bool tells = told && side.program == watched_.program;
      sim::ModelTensor h = p.Make(x, 64);
      const bool began = tells && Begin();
      for (int i = 0; i < terms; ++i) {
        h = p.Add(h, side.weights[0]);
        h = p.Scale(h, 0.5f);
      }
      if (began) End();
      return Held{h};
    });
  }
  bool Begin() {
    session_->Lock();
    const bool began = session_->BeginPass();
    session_->Unlock();
    return began;
  }
  void End() {
    session_->Lock();
    session_->EndPass();
    session_->Unlock();
  }
  size_t Entries() {
    size_t count = 0;
    session_->Inspect([&count](const auto&, const auto& entries, const auto&) {
      count = entries.size();
    });
    return count;
  }
  // All of a pass, in so many replays; 0: not all of it.
  uint64_t ReplaysOfTerms(int terms, bool told = true) {
    const Stats before = stats();
    Terms(terms, told);
    const Stats now = stats();
    return now.followed - before.followed == 2 * uint64_t(terms)
               ? now.replays - before.replays
               : 0;
  }

  int number_ = 0;
};

TEST_F(PassesTest, TermsThatAreAlikeAreNoLoop) {
  for (int i = 0; i < 8; ++i) Terms(30, /*told=*/true);
  EXPECT_EQ(ReplaysOfTerms(30), 1u) << Traces();
}

TEST_F(PassesTest, TheOutermostCounts) {
  const auto nested = [this] {
    EXPECT_TRUE(Begin());
    Terms(10, true);
    Terms(10, true);
    End();
  };
  for (int i = 0; i < 8; ++i) nested();
  const Stats before = stats();
  nested();
  EXPECT_EQ(stats().replays - before.replays, 1u) << Traces();
  EXPECT_EQ(stats().followed - before.followed, 40u) << Traces();
}

TEST_F(PassesTest, AnEndThatIsNotToldGoesWithAPause) {
  EXPECT_TRUE(Begin());
  session_->Pause();
  EXPECT_FALSE(Begin());
  session_->Resume();
  End();  // of none
  for (int i = 0; i < 8; ++i) Terms(30, true);
  EXPECT_EQ(ReplaysOfTerms(30), 1u) << Traces();
}

// It is a program's whole run, perhaps.
TEST_F(PassesTest, ALongPassIsSoughtForLoops) {
  EXPECT_TRUE(Begin());
  const auto round = [this] {
    const float x = 0.25f * static_cast<float>(number_++);
    Both([&](Side& side) {
      sim::ModelProgram& p = *side.program;
      sim::ModelTensor h = p.Make(x, 64);
      for (size_t i = 0; i < 8; ++i) {
        h = p.Add(h, side.weights[i]);
        h = p.Scale(h, 0.5f);
        p.Mix(h, side.weights[i]);
      }
      return Held{h};
    });
  };
  for (int i = 0; i < 120; ++i) round();
  const Stats before = stats();
  for (int i = 0; i < 8; ++i) round();
  EXPECT_GE(FollowedSince(before), 0.9) << Traces();
  End();
}

// It was found without being told, as several traces: those are not what a pass
// begins with.
TEST_F(PassesTest, WhatIsToldLaterIsOnePassToo) {
  for (int i = 0; i < 3; ++i) Terms(30, /*told=*/false);
  for (int i = 0; i < 8; ++i) Terms(30, /*told=*/true);
  EXPECT_EQ(ReplaysOfTerms(30), 1u) << Traces();
}

// Of one trace that comes with a pass and without one, each is forgotten where
// it is looked for.
TEST_F(PassesTest, WithAPassAndWithoutOneAreTwoTraces) {
  Restart(size_t{1} << 20, size_t{32} << 10);
  const auto between_cuts = [this](auto ops) {
    session_->Interrupt("cut");
    Both(ops);
    session_->Interrupt("cut");
  };
  const auto formula = [&](bool told) {
    between_cuts([&](Side& side) {
      sim::ModelProgram& p = *side.program;
      const bool began = told && side.program == watched_.program && Begin();
      sim::ModelTensor h = p.Add(side.weights[0], side.weights[1]);
      h = p.Scale(h, 0.5f);
      h = p.Add(h, side.weights[2]);
      if (began) End();
      return Held{h};
    });
  };
  formula(/*told=*/false);
  formula(/*told=*/true);
  EXPECT_EQ(Entries(), 2u) << Traces();
  for (int n = 1; n < 400; ++n) {
    between_cuts([n](Side& side) {
      sim::ModelProgram& p = *side.program;
      sim::ModelTensor h = p.Make(1.0f, 64 + n);
      h = p.Scale(h, 0.5f);
      return Held{p.Scale(h, 0.25f)};
    });
  }
  EXPECT_GT(stats().forgotten, 0u);
  formula(/*told=*/true);
  formula(/*told=*/false);
}

// What it looked like before anybody told is known, and its parts are plans.
TEST_F(PassesTest, NoPartBeginsInAPassThatFollowsOnOps) {
  const auto pass = [this](int before, bool told) {
    const float x = 0.25f * static_cast<float>(number_++);
    Both([&](Side& side) {
      sim::ModelProgram& p = *side.program;
      sim::ModelTensor h = p.Make(x, 64);
      for (int i = 0; i < before; ++i) h = p.Scale(h, 0.25f);
      const bool began = told && side.program == watched_.program && Begin();
      for (int i = 0; i < 40; ++i) {
        h = p.Add(h, side.weights[0]);
        h = p.Scale(h, 0.5f);
      }
      if (began) End();
      return Held{h};
    });
  };
  for (int i = 0; i < 12; ++i) pass(0, /*told=*/false);
  ASSERT_GT(stats().replays, 12u) << Traces();  // of parts
  for (int i = 0; i < 30; ++i) pass(i % 3, /*told=*/true);
  const Stats before = stats();
  for (int i = 0; i < 6; ++i) pass(i % 3, /*told=*/true);
  EXPECT_EQ(stats().followed - before.followed, 6u * 80u + 6u) << Traces();
  EXPECT_GT(stats().replays, before.replays) << Traces();
  EXPECT_LE(stats().replays, before.replays + 6) << Traces();
}

// It may be a part of what came before: so is a region in an eager model.
TEST_F(PassesTest, WhatFollowsOnOpsBeginsNoTrace) {
  const auto pass = [this](bool told) {
    Both([&](Side& side) {
      sim::ModelProgram& p = *side.program;
      sim::ModelTensor h = p.Make(1.0f, 64);
      for (int layer = 0; layer < 6; ++layer) {
        h = p.Add(h, side.weights[size_t(layer)]);
        const bool began = told && side.program == watched_.program && Begin();
        for (int i = 0; i < 8; ++i) h = p.Scale(p.Add(h, h), 0.5f);
        if (began) End();
      }
      return Held{h};
    });
  };
  for (int i = 0; i < 8; ++i) pass(/*told=*/true);
  const Stats before = stats();
  pass(/*told=*/true);
  EXPECT_EQ(stats().followed - before.followed, 6u * 17u) << Traces();
  EXPECT_EQ(stats().replays - before.replays, 1u) << Traces();
}

}  // namespace
}  // namespace reprise::scheduler
