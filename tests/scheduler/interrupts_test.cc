// Proves which streams' traces end where memory is used without an op, and
// where the host waits.

#include "scheduler/interrupts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "tests/engine/base/manual_task_runner.h"
#include "tests/scheduler/model_session.h"

namespace reprise::scheduler {
namespace {

using ::testing::ElementsAre;

constexpr char kWait[] = "the test waits";
constexpr char kWaited[] = "the host has waited";

class InterruptsTest : public testing::Test {
 protected:
  static StreamKey Key(size_t stream) {
    return {DeviceKind::kHost, 0, reinterpret_cast<void*>(stream + 1)};
  }
  // That many streams, in each of which a trace is open.
  void Open(size_t streams) {
    for (size_t i = 0; i < streams; ++i) sessions_.FindOrMake(Key(i));
    for (const auto& model : models_) model->RunAnOp();
  }
  Session* session(size_t stream) { return &models_[stream]->session(); }
  // How often each stream's trace was ended for that reason.
  std::vector<uint64_t> Ended(const char* what) {
    std::vector<uint64_t> times;
    for (const auto& model : models_) {
      times.push_back(CutsFor(model->session(), what));
    }
    return times;
  }
  // The stream has work that no session was shown.
  void AddUnwatched() { unwatched_.Add(); }

