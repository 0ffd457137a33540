// Where a trace that is watched and recorded ends, and which ops it takes.

#include "scheduler/watching.h"

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <tuple>

#include "tests/scheduler/twin_programs.h"

namespace reprise::scheduler {
namespace {

// Work that no op made, seen while a trace is recorded: it ends there, from
// then on if that comes again.
class ForeignWorkTest : public TwinPrograms {
 protected:
  // As two layers and what joins them, on one input. There is foreign work
  // before that op.
  void Step(std::optional<int> foreign = {}) {
    Both([&](Side& side) {
      const auto next = [&](int op) -> sim::ModelProgram& {
        if (foreign == op && &side == &watched_) foreign_work_ = "somebody's";
        return *side.program;
      };
      const sim::ModelTensor a = next(0).Add(side.weights[7], side.weights[0]);
      const sim::ModelTensor b = next(1).Scale(a, 1.25f);
      const sim::ModelTensor c = next(2).Add(b, side.weights[1]);
      const sim::ModelTensor d = next(3).Scale(c, 1.25f);
      const sim::ModelTensor e = next(4).Add(d, side.weights[2]);
      foreign_work_.reset();
      return Held{e};
    });
  }
};

// Another thread was at work on this stream: it says nothing of the program.
class OnceTest : public ForeignWorkTest,
                 public testing::WithParamInterface<std::tuple<int, int>> {};

TEST_P(OnceTest, AllIsFollowedAllTheSame) {
  const auto [pass, op] = GetParam();
  // Where the first pass is parted a loop has to be found behind it, and what
  // it is parted into is joined.
  for (int i = 0; i < 240; ++i) {
    Step(i == pass ? std::optional(op) : std::nullopt);
  }
  const Stats before = stats();
  for (int i = 0; i < 40; ++i) Step();
  // What lies before that loop may be an op, which gains nothing.
  EXPECT_GE(FollowedSince(before), 0.98) << Traces();
}

INSTANTIATE_TEST_SUITE_P(PassAndOp, OnceTest,
                         testing::Combine(testing::Range(0, 8),
                                          testing::Range(0, 5)));

// It is the program's own, and no part of any trace.
TEST_F(ForeignWorkTest, AtEachPassParts) {
  for (int i = 0; i < 16; ++i) Step(2);
  const Stats before = stats();
  for (int i = 0; i < 40; ++i) Step(2);
  EXPECT_EQ(FollowedSince(before), 1.0) << Traces();
  EXPECT_EQ(stats().squashes, 0u) << Traces();
}

// Memory that is written between two ops, and by none, is read when the program
// asks for it.
class UnseenWritesTest : public TwinPrograms {
 protected:
  static constexpr char kPast[] = "uses memory that was written past";

  // Ten ops a pass that reads `written` and, in its middle and behind a write
  // past the ops, once more.
  void Calls(
      int begin, int end,
      const std::function<sim::ModelTensor(Side&, sim::ModelTensor)>& written) {
    for (int i = begin; i < end; ++i) {
      Both([&](Side& side) {
        const sim::ModelTensor x =
            side.program->Make(static_cast<float>(i), 64);
        sim::ModelTensor h = side.program->Scale(x, 7);
        const sim::ModelTensor target = written(side, h);
        for (int k = 0; k < 3; ++k) h = side.program->Add(h, target);
        target.storage()->data()[i % 64] += 1;
        for (int k = 0; k < 3; ++k) h = side.program->Scale(h, 9);
        h = side.program->Add(h, target);
        const sim::ModelTensor last = side.program->Scale(h, 11);
        side.program->Read(last);
        return Held{last};
      });
    }
  }
};

TEST_F(UnseenWritesTest, OfAWeightEndATrace) {
  Calls(0, 60,
        [](Side& side, const sim::ModelTensor&) { return side.weights[1]; });
  EXPECT_GT(Cuts(kPast), 0u);
  EXPECT_GT(stats().replays, 0u) << Traces();
  const Stats before = stats();
  Calls(60, 70,
        [](Side& side, const sim::ModelTensor&) { return side.weights[1]; });
  EXPECT_GE(FollowedSince(before), 0.85) << Traces();  // two traces
}

TEST_F(UnseenWritesTest, OfAValueOfThePassEndATrace) {
  const auto made = [](Side& side, const sim::ModelTensor& h) {
    return side.program->Scale(h, 0.5f);
  };
  Calls(0, 60, made);
  EXPECT_GT(Cuts(kPast), 0u);
  const Stats before = stats();
  Calls(60, 70, made);
  EXPECT_GE(FollowedSince(before), 0.85) << Traces();
}

// An op that may have tried out kernels while it was recorded, or that was
// recorded well before, is recorded again.
class KernelTrialsTest : public TwinPrograms {
 protected:
  // What is refused stands in the middle.
  void Call(int calls) {
    for (int i = 0; i < calls; ++i) {
      Both([&](Side& side) {
        sim::ModelTensor h = side.program->Make(static_cast<float>(i), 64);
        for (size_t k = 0; k < 4; ++k) {
          h = side.program->Scale(side.program->Scale(h, 7), 9);
          if (k == 2) h = side.program->Add(h, side.weights[k]);
        }
        side.program->Read(h);
        return Held{h};
      });
    }
  }
};

TEST_F(KernelTrialsTest, TrialsAreNotRecorded) {
  watched_.program->tries_kernels = sim::ModelOp::kAdd;
  refusals_left_ = 2;
  Call(20);
  EXPECT_EQ(refusals_left_, 0);
  const Stats before = stats();
  Call(10);
  EXPECT_EQ(FollowedSince(before), 0.9) << Traces();  // all but what reads
  EXPECT_EQ(Cuts("told to refuse"), 2u);
}

TEST_F(KernelTrialsTest, WhatIsAlwaysRefusedIsACut) {
  watched_.program->tries_kernels = sim::ModelOp::kAdd;
  refusals_left_ = 1000;
  Call(40);
  EXPECT_EQ(refusals_left_, 997);
  const Stats before = stats();
  Call(10);
  EXPECT_EQ(FollowedSince(before), 0.8) << Traces();
}

TEST_F(KernelTrialsTest, WhatWasRecordedBeforeIsNoCutAtOnce) {
  while (stats().recorded == 0) Call(1);
  EXPECT_EQ(stats().builds, 0u);
  refusals_left_ = 2;
  Call(20);
  EXPECT_EQ(refusals_left_, 0);
  const Stats before = stats();
  Call(10);
  EXPECT_EQ(FollowedSince(before), 0.9) << Traces();
}

TEST_F(KernelTrialsTest, WhatTriesNoKernelsIsACutAtOnce) {
  refusals_left_ = 1000;
  Call(20);
  EXPECT_EQ(refusals_left_, 999);
  EXPECT_GT(stats().replays, 0u);
}

}  // namespace
}  // namespace reprise::scheduler
