// Proves that a replay reads nothing that the program has freed or moved since
// the pass began: such memory is taken away, and touching it ends the process.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "tests/scheduler/twin_programs.h"

namespace reprise::scheduler {
namespace {

using sim::ModelTensor;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Pair;

class FreedExternalsTest : public TwinPrograms {
 protected:
  FreedExternalsTest() { TakePagesAway(); }
  void TakePagesAway() {
    frontend_->takes_pages_away = true;
    for (Side* side : {&watched_, &plain_}) side->weights.resize(9);
    for (int i = 0; i < 9; ++i) MakeWeight(i);
  }
  void MakeWeight(int index) {
    for (Side* side : {&watched_, &plain_}) {
      side->weights[index] =
          side->program->Make(0.75f * static_cast<float>(index), 64);
    }
  }

  // What the program does before its op of that index, and on which side.
  using Deed = std::function<void(Side& side, int op, ModelTensor& x)>;

  // Nine ops, three a segment: segment 1 is launched at op 1 and segment 2 at
  // op 4. A weight that is unset and an input that is unset are done without.
  static Held Chain(Side& side, float seed, const Deed& deed) {
    ModelTensor x = side.program->Make(seed);
    Held made;
    for (int op = 0; op < 9; ++op) {
      if (deed) deed(side, op, x);
      const ModelTensor h = made.empty() ? x : made.back();
      const ModelTensor other = op == 4 ? x : side.weights[op];
      const bool adds = op % 2 == 0 && other.storage() != nullptr;
      made.push_back(adds ? side.program->Add(h, other)
                          : side.program->Scale(h, 0.5f + op));
    }
    side.program->Read(made.back());
    return made;
  }
  void Call(int calls, const Deed& deed = nullptr) {
    for (int i = 0; i < calls; ++i) {
      Both([&](Side& side) {
        return Chain(side, 1.0f + static_cast<float>(i), deed);
      });
    }
  }
  void Warm() {
    Call(10);
    ASSERT_GT(stats().replays, 0u) << Traces();
    ASSERT_EQ(stats().squashes, 0u) << Traces();
  }
  Deed On(int at, const std::function<void(Side&, ModelTensor& x)>& deed) {
    return [=](Side& side, int op, ModelTensor& x) {
      if (op == at) deed(side, x);
    };
  }
  // Calls so, and then as ever; returns the op before which the pass ended, or
  // -1 if it was followed to its end.
  int CallOnce(const Deed& deed) {
    const Stats before = stats();
    Call(1, deed);
    const Stats now = stats();
    if (now.squashes == before.squashes) return -1;
    return static_cast<int>(now.followed - before.followed);
  }
};

TEST_F(FreedExternalsTest, WeightEndsThePassWhereASegmentWouldReadIt) {
  Warm();
  const auto drop = [](Side& side, ModelTensor&) {
    side.weights[6] = ModelTensor();
  };
  EXPECT_EQ(CallOnce(On(3, drop)), 4);
  EXPECT_THAT(notes(), Contains(Pair(HasSubstr("was freed"), 1u)));
  // It is recorded anew with the weight in its place.
  MakeWeight(6);
  const Stats before = stats();
  Call(10);
  EXPECT_GT(stats().replays, before.replays) << Traces();
}

TEST_F(FreedExternalsTest, InputEndsThePassWhereASegmentWouldReadIt) {
  Warm();
  EXPECT_EQ(CallOnce(On(1, [](Side&, ModelTensor& x) { x = ModelTensor(); })),
            1);
  EXPECT_THAT(notes(), Contains(Pair(HasSubstr("was freed"), 1u)));
  Call(3);
  EXPECT_EQ(CallOnce(nullptr), -1) << Traces();
}

TEST_F(FreedExternalsTest, WhatWasMovedIsNotReadWhereItWas) {
  Warm();
  const auto move = [this](Side& side, ModelTensor&) {
    if (&side == &watched_) frontend_->Move(side.weights[8]);
  };
  EXPECT_EQ(CallOnce(On(2, move)), 4);
  const Stats before = stats();
  Call(10);
  EXPECT_GT(stats().replays, before.replays) << Traces();
}

TEST_F(FreedExternalsTest, WhatNoSegmentReadsAnyMoreMayGo) {
  Warm();
  const auto drop = [](Side& side, ModelTensor& x) {
    side.weights[2] = ModelTensor();
    x = ModelTensor();
  };
  EXPECT_EQ(CallOnce(On(5, drop)), -1) << Traces();
}

// While eager runs beside it, the same holds for a pass that validates.
TEST_F(FreedExternalsTest, ValidationReadsNothingEither) {
  for (int calls = 3; calls < 7; ++calls) {
    Restart();
    TakePagesAway();
    Call(calls);
    Call(1, On(3, [](Side& side, ModelTensor&) {
           side.weights[6] = ModelTensor();
         }));
    MakeWeight(6);
    Call(10);
    EXPECT_GT(stats().replays, 0u) << Traces();
    EXPECT_EQ(stats().rejected, 0u) << Traces();
  }
}

// References are taken for a launch and given up behind it, where a deleter of
// the program's may wait for what it likes.
TEST_F(FreedExternalsTest, ReferencesEndUnderNoLock) {
  Warm();
  int drops = 0;
  frontend_->on_drop = [&] {
    ++drops;
    EXPECT_FALSE(session_->locked());
  };
  const Stats before = stats();
  Call(1);
  EXPECT_EQ(stats().replays, before.replays + 1);
  EXPECT_EQ(drops, 3);  // one a segment
  frontend_->on_drop = nullptr;
}

TEST_F(FreedExternalsTest, BeforeMemoryGoesOnlyAPassThatReliesOnItEnds) {
  Warm();
  const auto tell = [this](Side& side, ModelTensor&) {
    if (&side == &watched_) session_->BeforeMemoryGoes();
  };
  EXPECT_EQ(CallOnce(On(3, tell)), -1);
  const auto drop = [&](Side& side, ModelTensor& x) {
    side.weights[6] = ModelTensor();
    tell(side, x);
  };
  EXPECT_EQ(CallOnce(On(3, drop)), 3);
}

TEST_F(FreedExternalsTest, MemoryWaitsForAThreadThatFollows) {
  Warm();
  const auto drop = [this](Side& side, ModelTensor&) {
    side.weights[6] = ModelTensor();
    if (&side != &watched_) return;
    session_->Lock();  // as an op does
    std::thread other([this] { session_->BeforeMemoryGoes(); });
    session_->Unlock();
    other.join();
  };
  EXPECT_EQ(CallOnce(On(3, drop)), 3);
}

TEST_F(FreedExternalsTest, MemoryWaitsForNobodyWhoMayWaitForTheAllocator) {
  Warm();
  const auto tell = [this](Side& side, ModelTensor&) {
    if (&side != &watched_) return;
    const StreamSession::Locked inside(*session_);
    std::thread([this] { session_->BeforeMemoryGoes(); }).join();
  };
  EXPECT_EQ(CallOnce(On(3, tell)), -1);
  // Nor for one that is not following.
  session_->Lock();
  std::thread([this] { session_->BeforeMemoryGoes(); }).join();
  session_->Unlock();
}

}  // namespace
}  // namespace reprise::scheduler
