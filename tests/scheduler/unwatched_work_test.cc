// Work that no session was shown may run while a replay has read ahead what it
// writes: the program finds that out where its host waits, and gets eager's
// results all the same.

#include "scheduler/unwatched_work.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "scheduler/interrupts.h"
#include "scheduler/ops_under_way.h"
#include "scheduler/runtime.h"
#include "tests/sim/model_frontend.h"

namespace reprise::scheduler {
namespace {

using sim::ModelFrontend;
using sim::ModelProgram;
using sim::ModelTensor;

constexpr char kForeign[] = "memory is used by an op that is not watched";

const StreamKey kMain{};
const StreamKey kAside{.stream = reinterpret_cast<void*>(8)};
const StreamKey kThird{.stream = reinterpret_cast<void*>(16)};

TEST(UnwatchedWorkTest, IsLeftUntilTheHostHasWaitedForItsStream) {
  UnwatchedWork work([] { return std::vector{0}; });
  EXPECT_FALSE(work.any());
  EXPECT_FALSE(work.MayBeOn(kMain));
  work.Add();
  EXPECT_TRUE(work.any());
  EXPECT_TRUE(work.MayBeOn(kMain));
  work.HasWaitedFor(kMain, work.Now());
  EXPECT_FALSE(work.MayBeOn(kMain));
  EXPECT_TRUE(work.MayBeOn(kAside));
  EXPECT_TRUE(work.any());
  work.Add();
  EXPECT_TRUE(work.MayBeOn(kMain));
}

TEST(UnwatchedWorkTest, AWaitIsNotForWhatCameDuringIt) {
  UnwatchedWork work([] { return std::vector{0}; });
  work.Add();
  const UnwatchedWork::Time began = work.Now();
  work.Add();
  work.HasWaitedFor(kMain, began);
  EXPECT_TRUE(work.MayBeOn(kMain));
  work.HasWaitedForDevice(0, began);
  EXPECT_TRUE(work.any());
}

TEST(UnwatchedWorkTest, EndsWithAWaitForEveryDevice) {
  UnwatchedWork work([] { return std::vector{0, 1}; });
  work.Add();
  work.HasWaitedForDevice(0, work.Now());
  EXPECT_FALSE(work.MayBeOn(kAside));
  EXPECT_TRUE(work.MayBeOn({.device = 1}));
  EXPECT_TRUE(work.any());
  work.HasWaitedForDevice(1, work.Now());
  EXPECT_FALSE(work.any());
  EXPECT_FALSE(work.MayBeOn({.device = 1}));
  work.Add();
  EXPECT_TRUE(work.any());
  EXPECT_TRUE(work.MayBeOn(kAside));
}

TEST(UnwatchedWorkTest, AStreamThatWaitsForAnEventMayBeBehindSuchWorkAgain) {
  UnwatchedWork work([] { return std::vector{0}; });
  const int unknown = 0;
  work.Add();
  work.HasWaitedFor(kMain, work.Now());
  work.HasWaitedFor(kThird, work.Now());
  work.WaitsFor(&unknown, kMain);
  EXPECT_TRUE(work.MayBeOn(kMain));
  EXPECT_FALSE(work.MayBeOn(kThird));
  // The host's wait was under way.
  const UnwatchedWork::Time began = work.Now();
  work.WaitsFor(&unknown, kMain);
  work.HasWaitedFor(kMain, began);
  EXPECT_TRUE(work.MayBeOn(kMain));
  work.HasWaitedFor(kMain, work.Now());
  EXPECT_FALSE(work.MayBeOn(kMain));
}

TEST(UnwatchedWorkTest, AnEventIsAsItsStream) {
  UnwatchedWork work([] { return std::vector{0}; });
  const int event = 0;
  work.Records(&event, kAside);  // nobody keeps it: there is no such work
  work.Add();
  EXPECT_TRUE(work.MayBeBehind(&event));
  work.Records(&event, kAside);
  EXPECT_TRUE(work.MayBeBehind(&event));
  work.HasWaitedFor(kAside, work.Now());
  EXPECT_FALSE(work.MayBeBehind(&event));
  work.HasWaitedFor(kMain, work.Now());
  work.WaitsFor(&event, kMain);
  EXPECT_FALSE(work.MayBeOn(kMain));
  work.Forget(&event);
  EXPECT_TRUE(work.MayBeBehind(&event));
  work.Records(&event, kAside);
  work.Add();
  EXPECT_TRUE(work.MayBeBehind(&event));
}

// A stream that copies, and one that computes behind its events: the host waits
// for the second alone.
TEST(UnwatchedWorkTest, AWaitIsForTheEventsThatTheStreamHasWaitedFor) {
  UnwatchedWork work([] { return std::vector{0}; });
  const int event = 0;
  work.Add();
  work.Records(&event, kAside);
  work.WaitsFor(&event, kMain);
  EXPECT_TRUE(work.MayBeOn(kMain));
  work.HasWaitedFor(kMain, work.Now());
  EXPECT_FALSE(work.MayBeOn(kMain));
  EXPECT_FALSE(work.MayBeOn(kAside));
  work.Records(&event, kAside);
  work.WaitsFor(&event, kMain);
  EXPECT_FALSE(work.MayBeOn(kMain));
}

// The copying stream has waited for a third one since.
TEST(UnwatchedWorkTest, AWaitIsForNothingBehindAnEvent) {
  UnwatchedWork work([] { return std::vector{0}; });
  const int event = 0;
  const int unknown = 0;
  work.Add();
  work.Records(&event, kAside);
  work.WaitsFor(&event, kMain);
  work.WaitsFor(&unknown, kAside);
  work.HasWaitedFor(kMain, work.Now());
  EXPECT_FALSE(work.MayBeOn(kMain));
  EXPECT_TRUE(work.MayBeOn(kAside));
}

// The order that says so is the oldest of more than are remembered.
TEST(UnwatchedWorkTest, AWaitIsForNothingBehindAnEventThatIsLongAgo) {
  UnwatchedWork work([] { return std::vector{0}; });
  const int event = 0;
  const int unknown = 0;
  work.Add();
  work.Records(&event, kAside);
  work.WaitsFor(&unknown, kAside);
  for (int i = 0; i < 1000; ++i) work.WaitsFor(&unknown, kThird);
  work.WaitsFor(&event, kMain);
  work.HasWaitedFor(kMain, work.Now());
  EXPECT_FALSE(work.MayBeOn(kMain));
  EXPECT_TRUE(work.MayBeOn(kAside));
}

TEST(UnwatchedWorkTest, ForgetsStreamsRatherThanGrow) {
  UnwatchedWork work([] { return std::vector{0}; });
  work.Add();
  for (uintptr_t i = 1; i <= 1000; ++i) {
    const StreamKey stream{.stream = reinterpret_cast<void*>(i)};
    EXPECT_TRUE(work.MayBeOn(stream));
    work.HasWaitedFor(stream, work.Now());
    EXPECT_FALSE(work.MayBeOn(stream));
  }
}

// A runtime whose session of the main stream replays
//   h = a * 2; <what happens in between>; z = h + x
class UnwatchedReplayTest : public testing::Test {
 protected:
  struct Made {
    std::unique_ptr<Runtime> runtime;
    std::vector<ModelFrontend*> frontends;
  };

