// Work that no op made, seen while a trace is recorded: it ends there, from
// then on if that comes again.

#include <gtest/gtest.h>

#include <optional>
#include <tuple>

#include "tests/scheduler/twin_programs.h"

namespace reprise::scheduler {
namespace {

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

}  // namespace
}  // namespace reprise::scheduler
