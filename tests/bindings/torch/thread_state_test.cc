// What a thread keeps between its ops, and what it notes in the book of ops.

#include "bindings/torch/runtime/thread_state.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "tests/bindings/torch/fake_session.h"
#include "tests/bindings/torch/scripted_session.h"

namespace reprise::bindings {
namespace {

using scheduler::DeviceKind;

ThreadState& Thread() { return t_thread_state; }

bool NothingIsUnderWay() { return BookOfOps().EmptyFor(DeviceKind::kHost); }

// Addresses that some op under way may write.
constexpr char kSomeSession = 0;
bool MayWrite(uint64_t begin, uint64_t end,
              const void* session = &kSomeSession) {
  return BookOfOps().MayWrite({.session = session}, [=](auto overlaps) {
    return overlaps(begin, end);
  });
}

engine::Operand Written(uint64_t base, uint64_t bytes) {
  engine::Operand operand;
  operand.base = base;
  operand.storage_bytes = bytes;
  operand.written = true;
  return operand;
}

class ThreadStateTest : public ::testing::Test {
 protected:
  ThreadStateTest() {
    Serve(&session_);
    Thread().Refresh();
  }
  ~ThreadStateTest() override {
    StopServing();
    EXPECT_TRUE(NothingIsUnderWay());
  }

  ScriptedSession session_;
};

TEST_F(ThreadStateTest, FindsOutWhetherAnybodyWatches) {
  EXPECT_TRUE(Thread().IsCurrent());
  EXPECT_TRUE(Thread().Refresh());
  StopServing();
  EXPECT_FALSE(Thread().IsCurrent());
  EXPECT_FALSE(Thread().Refresh());
  EXPECT_TRUE(Thread().IsCurrent());
  Serve(&session_, DeviceKind::kCuda);
  EXPECT_TRUE(Thread().Refresh());
  EXPECT_EQ(Thread().kind, DeviceKind::kCuda);
}

TEST_F(ThreadStateTest, KeepsItsSessionUntilAnotherRuntimeIsActive) {
  EXPECT_EQ(Thread().FindSession(0), &session_);
  ScriptedSession other;
  Serve(&other);
  EXPECT_EQ(Thread().FindSession(0), &session_) << "of what it has read";
  ASSERT_TRUE(Thread().Refresh());
  EXPECT_EQ(Thread().FindSession(0), &other);
  DisableMeanwhile();
  ASSERT_TRUE(Thread().Refresh());
  EXPECT_EQ(Thread().FindSession(0), nullptr);
  Serve(&session_);
}

TEST_F(ThreadStateTest, TellsOfOpsThatWereNotShownInTheLump) {
  static constexpr uint64_t kLump = scheduler::Runtime::kOpsPassedOver;
  FallAsleep();
  std::thread([] {
    for (uint64_t i = 0; i + 1 < kLump; ++i) Thread().SkipOp();
    EXPECT_EQ(PassedOver(), 0u);
    Thread().SkipOp();
    EXPECT_EQ(PassedOver(), kLump);
    for (uint64_t i = 0; i < kLump; ++i) Thread().SkipOp();
    EXPECT_EQ(PassedOver(), 2 * kLump);
  }).join();
  WakeUp();
}

TEST_F(ThreadStateTest, InterruptsTheSessionOfTheHost) {
  Thread().Interrupt(0, "a test");
  EXPECT_EQ(session_.calls, std::vector<std::string>{"interrupt"});
}

TEST_F(ThreadStateTest, HooksPassOnWhileADepthGuardLives) {
  {
    const DepthGuard depth;
    at::ones({2});
  }
  EXPECT_TRUE(session_.calls.empty());
  at::ones({2});
  EXPECT_FALSE(session_.calls.empty());
}

TEST_F(ThreadStateTest, ASpanIsInTheBookToItsEnd) {
  const engine::Operand operand = Written(1000, 100);
  SpanUnderWay span;
  span.Begin({&operand, 1}, &session_);
  EXPECT_TRUE(Thread().under_way());
  EXPECT_TRUE(MayWrite(1050, 1051));
  EXPECT_FALSE(MayWrite(2000, 2001));
  EXPECT_FALSE(MayWrite(1050, 1051, &session_)) << "it has not answered yet";
  span.End();
  EXPECT_FALSE(Thread().under_way());
  EXPECT_FALSE(MayWrite(1050, 1051));
  span.End();  // once more does nothing
  {
    SpanUnderWay another;
    another.Begin({&operand, 1}, nullptr);
    EXPECT_TRUE(MayWrite(1050, 1051, &session_));
  }
  EXPECT_FALSE(MayWrite(1050, 1051)) << "with its life";
}

TEST_F(ThreadStateTest, WithinASpanAnotherOneDoesNothing) {
  const engine::Operand operand = Written(1000, 100);
  SpanUnderWay outer;
  outer.Begin({&operand, 1}, nullptr);
  {
    const AnythingUnderWay inner;
    EXPECT_FALSE(MayWrite(2000, 2001));
  }
  EXPECT_TRUE(MayWrite(1050, 1051)) << "the outer one stays";
}

TEST_F(ThreadStateTest, AnythingIsAnyMemoryForAllSessions) {
  const AnythingUnderWay anything;
  EXPECT_TRUE(MayWrite(2000, 2001));
  EXPECT_TRUE(MayWrite(2000, 2001, &session_));
}

// No session of the runtime that is active by then knows what was enqueued.
TEST_F(ThreadStateTest, ASpanThatEndsBehindASwitchIsTold) {
  for (const bool switched : {false, true}) {
    TellOthers([](const engine::OpView&) {});
    {
      const AnythingUnderWay anything;
      if (switched) Serve(&session_);
    }
    EXPECT_EQ(Told().unwatched, switched ? 1 : 0);
  }
  // Nobody watches: nobody need know.
  TellOthers([](const engine::OpView&) {});
  {
    const AnythingUnderWay anything;
    StopServing();
  }
  EXPECT_EQ(Told().unwatched, 0);
  Serve(&session_);
}

TEST_F(ThreadStateTest, SlotsOfThreadsThatHaveEndedAreUsedAgain) {
  const auto slot_of_a_thread = [] {
    const void* slot = nullptr;
    std::thread([&slot] { slot = &Thread().Slot(); }).join();
    return slot;
  };
  const void* const own = &Thread().Slot();
  const void* const first = slot_of_a_thread();
  EXPECT_NE(first, own);
  EXPECT_EQ(slot_of_a_thread(), first);
}

// Destructors of a thread's own objects run ops, too.
TEST_F(ThreadStateTest, AThreadThatEndsNotesItsOps) {
  static bool noted = false;
  struct AtTheEnd {
    ~AtTheEnd() {
      const AnythingUnderWay anything;
      noted = MayWrite(2000, 2001);
    }
  };
  std::thread([] {
    thread_local AtTheEnd end;
    (void)end;
    const AnythingUnderWay anything;  // its slot is given back before `end`
  }).join();
  EXPECT_TRUE(noted);
  EXPECT_TRUE(NothingIsUnderWay());
}

}  // namespace
}  // namespace reprise::bindings