  void MakeRuntime(Made& made) {
    auto runtime = Runtime::Create(
        {DeviceKind::kHost}, base::Options{},
        [&made](const StreamKey&) -> std::unique_ptr<engine::Frontend> {
          auto frontend = std::make_unique<ModelFrontend>();
          made.frontends.push_back(frontend.get());
          return frontend;
        },
        nullptr, &book_);
    ASSERT_TRUE(runtime.has_value());
    made.runtime = std::move(*runtime);
  }

  void SetUp() override {
    MakeRuntime(made_);
    Session* const session = runtime().SessionFor(kMain);
    program_.emplace(made_.frontends.front(), session);
    a_ = program_->Make(1);
    x_ = program_->Make(2);
    for (int i = 0; i < 20; ++i) {
      (void)Pass([] {});
      program_->Read(a_);
      ASSERT_TRUE(runtime().Wait(std::nullopt));
    }
    ASSERT_GT(runtime().stats().replays, 3u) << runtime().ExplainJson();
    before_ = runtime().stats();
  }

  Runtime& runtime() { return *made_.runtime; }
  Interrupts& interrupts() { return runtime().interrupts(); }

  template <typename Between>
  std::vector<float> Pass(Between between) {
    ModelTensor h = program_->Scale(a_, 2);
    between();
    return program_->Add(h, x_).values();
  }
  std::vector<float> Expected() const {
    std::vector<float> sum = a_.values();
    for (size_t i = 0; i < sum.size(); ++i)
      sum[i] = 2 * sum[i] + x_.values()[i];
    return sum;
  }
  // The replay is under way, and has read x ahead.
  void ExpectReplayed() {
    ASSERT_EQ(runtime().stats().replays, before_.replays + 1);
  }
  // Work of which no session knows runs now.
  void WriteX() {
    for (size_t i = 0; i < x_.storage()->elements(); ++i) {
      x_.storage()->data()[i] += 100;
    }
  }
  // Of a pass during whose replay such work runs, and then `wait`.
  template <typename Wait>
  void ExpectEagers(Wait wait) {
    const std::vector<float> z = Pass([&] {
      ExpectReplayed();
      WriteX();
      wait();
    });
    EXPECT_EQ(z, Expected());
  }
  void WaitFor(const StreamKey& stream) {
    HostWait wait;
    interrupts().BeforeWait(stream, "the host waits", wait);
    if (interrupts().tells_of_waits()) interrupts().AfterWait(wait);
  }
  // Of a whole pass: 2, and 1 if it was interrupted in between.
  template <typename Between>
  uint64_t FollowedOf(Between between) {
    const uint64_t before = runtime().stats().followed;
    (void)Pass(between);
    program_->Read(a_);
    return runtime().stats().followed - before;
  }
  // The pass behind an interrupt may not be expected.
  void PassUntilFollowed() {
    for (int i = 0; i < 20; ++i) {
      if (FollowedOf([] {}) == 2) return;
      ASSERT_TRUE(runtime().Wait(std::nullopt));
    }
    FAIL() << runtime().ExplainJson();
  }

