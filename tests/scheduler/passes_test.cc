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
      if (tells) Tell(&StreamSession::BeginPass);
      for (int i = 0; i < terms; ++i) {
        h = p.Add(h, side.weights[0]);
        h = p.Scale(h, 0.5f);
      }
      if (tells) Tell(&StreamSession::EndPass);
      return Held{h};
    });
  }
  void Tell(void (StreamSession::*edge)()) {
    session_->Lock();
    (session_.get()->*edge)();
    session_->Unlock();
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
  for (int i = 0; i < 8; ++i) {
    Tell(&StreamSession::BeginPass);
    Terms(10, true);
    Terms(10, true);
    Tell(&StreamSession::EndPass);
  }
  const Stats before = stats();
  Tell(&StreamSession::BeginPass);
  Terms(10, true);
  Terms(10, true);
  Tell(&StreamSession::EndPass);
  EXPECT_EQ(stats().replays - before.replays, 1u) << Traces();
  EXPECT_EQ(stats().followed - before.followed, 40u) << Traces();
}

TEST_F(PassesTest, AnEndThatIsNotToldGoesWithAPause) {
  Tell(&StreamSession::BeginPass);
  session_->Pause();
  session_->Resume();
  Tell(&StreamSession::EndPass);  // of none
  for (int i = 0; i < 8; ++i) Terms(30, true);
  EXPECT_EQ(ReplaysOfTerms(30), 1u) << Traces();
}

// It is a program's whole run, perhaps.
TEST_F(PassesTest, ALongPassIsSoughtForLoops) {
  Tell(&StreamSession::BeginPass);
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
  Tell(&StreamSession::EndPass);
}

}  // namespace
}  // namespace reprise::scheduler
