// Ops that write the program's memory are replayed, each once, wherever the
// program leaves, and beside other streams, which are told.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "tests/scheduler/twin_programs.h"

namespace reprise::scheduler {
namespace {

class OutsideWritesTest : public TwinPrograms {
 protected:
  static constexpr int kOps = 8;
  static constexpr char kCut[] = "writes memory that its trace did not make";

  // A step of a training loop: forward, and an update of two weights and of a
  // state that is read in between. It takes another way before op `leaves`.
  void Step(float x, int leaves = kOps) {
    Both([&](Side& side) {
      sim::ModelProgram& p = *side.program;
      std::vector<sim::ModelTensor>& w = side.weights;
      sim::ModelTensor h = p.Make(x, 64);
      Held held;
      int at = 0;
      const auto goes_on = [&] { return at++ != leaves; };
      const auto run = [&] {
        if (!goes_on()) return;
        h = p.Add(h, w[0]);
        if (!goes_on()) return;
        p.Negate(h);
        if (!goes_on()) return;
        p.Mix(w[2], h);
        if (!goes_on()) return;
        h = p.Scale(h, 0.25f);
        if (!goes_on()) return;
        h = p.Add(h, w[2]);
        if (!goes_on()) return;
        p.Mix(w[0], h);
        if (!goes_on()) return;
        p.Negate(w[1]);
        if (!goes_on()) return;
        h = p.Add(h, w[1]);
      };
      run();
      if (leaves < kOps) h = p.Add(h, h);
      p.Read(h);
      held.push_back(h);
      for (int i = 0; i < 3; ++i) held.push_back(w[static_cast<size_t>(i)]);
      return held;
    });
  }

  void Warm() {
    for (; number_ < 8; ++number_) Step(0.5f * static_cast<float>(number_));
    ASSERT_GT(stats().replays, 0u) << Traces();
  }
  float Next() { return 0.5f * static_cast<float>(number_++); }

  int number_ = 0;
};

TEST_F(OutsideWritesTest, AreReplayed) {
  Warm();
  const Stats before = stats();
  for (int i = 0; i < 20; ++i) Step(Next());
  EXPECT_EQ(stats().replays - before.replays, 20u);
  EXPECT_EQ(stats().effects - before.effects, 60u);
  // All but the host's look.
  EXPECT_GT(FollowedSince(before), 0.85) << Traces();
  EXPECT_EQ(Cuts(kCut), 0u);
}

TEST_F(OutsideWritesTest, HappenOnceWhereverTheProgramLeaves) {
  for (int leaves = 0; leaves < kOps; ++leaves) {
    Restart();
    number_ = 0;
    Warm();
    const Stats before = stats();
    Step(Next(), leaves);
    const uint64_t squashes = stats().squashes - before.squashes;
    EXPECT_EQ(squashes, leaves > 0 ? 1u : 0u) << leaves;
    for (int i = 0; i < 3; ++i) Step(Next());
  }
}

TEST_F(OutsideWritesTest, HappenOnceWhereAValidationIsLeft) {
  for (int leaves = 1; leaves < kOps; ++leaves) {
    // The first one goes op by op, the second one by whole segments.
    for (const int validation : {3, 4}) {
      Restart();
      number_ = 0;
      while (number_ < validation) Step(Next());
      ASSERT_EQ(stats().replays, 0u);
      Step(Next(), leaves);
      for (int i = 0; i < 8; ++i) Step(Next());
      EXPECT_GT(stats().replays, 0u) << Traces();
    }
  }
}

// A stream beside the one whose session is tested.
class BesideAnotherStreamTest : public OutsideWritesTest {
 protected:
  BesideAnotherStreamTest() {
    StreamSession::Parts parts;
    auto frontend = std::make_unique<sim::ModelFrontend>();
    parts.backend = std::make_unique<engine::HostBackend>(
        frontend.get(), engine::HostBackend::Options{});
    parts.frontend = std::move(frontend);
    parts.plans = plans_.get();
    other_ = std::make_unique<StreamSession>(std::move(parts));
    writes_.Add(session_.get());
    writes_.Add(other_.get());
  }

  std::unique_ptr<StreamSession> other_;
};

// Of which the sessions are told before each op that writes.
TEST_F(BesideAnotherStreamTest, AreReplayed) {
  uint64_t told = 0;
  watched_program_->before_op = [&](const engine::OpView& op) {
    writes_.BeforeOp(session_.get(), op, /*may_wait=*/op.cut != nullptr);
    if (op.cut == nullptr) ++told;
  };
  Warm();
  const Stats before = stats();
  told = 0;
  for (int i = 0; i < 12; ++i) Step(Next());
  EXPECT_EQ(stats().replays - before.replays, 12u);
  EXPECT_EQ(stats().effects - before.effects, 36u);
  EXPECT_GE(told, 36u);
  EXPECT_EQ(Cuts(kCut), 0u);
}

// The other stream was asked to write, and a thread waits for it. Before it has
// written, a pass begins here and reads ahead; it comes to its op that reads
// once the thread, which has told it so, has waited.
TEST_F(BesideAnotherStreamTest, APassThatBeginsDuringAWaitReadsWhatWasWritten) {
  const auto step = [this](float written, std::optional<uint64_t> wait) {
    Both([&](Side& side) {
      sim::ModelProgram& p = *side.program;
      sim::ModelTensor h = p.Scale(p.Make(2, 64), 0.5f);
      std::ranges::fill_n(side.weights[0].storage()->data(), 64, written);
      if (wait.has_value()) writes_.AfterWait(*wait);
      h = p.Add(h, side.weights[0]);
      p.Read(h);
      return Held{h};
    });
  };
  for (int i = 0; i < 8; ++i) step(1, std::nullopt);
  ASSERT_GT(stats().replays, 0u) << Traces();
  for (int i = 0; i < 4; ++i) {
    const auto written = static_cast<float>(1 + i);
    for (int k = 0; k < 8; ++k) step(written, std::nullopt);
    engine::Operand weight;
    weight.base =
        reinterpret_cast<uint64_t>(watched_.weights[0].storage()->data());
    weight.storage_bytes = 64 * sizeof(float);
    weight.written = true;
    engine::OpView op;
    op.operands = {&weight, 1};
    writes_.BeforeOp(other_.get(), op, /*may_wait=*/false);
    const uint64_t before = stats().replays;
    step(written + 1, writes_.BeforeWait(other_.get()));
    EXPECT_GT(stats().replays, before) << Traces();
  }
}

}  // namespace
}  // namespace reprise::scheduler