  void WaitForEvent() {
    HostWait wait;
    interrupts().BeforeWaitForEvent(&event_, wait);
    if (interrupts().tells_of_waits()) interrupts().AfterWait(wait);
  }
  // Of 50 passes, those that were followed to the end.
  template <typename Between>
  int WholePasses(Between between) {
    int whole = 0;
    for (int i = 0; i < 50; ++i) {
      whole += FollowedOf(between) == 2 ? 1 : 0;
      EXPECT_TRUE(runtime().Wait(std::nullopt));
    }
    return whole;
  }

  OpsUnderWay book_;
  Made made_;
  int event_ = 0;
  std::optional<ModelProgram> program_;
  ModelTensor a_, x_;
  Stats before_;
};

TEST_F(UnwatchedReplayTest, AForeignOpOnAStreamWithoutASession) {
  const std::vector<float> z = Pass([&] {
    ExpectReplayed();
    runtime().MemoryIsUsedOn(kAside, kForeign);
    WriteX();
    WaitFor(kAside);
  });
  EXPECT_EQ(z, Expected());
}

TEST_F(UnwatchedReplayTest, WorkEnqueuedWhileNobodyWatched) {
  runtime().Pause();
  runtime().Resume();
  ExpectEagers([&] { WaitFor(kAside); });
}

TEST_F(UnwatchedReplayTest, WorkEnqueuedWhileNobodyWatchedOnAKnownStream) {
  (void)runtime().SessionFor(kAside);
  runtime().Pause();
  runtime().Resume();
  ExpectEagers([&] { WaitFor(kAside); });
}

TEST_F(UnwatchedReplayTest, WorkBehindAnEvent) {
  runtime().unwatched().Add();
  ExpectEagers([&] { WaitForEvent(); });
}

// The host waits for a stream that waits for the one with the work.
TEST_F(UnwatchedReplayTest, WorkBehindAStreamThatWaitsForAnEvent) {
  (void)runtime().SessionFor(kThird);
  runtime().unwatched().Add();
  WaitFor(kThird);
  const std::vector<float> z = Pass([&] {
    ExpectReplayed();
    runtime().unwatched().WaitsFor(&event_, kThird);
    WriteX();
    WaitFor(kThird);
  });
  EXPECT_EQ(z, Expected());
}

// The host waits inside of an op of another stream (.item()).
TEST_F(UnwatchedReplayTest, AnOpThatMayWait) {
  Session* const aside = runtime().SessionFor(kAside);
  runtime().unwatched().Add();
  const uint64_t words[] = {1, 2};
  engine::OpView op;
  op.words = words;
  const std::vector<float> z = Pass([&] {
    ExpectReplayed();
    HostWait wait;
    interrupts().BeforeOp(aside, op, /*may_wait=*/true, wait);
    WriteX();
    interrupts().NoteWait(kAside, wait);
    interrupts().AfterWait(wait);
  });
  EXPECT_EQ(z, Expected());
}

// A pass that has begun during the wait is interrupted behind it.
TEST_F(UnwatchedReplayTest, APassThatBeginsDuringTheWait) {
  runtime().unwatched().Add();
  HostWait wait;
  interrupts().BeforeWait(kAside, "the host waits", wait);
  ExpectEagers([&] { interrupts().AfterWait(wait); });
}

// Once the host has waited for a stream, waits for it end no pass of others.
TEST_F(UnwatchedReplayTest, EndsPassesOfOthersOnce) {
  (void)runtime().SessionFor(kAside);
  runtime().unwatched().Add();
  EXPECT_EQ(FollowedOf([&] { WaitFor(kAside); }), 1u);
  PassUntilFollowed();
  EXPECT_EQ(FollowedOf([&] { WaitFor(kAside); }), 2u);
  EXPECT_EQ(FollowedOf([&] { WaitFor(kThird); }), 1u);
  PassUntilFollowed();
  HostWait wait;
  interrupts().NoteWaitForDevice(0, wait);
  interrupts().AfterWait(wait);
  HostWait event;
  interrupts().NoteWaitForEvent(&event_, event);
  EXPECT_FALSE(event.unwatched);
  PassUntilFollowed();
  const StreamKey fourth{.stream = reinterpret_cast<void*>(24)};
  EXPECT_EQ(FollowedOf([&] { WaitFor(fourth); }), 2u);
}

TEST_F(UnwatchedReplayTest, WorkThatComesDuringAWait) {
  const auto check = [this](auto before) {
    HostWait wait;
    before(wait);
    runtime().unwatched().Add();  // another thread has woken the stream up
    before_ = runtime().stats();
    ExpectEagers([&] {
      if (interrupts().tells_of_waits()) interrupts().AfterWait(wait);
    });
    program_->Read(a_);
    PassUntilFollowed();
  };
  check(
      [&](HostWait& wait) { interrupts().BeforeWait(kAside, "waits", wait); });
  check(
      [&](HostWait& wait) { interrupts().BeforeWaitForEvent(&event_, wait); });
  check([&](HostWait& wait) { interrupts().NoteWaitForDevice(0, wait); });
}

// The wait was noted by the runtime that was active when it began.
TEST_F(UnwatchedReplayTest, AWaitOfAnotherRuntime) {
  Made other;
  MakeRuntime(other);
  other.runtime->unwatched().Add();
  HostWait wait;
  other.runtime->interrupts().NoteWait(kAside, wait);
  other.runtime->Pause();
  runtime().unwatched().Add();
  interrupts().AfterWait(wait);
  ExpectEagers([&] { WaitFor(kAside); });
}

// What does not concern such work any more ends no pass.
TEST_F(UnwatchedReplayTest, EventsOfStreamsThatWereWaitedForEndNoPass) {
  runtime().unwatched().Add();
  WaitFor(kAside);
  EXPECT_GT(WholePasses([&] {
              runtime().unwatched().Records(&event_, kAside);
              WaitForEvent();
            }),
            40);
}

TEST_F(UnwatchedReplayTest, StreamsThatHandOverByEventsEndNoPass) {
  (void)runtime().SessionFor(kAside);
  runtime().unwatched().Add();
  EXPECT_GT(WholePasses([&] {
              runtime().unwatched().Records(&event_, kThird);
              runtime().unwatched().WaitsFor(&event_, kAside);
              WaitFor(kAside);
            }),
            40);
}

TEST_F(UnwatchedReplayTest, OpsOfAStreamThatWasWaitedForEndNoPass) {
  Session* const aside = runtime().SessionFor(kAside);
  runtime().unwatched().Add();
  WaitFor(kAside);
  const uint64_t words[] = {1, 2};
  engine::OpView op;
  op.words = words;
  EXPECT_GT(WholePasses([&] {
              HostWait wait;
              interrupts().BeforeOp(aside, op, /*may_wait=*/true, wait);
              if (interrupts().tells_of_waits()) interrupts().AfterWait(wait);
            }),
            40);
}

// Two runtimes: another thread was on its way to the other one's session of the
// stream aside when this one became active.
TEST_F(UnwatchedReplayTest, AnOpOfAPausedSessionOfAnotherStream) {
  Made other;
  MakeRuntime(other);
  Session* const paused = other.runtime->SessionFor(kAside);
  other.runtime->Pause();
  OpsUnderWay::Slot* const slot = book_.Acquire();
  const std::vector<float> z = Pass([&] {
    ExpectReplayed();
    const uint64_t words[] = {1, 2};
    engine::OpView op;
    op.words = words;
    paused->Lock();
    ASSERT_EQ(paused->Enter(op), Action::kAway);
    paused->Unlock();
    slot->BeginAnything();
    runtime().MemoryIsUsedOn(kAside, kForeign);
    WriteX();
    slot->End();
    WaitFor(kAside);
  });
  EXPECT_EQ(z, Expected());
}

}  // namespace
}  // namespace reprise::scheduler
