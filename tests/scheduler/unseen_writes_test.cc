// Proves that memory which is written between two ops, and by none, is read
// when the program asks for it.

#include <gtest/gtest.h>

#include <functional>

#include "tests/scheduler/twin_programs.h"

namespace reprise::scheduler {
namespace {

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

}  // namespace
}  // namespace reprise::scheduler