  PlanCache plans_{size_t{1} << 20};
  base::ManualTaskRunner builds_;
  std::vector<std::unique_ptr<ModelSession>> models_;
  StreamWrites writes_;
  UnwatchedWork unwatched_{[] { return std::vector<int>{0}; }};
  SessionTable sessions_{&writes_,
                         [this](const StreamKey&, SessionTable::Place) {
                           StreamSession::Parts parts;
                           parts.opened = interrupts_.opened();
                           models_.push_back(std::make_unique<ModelSession>(
                               &plans_, &builds_, std::move(parts)));
                           return models_.back()->Take();
                         }};
  Interrupts interrupts_{
      {.sessions = &sessions_, .writes = &writes_, .unwatched = &unwatched_}};
};

TEST_F(InterruptsTest, AllEndsWhatWasOpenedSinceTheLastTime) {
  EXPECT_FALSE(interrupts_.may_have_opened());
  Open(2);
  EXPECT_TRUE(interrupts_.may_have_opened());
  interrupts_.All(kWait);
  EXPECT_THAT(Ended(kWait), ElementsAre(1, 1));
  EXPECT_FALSE(interrupts_.may_have_opened());
  models_[1]->RunAnOp();
  EXPECT_TRUE(interrupts_.may_have_opened());
}

TEST_F(InterruptsTest, OthersSparesTheOne) {
  Open(3);
  interrupts_.Others(session(1), kWait);
  EXPECT_THAT(Ended(kWait), ElementsAre(1, 0, 1));
}

TEST_F(InterruptsTest, AWaitForAStreamEndsItsTraceAlone) {
  Open(2);
  HostWait wait;
  interrupts_.BeforeWait(Key(1), kWait, wait);
  EXPECT_THAT(Ended(kWait), ElementsAre(0, 1));
  interrupts_.AfterWait(wait);
  EXPECT_THAT(Ended(kWaited), ElementsAre(0, 0));
}

TEST_F(InterruptsTest, OnceWritesAreUnseenAWaitEndsAllBeforeAndBehindIt) {
  Open(2);
  EXPECT_FALSE(interrupts_.unseen());
  interrupts_.NoteUnseen();
  EXPECT_TRUE(interrupts_.unseen());
  EXPECT_TRUE(interrupts_.tells_of_waits());
  HostWait wait;
  interrupts_.BeforeWait(Key(1), kWait, wait);
  EXPECT_THAT(Ended(kWait), ElementsAre(1, 1));
  Open(2);
  interrupts_.AfterWait(wait);
  EXPECT_THAT(Ended(kWaited), ElementsAre(1, 1));
  Open(2);
  interrupts_.BeforeWaitForEvent(this, wait);
  EXPECT_THAT(Ended("the host waits for an event"), ElementsAre(1, 1));
}

// Its own session knows of such an op.
TEST_F(InterruptsTest, UnknownWritesCountOnceThereAreSeveralStreams) {
  Open(1);
  interrupts_.NoteUnknownWrites();
  EXPECT_FALSE(interrupts_.unseen());
  Open(2);
  EXPECT_TRUE(interrupts_.unseen());
}

TEST_F(InterruptsTest, UnknownWritesEndTheOthersTracesAndTheirOwnIfItIsBehind) {
  constexpr char kWhat[] = "an op may write any memory";
  Open(2);
  interrupts_.BeforeUnknownWrites(session(0), nullptr);
  EXPECT_THAT(Ended(kWhat), ElementsAre(0, 1));
  Open(2);
  const uint64_t words = 0;
  interrupts_.BeforeUnknownWrites(session(0), &words);
  EXPECT_THAT(Ended(kWhat), ElementsAre(1, 2));
  Open(2);
  interrupts_.BeforeUnknownWrites(nullptr, nullptr);
  EXPECT_THAT(Ended(kWhat), ElementsAre(2, 3));
}

TEST_F(InterruptsTest, UnwatchedWorkEndsAllUntilItsStreamWasWaitedFor) {
  Open(2);
  EXPECT_TRUE(interrupts_.tells_of_waits());  // there are several
  AddUnwatched();
  HostWait wait;
  interrupts_.BeforeWait(Key(0), kWait, wait);
  EXPECT_TRUE(wait.unwatched);
  EXPECT_THAT(Ended(kWait), ElementsAre(1, 1));
  interrupts_.AfterWait(wait);
  Open(2);
  wait = {};
  interrupts_.BeforeWait(Key(0), kWait, wait);
  EXPECT_FALSE(wait.unwatched);
  EXPECT_THAT(Ended(kWait), ElementsAre(2, 1));
  interrupts_.AfterWait(wait);
  wait = {};
  interrupts_.NoteWait(Key(1), wait);
  EXPECT_TRUE(wait.unwatched);
}

TEST_F(InterruptsTest, AWaitForTheDeviceLeavesNothingUnwatched) {
  Open(1);
  EXPECT_FALSE(interrupts_.tells_of_waits());
  AddUnwatched();
  EXPECT_TRUE(interrupts_.tells_of_waits());
  HostWait wait;
  interrupts_.NoteWaitForDevice(0, wait);
  interrupts_.AfterWait(wait);
  EXPECT_FALSE(unwatched_.any());
  EXPECT_FALSE(interrupts_.tells_of_waits());
}

TEST_F(InterruptsTest, UnwatchedWorkThatCameDuringTheWaitCounts) {
  Open(2);
  HostWait wait;
  interrupts_.NoteWait(Key(0), wait);
  EXPECT_FALSE(wait.unwatched);
  AddUnwatched();
  interrupts_.AfterWait(wait);
  EXPECT_THAT(Ended(kWaited), ElementsAre(1, 1));
  EXPECT_TRUE(unwatched_.MayBeOn(Key(0)));
}

// What was waited for is another runtime's stream, perhaps of the same number.
TEST_F(InterruptsTest, WhatAnotherRuntimeNotedTellsNothing) {
  Interrupts other(
      {.sessions = &sessions_, .writes = &writes_, .unwatched = &unwatched_});
  Open(2);
  AddUnwatched();
  HostWait wait;
  other.NoteWait(Key(0), wait);
  interrupts_.AfterWait(wait);
  EXPECT_THAT(Ended(kWaited), ElementsAre(1, 1));
  EXPECT_TRUE(unwatched_.MayBeOn(Key(0)));
}

TEST_F(InterruptsTest, AnOpThatMayWaitEndsTheOthersIfWorkIsUnwatched) {
  constexpr char kWhat[] = "the host waits for another stream";
  engine::OpView op;
  HostWait wait;
  Open(1);
  AddUnwatched();
  interrupts_.BeforeOp(session(0), op, /*may_wait=*/true, wait);
  EXPECT_EQ(wait.noted_by, nullptr);  // there is nobody else
  Open(2);
  interrupts_.BeforeOp(session(0), op, /*may_wait=*/false, wait);
  EXPECT_THAT(Ended(kWhat), ElementsAre(0, 0));
  interrupts_.BeforeOp(session(0), op, /*may_wait=*/true, wait);
  EXPECT_THAT(Ended(kWhat), ElementsAre(0, 1));
  EXPECT_EQ(wait.what, HostWait::For::kOp);
  EXPECT_TRUE(wait.unwatched);
}

}  // namespace
}  // namespace reprise::scheduler
