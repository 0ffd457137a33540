// Calls that are made one by one while a plan of the host is replayed: which
// ops they are.

#include "bindings/torch/region/stretch_learner.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <ATen/core/stack.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

#include "bindings/torch/region/tape.h"
#include "bindings/torch/region/tape_recorder.h"
#include "scheduler/plan_cache.h"
#include "scheduler/stream_session.h"
#include "scheduler/stream_writes.h"
#include "tests/bindings/torch/fake_session.h"
#include "tests/bindings/torch/host_session.h"

namespace reprise::bindings {
namespace {

using Tensors = std::vector<at::Tensor>;

class StretchLearnerTest : public testing::Test {
 protected:
  StretchLearnerTest() {
    session_ = MakeHostSession(&plans_, &writes_);
    Serve(session_.get());
  }
  ~StretchLearnerTest() override { StopServing(); }

  static Tensors Layers(const at::Tensor& x) {
    const at::Tensor turned = x.sin().exp().t();
    return {turned.tanh().mul(2).add(1), turned};  // so that it is made
  }

  static std::shared_ptr<const Tape> Record(const at::Tensor& x) {
    auto recorder = TapeRecorder::Begin({.inputs = {x}});
    const auto outcome = recorder->End(Layers(x), {});
    EXPECT_NE(outcome.tape, nullptr) << outcome.reason;
    return outcome.tape;
  }

  // One run, call by call.
  TapeStretchList Run(const Tape& tape, const at::Tensor& x,
                      scheduler::Session* session) {
    const Tensors inputs = {x};
    TapeValues made(tape, /*held=*/false);
    EXPECT_TRUE(made.Begin({inputs, {}}));
    const c10::impl::ExcludeDispatchKeyGuard below(
        c10::autograd_dispatch_keyset | c10::autocast_dispatch_keyset);
    StretchLearner learner(tape.record(), made);
    torch::jit::Stack stack;
    for (size_t c = 0; c < tape.calls(); ++c) {
      learner.Before(c, session);
      EXPECT_TRUE(made.Make(tape.record().calls[c], {inputs, {}}, stack));
      if (learner.is_due()) learner.After(c, session);
      made.DropBehind(tape.record().calls[c]);
    }
    saw_replay_ = learner.saw_replay();
    return learner.Found();
  }

  const at::NoGradGuard no_grad_;
  scheduler::PlanCache plans_{size_t{1} << 26};
  scheduler::StreamWrites writes_;
  std::unique_ptr<scheduler::StreamSession> session_;
  bool saw_replay_ = false;
};

TEST_F(StretchLearnerTest, FindsCallsThatAReplayAnswers) {
  const at::Tensor x = at::randn({4, 8});
  const auto tape = Record(x);
  ASSERT_NE(tape, nullptr);
  EXPECT_TRUE(Run(*tape, x, session_.get()).empty());
  EXPECT_FALSE(saw_replay_) << "there is no plan yet";
  TapeStretchList found;
  for (int i = 0; i < 40; ++i) found = Run(*tape, x, session_.get());
  EXPECT_TRUE(saw_replay_);
  ASSERT_EQ(found.size(), 1u);
  const TapeStretch& stretch = *found[0];
  // The view is no op, and does not end the stretch.
  size_t view = 0;
  while (!tape->record().calls[view].views) ++view;
  EXPECT_LT(stretch.calls.front(), view);
  EXPECT_GT(stretch.calls.back(), view);
  EXPECT_EQ(std::ranges::count(stretch.calls, view), 0);
  for (size_t i = 1; i < stretch.results.size(); ++i) {
    EXPECT_EQ(stretch.results[i].op, stretch.results[i - 1].op + 1);
  }
}

TEST_F(StretchLearnerTest, LearnsNothingWhereNobodyWatches) {
  const at::Tensor x = at::randn({4, 8});
  const auto tape = Record(x);
  ASSERT_NE(tape, nullptr);
  for (int i = 0; i < 40; ++i) {
    EXPECT_TRUE(Run(*tape, x, nullptr).empty());
  }
  EXPECT_FALSE(saw_replay_);
}

}  // namespace
}  // namespace reprise::bindings
