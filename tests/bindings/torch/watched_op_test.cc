// The protocol between one call and its session, step by step.

#include "bindings/torch/hook/watched_op.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "bindings/torch/hook/encode.h"
#include "bindings/torch/runtime/op_policy.h"
#include "bindings/torch/runtime/op_table.h"
#include "tests/bindings/torch/fake_session.h"
#include "tests/bindings/torch/scripted_session.h"

namespace reprise::bindings {
namespace {

using scheduler::Action;
using scheduler::DeviceKind;
using Calls = std::vector<std::string>;
using Step = WatchedOp::Step;

constexpr c10::DispatchKeySet kCpu(c10::DispatchKey::CPU);
constexpr c10::DispatchKeySet kCuda(c10::DispatchKey::CUDA);

const OpInfo& InfoOf(const char* name, const char* overload = "") {
  return *AddToOpTable(
      DescribeOp(c10::Dispatcher::singleton().findSchemaOrThrow(name, overload),
                 /*factory=*/false));
}

// A replay that begins now finds that this memory may be written.
bool MayBeWritten(const at::Tensor& tensor) {
  const auto begin = reinterpret_cast<uint64_t>(tensor.const_data_ptr());
  static constexpr char kSomeSession = 0;
  return BookOfOps().MayWrite({.session = &kSomeSession}, [&](auto overlaps) {
    return overlaps(begin, begin + 1);
  });
}

// A session of the host behind hooks that see nothing of what is done here.
class WatchedOpTest : public ::testing::Test {
 protected:
  WatchedOpTest() {
    Serve(&session_);
    EXPECT_EQ(ShowingOf(Thread(), kCpu), Showing::kShow);
  }
  ~WatchedOpTest() override {
    EXPECT_FALSE(session_.locked());
    EXPECT_TRUE(BookOfOps().EmptyFor(DeviceKind::kHost));
    EXPECT_EQ(Thread().depth, 0);
    StopServing();
  }
  static ThreadState& Thread() { return t_thread_state; }
  // The op's arguments, one after the other.
  static void Give(WatchedOp& op, std::span<const at::Tensor> tensors) {
    for (const at::Tensor& tensor : tensors) {
      op.call().NextArgument();
      Encode(op.call(), tensor);
    }
  }
  // Of a call of neg.
  Step Enter(WatchedOp& op) {
    Give(op, {&a_, 1});
    return op.Enter();
  }

