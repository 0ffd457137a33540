// A replay answers the ops of its trace, and leaves the program with what it
// has seen wherever that goes another way.

#include "scheduler/replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include "tests/scheduler/twin_programs.h"

namespace reprise::scheduler {
namespace {

using sim::ModelTensor;
using ::testing::ElementsAre;

class ReplayTest : public TwinPrograms {
 protected:
  static constexpr uint32_t kOps = 6;

  // Plans have copies of the weight that a pass writes: it is written ahead of
  // the program, and has what the program asked for when the pass is over.
  ReplayTest() { private_bytes_ = 1024; }

  // Op `op` of a pass; each takes what the one before made.
  static ModelTensor Op(Side& side, uint32_t op, const ModelTensor& h) {
    if (op == 3) {
      side.program->Mix(side.weights[5], h);
      return h;
    }
    return op % 2 == 1 ? side.program->Scale(h, 1.25f)
                       : side.program->Add(h, side.weights[op]);
  }
  // Before op `leave` the program goes another way. `before` is called with the
  // number of each op that is about to come.
  void Pass(uint32_t leave = kOps,
            const std::function<void(uint32_t)>& before = {}) {
    Both([&](Side& side) {
      Held held = {side.weights[7]};
      for (uint32_t op = 0; op < kOps; ++op) {
        if (before && &side == &watched_) before(op);
        if (op == leave) {
          side.program->MayRaise(held.back(), /*raise=*/false);
          break;
        }
        held.push_back(Op(side, op, held.back()));
      }
      side.program->Read(held.back());
      held.push_back(side.weights[5]);
      return held;
    });
  }
  void Warm() {
    for (int i = 0; i < 8; ++i) Pass();
    ASSERT_GT(stats().replays, 0u) << Traces();
  }

  Session::Following Following() {
    const StreamSession::Locked lock(*session_);
    return session_->following();
  }
  static engine::Operand At(const ModelTensor& tensor) {
    engine::Operand operand;
    operand.storage = tensor.storage();
    operand.base = reinterpret_cast<uint64_t>(tensor.storage()->data());
    operand.storage_bytes = tensor.storage()->elements() * sizeof(float);
    operand.element_bytes = sizeof(float);
    return operand;
  }
  // What ops 1 to 4 use and none of them makes: `made` is what op 0 did.
  std::vector<Session::Operand> OperandsOf(const engine::Program& program,
                                           const ModelTensor& made) const {
    const auto& ops = program.trace->ops;
    return {{ops[1].operands[0], At(made)},
            {ops[2].operands[1], At(watched_.weights[2])},
            {ops[3].operands[0], At(watched_.weights[5])},
            {ops[4].operands[1], At(watched_.weights[4])}};
  }
  uint32_t FollowUnseen(const Session::Unseen& ops,
                        const std::function<void(uint32_t)>& passed) {
    const StreamSession::Locked lock(*session_);
    return session_->FollowUnseen(ops, passed);
  }
};

TEST_F(ReplayTest, AnswersEachOpOfItsTrace) {
  Warm();
  const Stats before = stats();
  std::vector<uint32_t> due;
  for (int i = 0; i < 10; ++i) {
    Pass(kOps, [&](uint32_t op) {
      const Session::Following following = Following();
      EXPECT_EQ(following.program != nullptr, op > 0);
      if (i == 0 && op > 0) due.push_back(following.next_op);
    });
    EXPECT_EQ(Following().program, nullptr);
  }
  EXPECT_THAT(due, ElementsAre(1, 2, 3, 4, 5));
  EXPECT_EQ(stats().replays, before.replays + 10);
  EXPECT_EQ(stats().followed, before.followed + 10 * kOps);
  EXPECT_EQ(stats().traces, before.traces + 10);
  EXPECT_EQ(stats().squashes, before.squashes);
  EXPECT_EQ(stats().effects, before.effects + 10);
}

TEST_F(ReplayTest, AnotherOpThanTheOneThatIsDueLeavesIt) {
  for (uint32_t leave = 1; leave < kOps; ++leave) {
    Restart();
    Warm();
    Pass(leave);
    EXPECT_EQ(stats().squashes, 1u);
    std::vector<std::tuple<uint32_t, std::string>> left;
    session_->Inspect(
        [&left](const Journal& journal, const auto&, const engine::Frontend&) {
          for (const auto& [where, times] : journal.squashes) {
            left.emplace_back(std::get<1>(where), std::get<2>(where));
          }
        });
    EXPECT_THAT(left, ElementsAre(std::tuple(leave, "model::raise")));
  }
}

TEST_F(ReplayTest, WhatIsNoOpLeavesItToo) {
  Warm();
  bool taken_back = false;
  Pass(kOps, [&](uint32_t op) {
    if (op == 3) taken_back = session_->Interrupt("told to");
  });
  EXPECT_TRUE(taken_back);
  EXPECT_EQ(stats().squashes, 1u);
}

// Else a program that goes another way each time would pay for both.
TEST_F(ReplayTest, PlanThatWasLeftRests) {
  Warm();
  Pass(3);
  const uint64_t replays = stats().replays;
  Pass();
  EXPECT_EQ(stats().replays, replays);
  Pass();
  EXPECT_EQ(stats().replays, replays + 1);
  Pass();
  EXPECT_EQ(stats().replays, replays + 2);
}

TEST_F(ReplayTest, DoesNotBeginWhereAnotherThreadMayWriteWhatItReads) {
  Warm();
  const uint64_t replays = stats().replays;
  OpsUnderWay::Slot* const slot = under_way_.Acquire();
  std::vector<engine::Operand> written = {At(watched_.weights[3])};
  written[0].written = true;
  slot->Begin(written);
  Pass();  // of memory that no op of the pass uses
  EXPECT_EQ(stats().replays, replays + 1);
  slot->End();
  written = {At(watched_.weights[0])};
  written[0].written = true;
  slot->Begin(written);
  Pass();
  EXPECT_EQ(stats().replays, replays + 1);
  EXPECT_EQ(stats().squashes, 0u);
  slot->End();
  Pass();
  EXPECT_EQ(stats().replays, replays + 2);
  OpsUnderWay::Release(slot);
}

// Of which the program takes what the last one makes.
TEST_F(ReplayTest, GoesOverOpsThatAreNotShown) {
  Warm();
  const Stats before = stats();
  const ModelTensor a = Op(watched_, 0, watched_.weights[7]);
  const Session::Following due = Following();
  ASSERT_NE(due.program, nullptr);
  ASSERT_EQ(due.next_op, 1u);
  const engine::ValueId last = due.program->trace->ops[4].results[0].value;
  const std::vector<engine::ValueId> taken = {last};
  std::vector<uint32_t> passed;
  ModelTensor made;
  const uint32_t followed = FollowUnseen(
      {.program = due.program.get(),
       .next_op = 1,
       .ops = 4,
       .operands = OperandsOf(*due.program, a),
       .taken = taken},
      [&](uint32_t op) REPRISE_NO_THREAD_SAFETY_ANALYSIS {
        passed.push_back(op);
        if (op != 4) return;
        made =
            ModelTensor(new sim::ModelStorage(session_->TakeBlock(last), 64));
        session_->Own(last, made.storage());
      });
  EXPECT_EQ(followed, 4u);
  EXPECT_THAT(passed, ElementsAre(1, 2, 3, 4));
  const ModelTensor end = Op(watched_, 5, made);
  EXPECT_EQ(Following().program, nullptr);
  EXPECT_EQ(stats().replays, before.replays + 1);
  EXPECT_EQ(stats().followed, before.followed + kOps);
  EXPECT_EQ(stats().unshown, before.unshown + 4);
  EXPECT_EQ(stats().squashes, before.squashes);
  ModelTensor expected = plain_.weights[7];
  for (uint32_t op = 0; op < kOps; ++op) expected = Op(plain_, op, expected);
  EXPECT_EQ(end.values(), expected.values());
}

TEST_F(ReplayTest, OfOpsThatAreNotDueItGoesOverNone) {
  Warm();
  const auto none = [](uint32_t) { ADD_FAILURE() << "none is to pass"; };
  EXPECT_EQ(Following().program, nullptr);
  EXPECT_EQ(FollowUnseen({.program = nullptr, .next_op = 0, .ops = 1}, none),
            0u)
      << "there is no replay";
  const ModelTensor a = Op(watched_, 0, watched_.weights[7]);
  const Session::Following now = Following();
  ASSERT_NE(now.program, nullptr);
  std::vector<Session::Operand> operands = OperandsOf(*now.program, a);
  Session::Unseen ops = {.program = now.program.get(),
                         .next_op = 2,
                         .ops = 1,
                         .operands = operands};
  EXPECT_EQ(FollowUnseen(ops, none), 0u) << "another op is due";
  ops.next_op = 1;
  ops.program = nullptr;
  EXPECT_EQ(FollowUnseen(ops, none), 0u) << "another program";
  ops.program = now.program.get();
  operands[0].at.base += 4;
  EXPECT_EQ(FollowUnseen(ops, none), 0u) << "an operand is elsewhere";
  EXPECT_EQ(stats().squashes, 0u);
}

TEST_F(ReplayTest, KnowsWhereAnOperandIs) {
  Warm();
  const ModelTensor a = Op(watched_, 0, watched_.weights[7]);
  const StreamSession::Locked lock(*session_);
  const Session::Following due = session_->following();
  ASSERT_NE(due.program, nullptr);
  const engine::ValueRef& ref = due.program->trace->ops[1].operands[0];
  EXPECT_TRUE(session_->IsAt({ref, At(a)}));
  engine::Operand elsewhere = At(a);
  elsewhere.base += 4;
  EXPECT_FALSE(session_->IsAt({ref, elsewhere}));
  EXPECT_FALSE(session_->IsAt({ref, At(watched_.weights[1])}));
}

}  // namespace
}  // namespace reprise::scheduler