  const OpInfo& info_ = InfoOf("aten::neg");
  const OpInfo& in_place_ = InfoOf("aten::neg_");
  const at::Tensor a_ = at::ones({3});
  const at::Tensor b_ = at::ones({3});
  ScriptedSession session_;
};

TEST_F(WatchedOpTest, WhatAnEagerOpCallsIsPartOfIt) {
  {
    WatchedOp op(Thread(), info_, kCpu);
    EXPECT_EQ(Enter(op), Step::kEager);
    EXPECT_EQ(ShowingOf(Thread(), kCpu), Showing::kShow);
    op.StartEager();
    EXPECT_FALSE(session_.locked());
    EXPECT_EQ(ShowingOf(Thread(), kCpu), Showing::kInside);
  }
  EXPECT_EQ(ShowingOf(Thread(), kCpu), Showing::kShow);
  EXPECT_EQ(session_.calls, Calls{"enter"});
}

TEST_F(WatchedOpTest, AnObservedOpIsLeftWithItsResults) {
  session_.answer = Action::kObserve;
  session_.wants = true;
  {
    WatchedOp op(Thread(), info_, kCpu);
    EXPECT_EQ(Enter(op), Step::kObserve);
    EXPECT_FALSE(session_.locked()) << "eager runs under no lock";
    op.StartEager();
    ASSERT_TRUE(op.wants_call());
    Box(op.NewBoxedCall(), a_);
    ResultList results(op.call());
    results.Add(b_);
    op.Leave(results);
    EXPECT_FALSE(session_.locked());
  }
  EXPECT_EQ(session_.calls, (Calls{"enter", "leave"}));
  EXPECT_EQ(session_.results, 1u);
  EXPECT_TRUE(session_.with_call);
}

TEST_F(WatchedOpTest, AnObservedOpThatRaisesIsAbandoned) {
  session_.answer = Action::kObserve;
  {
    WatchedOp op(Thread(), info_, kCpu);
    EXPECT_EQ(Enter(op), Step::kObserve);
    EXPECT_FALSE(op.wants_call());
    op.StartEager();
  }
  EXPECT_EQ(session_.calls, (Calls{"enter", "abandon"}));
}

TEST_F(WatchedOpTest, AnOpWhoseResultsCannotBeDescribedIsAbandoned) {
  session_.answer = Action::kObserve;
  {
    WatchedOp op(Thread(), info_, kCpu);
    Enter(op);
    op.StartEager();
    ResultList results(op.call());
    results.Add(at::Scalar(1));
    op.Leave(results);
  }
  EXPECT_EQ(session_.calls, (Calls{"enter", "abandon"}));
}

TEST_F(WatchedOpTest, AnOpThatGivesWhatItWritesAnotherLayoutIsAbandoned) {
  session_.answer = Action::kObserve;
  {
    WatchedOp op(Thread(), in_place_, kCpu);
    Give(op, {&a_, 1});
    EXPECT_EQ(op.Enter(), Step::kObserve);
    op.StartEager();
    a_.resize_({2});
    op.Leave(ResultList(op.call()));
  }
  EXPECT_EQ(session_.calls, (Calls{"enter", "abandon"}));
}

TEST_F(WatchedOpTest, AFollowedOpHasTheLockUntilItsResultsAreMade) {
  session_.answer = Action::kFollow;
  {
    WatchedOp op(Thread(), info_, kCpu);
    EXPECT_EQ(Enter(op), Step::kFollow);
    EXPECT_EQ(&op.session(), &session_);
    EXPECT_TRUE(session_.locked());
    op.Unlock();
    EXPECT_FALSE(session_.locked());
    op.Unlock();  // once more does nothing
  }
  {
    WatchedOp op(Thread(), info_, kCpu);
    Enter(op);
    EXPECT_TRUE(session_.locked());
  }
  EXPECT_FALSE(session_.locked()) << "on every way out";
  EXPECT_EQ(session_.calls, (Calls{"enter", "enter"}));
}

// The session's own op: no other session's lock may be waited for meanwhile.
TEST_F(WatchedOpTest, OthersAreToldUnderNoLockBeforeTheSessionAnswers) {
  session_.answer = Action::kTell;
  session_.answer_once_told = Action::kFollow;
  bool written_meanwhile = false;
  TellOthers([&](const engine::OpView&) {
    EXPECT_FALSE(session_.locked());
    written_meanwhile = MayBeWritten(a_);
    session_.calls.push_back("others");
  });
  {
    WatchedOp op(Thread(), in_place_, kCpu);
    EXPECT_EQ(Enter(op), Step::kFollow);
    EXPECT_TRUE(session_.locked());
  }
  EXPECT_EQ(session_.calls, (Calls{"enter", "others", "enter told"}));
  EXPECT_TRUE(written_meanwhile);
  EXPECT_FALSE(MayBeWritten(a_));
}

TEST_F(WatchedOpTest, OthersAreToldOfCutsAndOfTheirWaits) {
  session_.answer = Action::kCut;
  TellOthers([&](const engine::OpView&) {
    EXPECT_FALSE(session_.locked());
    session_.calls.push_back("others");
  });
  {
    WatchedOp op(Thread(), info_, kCpu);
    EXPECT_EQ(Enter(op), Step::kEager);
    op.StartEager();
  }
  EXPECT_EQ(Told().waits, 0);
  {
    WatchedOp op(Thread(), info_, kCpu);
    op.call().Cut("a test");  // what it hands out has been waited for
    EXPECT_EQ(Enter(op), Step::kEager);
    op.StartEager();
    EXPECT_EQ(Told().waits, 0) << "at its end";
  }
  EXPECT_EQ(Told().waits, 1);
  EXPECT_EQ(session_.calls, (Calls{"enter", "others", "enter", "others"}));
}

TEST_F(WatchedOpTest, WhatAnOpMayWriteIsInTheBookToItsEnd) {
  {
    WatchedOp op(Thread(), in_place_, kCpu);
    Give(op, {&a_, 1});
    EXPECT_FALSE(MayBeWritten(a_));
    op.Enter();
    op.StartEager();
    EXPECT_TRUE(MayBeWritten(a_));
    EXPECT_FALSE(MayBeWritten(b_));
  }
  EXPECT_FALSE(MayBeWritten(a_));
  {
    WatchedOp op(Thread(), info_, kCpu);
    Enter(op);
    op.StartEager();
    EXPECT_FALSE(MayBeWritten(a_)) << "it reads it";
  }
}

TEST_F(WatchedOpTest, AnOpOfAPausedSessionIsLeftToOthers) {
  session_.answer = Action::kAway;
  TellOthers([](const engine::OpView&) {});
  {
    WatchedOp op(Thread(), info_, kCpu);
    EXPECT_EQ(Enter(op), Step::kEager);
    EXPECT_FALSE(session_.locked());
    op.StartEager();
    EXPECT_EQ(session_.calls, (Calls{"enter", "interrupt"}));
    EXPECT_TRUE(MayBeWritten(b_)) << "any memory";
    EXPECT_EQ(Told().unwatched, 0);
  }
  EXPECT_EQ(Told().unwatched, 1);
}

TEST_F(WatchedOpTest, ACallThatNoTraceHoldsInterruptsWhoseMemoryItMayUse) {
  const at::Tensor sparse = at::ones({3}).to_sparse();
  session_.calls.clear();
  {
    WatchedOp op(Thread(), info_, sparse.key_set());
    Give(op, {&sparse, 1});
    EXPECT_EQ(op.Enter(), Step::kEager);
    EXPECT_EQ(session_.calls, Calls{});
    op.StartEager();
    EXPECT_EQ(session_.calls, Calls{"interrupt"});
    EXPECT_TRUE(MayBeWritten(b_)) << "any memory";
  }
  session_.calls.clear();
  const at::Tensor meta = at::empty({3}, at::kMeta);
  WatchedOp op(Thread(), info_, meta.key_set());
  Give(op, {&meta, 1});
  EXPECT_EQ(op.Enter(), Step::kPass);
  EXPECT_EQ(session_.calls, Calls{});
}

TEST_F(WatchedOpTest, AnOpWithTheProgramsKernelInsideIsAbandoned) {
  session_.answer = Action::kObserve;
  TellOthers([](const engine::OpView&) {});
  {
    WatchedOp op(Thread(), info_, kCpu);
    Enter(op);
    op.StartEager();
    EXPECT_FALSE(MayBeWritten(b_));
    NoteReplacedInside();
    NoteReplacedInside();
    EXPECT_EQ(Told().unknown_writes, 1) << "once an op";
    EXPECT_TRUE(MayBeWritten(b_)) << "any memory";
    ResultList results(op.call());
    results.Add(b_);
    op.Leave(results);
  }
  EXPECT_EQ(session_.calls, (Calls{"enter", "abandon"}));
  session_.calls.clear();
  {
    WatchedOp op(Thread(), info_, kCpu);
    Enter(op);
    op.StartEager();
    op.Leave(ResultList(op.call()));
  }
  EXPECT_EQ(session_.calls, (Calls{"enter", "leave"})) << "the next one is not";
}

TEST_F(WatchedOpTest, CallsElsewhereAreShownToNobody) {
  EXPECT_EQ(ShowingOf(Thread(), kCuda), Showing::kElsewhere);
  {
    const OpElsewhere elsewhere;
    // Sessions of the host have nothing to fear, others do.
    EXPECT_TRUE(BookOfOps().EmptyFor(DeviceKind::kHost));
    EXPECT_FALSE(BookOfOps().EmptyFor(DeviceKind::kCuda));
    EXPECT_EQ(ShowingOf(Thread(), kCuda), Showing::kNot) << "noted already";
    EXPECT_EQ(ShowingOf(Thread(), kCpu), Showing::kShow);
  }
  EXPECT_TRUE(BookOfOps().EmptyFor(DeviceKind::kCuda));
  EXPECT_EQ(Thread().depth, 0);
}

TEST_F(WatchedOpTest, CallsAreSkippedWhileNobodyWatches) {
  StopServing();
  ASSERT_EQ(ShowingOf(Thread(), kCpu), Showing::kSkip);
  {
    const SkippedOp skipped;
    EXPECT_TRUE(MayBeWritten(a_)) << "any memory";
    EXPECT_EQ(ShowingOf(Thread(), kCpu), Showing::kInside);
  }
  EXPECT_FALSE(MayBeWritten(a_));
  Serve(&session_);
  EXPECT_EQ(ShowingOf(Thread(), kCpu), Showing::kShow);
}

// Somebody who begins to watch while it is under way is told of it.
TEST_F(WatchedOpTest, SkippedCallsThatEndLateAreTold) {
  FallAsleep();
  for (const bool wakes_up : {false, true}) {
    TellOthers([](const engine::OpView&) {});
    ASSERT_EQ(ShowingOf(Thread(), kCpu), Showing::kSkip);
    {
      const SkippedOp skipped;
      if (wakes_up) WakeUp();
    }
    EXPECT_EQ(Told().unwatched, wakes_up ? 1 : 0);
  }
  EXPECT_EQ(ShowingOf(Thread(), kCpu), Showing::kShow);
}

TEST_F(WatchedOpTest, ASessionIsLockedWhileItsGuardLives) {
  {
    const LockedSession locked(session_);
    EXPECT_TRUE(session_.locked());
  }
  EXPECT_FALSE(session_.locked());
}

}  // namespace
}  // namespace reprise::bindings
