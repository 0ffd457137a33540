// Proves when a trace may be recorded, and what that is charged.

#include "scheduler/learning.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "tests/engine/base/manual_clock.h"
#include "tests/engine/fake_frontend.h"

namespace reprise::scheduler {
namespace {

using Recording = engine::WorkRecorder::Recording;
using State = TraceEntry::State;
using std::chrono::milliseconds;
using std::chrono::seconds;

// Hears nothing; can be told to refuse.
class FakeWork final : public engine::WorkRecorder {
 public:
  base::Status StartRecording(Recording, uint64_t) override {
    if (refuses) return base::Fail(base::Code::kUnavailable, "told to refuse");
    ++open;
    return {};
  }
  void StopRecording() override { --open; }
  base::Status BeginOp(const engine::OpView&) override { return {}; }
  std::string EndOp(engine::TracedOp&) override { return {}; }
  bool wants_call() const override { return false; }
  bool Capturing() const override { return false; }

  bool refuses = false;
  int open = 0;
};

class LearningTest : public testing::Test {
 protected:
  static constexpr uint32_t kOps = 8;

  LearningTest() {
    clock_.Advance(seconds(100));
    Restart(base::Policy::kMeasured);
  }

  void Restart(base::Policy policy) {
    learning_.emplace(Learning::Parts{.frontend = &frontend_,
                                      .work = &work_,
                                      .journal = &journal_,
                                      .clock = &clock_,
                                      .timer = &timer_,
                                      .policy = policy,
                                      .forbidden = &forbidden_,
                                      .track = {}});
    entry_ = std::make_unique<TraceEntry>(Identity{Externals(&frontend_)});
    entry_->state = State::kRecord;
    entry_->signature = {.lo = 1};
    entry_->ops = kOps;
    entry_->seen = 8;
  }
  // Its passes take so long by eager.
  void Usually(milliseconds time) {
    entry_->times.Watched(clock_.Now(), clock_.Now() + time);
  }
  // Whether its recording began. It takes so long until the last of those ops.
  bool Record(milliseconds time = {}, uint32_t ops = kOps) {
    learning_->StartRecording(entry_.get(), Recording::kFirst);
    const bool began = learning_->recording();
    clock_.Advance(time);
    for (uint32_t i = 0; i < ops; ++i) learning_->OpEnded();
    return began;
  }
  bool MayRecord() { return learning_->MayRecord(*entry_); }

  engine::FakeFrontend frontend_;
  FakeWork work_;
  Journal journal_;
  base::ManualClock clock_;
  PassTimer timer_;
  std::atomic<bool> forbidden_{false};
  std::optional<Learning> learning_;
  std::unique_ptr<TraceEntry> entry_;
};

TEST_F(LearningTest, RecordsForTheEntryThatWaitsForIt) {
  EXPECT_TRUE(Record());
  EXPECT_NE(learning_->recorder(), nullptr);
  EXPECT_TRUE(learning_->IsFor(*entry_));
  entry_->state = State::kConfirm;
  EXPECT_FALSE(learning_->IsFor(*entry_));
  EXPECT_EQ(work_.open, 1);
  learning_->Stop();
  EXPECT_EQ(learning_->recorder(), nullptr);
  EXPECT_EQ(work_.open, 0);
}

TEST_F(LearningTest, NothingIsLearnedWhileItIsForbidden) {
  forbidden_ = true;
  EXPECT_FALSE(MayRecord());
  EXPECT_FALSE(learning_->MayValidate(*entry_));
  EXPECT_FALSE(Record());
  forbidden_ = false;
  EXPECT_TRUE(Record());
}

TEST_F(LearningTest, WhatCannotBeginIsNoted) {
  work_.refuses = true;
  EXPECT_FALSE(Record());
  EXPECT_EQ(journal_.notes.count("nothing is recorded: told to refuse"), 1u);
  work_.refuses = false;
  EXPECT_TRUE(Record());
}

TEST_F(LearningTest, NothingIsRecordedForAWhileWhereNothingWillHelp) {
  ASSERT_TRUE(Record());
  learning_->PauseRecording("nobody is heard");
  EXPECT_EQ(journal_.notes.count("nothing is recorded: nobody is heard"), 1u);
  EXPECT_FALSE(Record());
  clock_.Advance(milliseconds(99));
  EXPECT_FALSE(Record());
  clock_.Advance(milliseconds(1));
  EXPECT_TRUE(Record());
}

TEST_F(LearningTest, IsChargedWhatItTakesBeyondTheUsualTime) {
  Usually(milliseconds(2));
  ASSERT_TRUE(Record(milliseconds(5)));
  clock_.Advance(seconds(1));  // the program is away
  learning_->Stop();
  EXPECT_EQ(journal_.stats.recording_us, 3000u);
  // Of half of its ops the usual time is half.
  ASSERT_TRUE(Record(milliseconds(5), kOps / 2));
  learning_->Stop();
  EXPECT_EQ(journal_.stats.recording_us, 7000u);
  learning_->StartValidating(*entry_);
  clock_.Advance(milliseconds(6));
  for (uint32_t i = 0; i < kOps; ++i) learning_->OpEnded();
  learning_->Stop();
  EXPECT_EQ(journal_.stats.validating_us, 4000u);
}

TEST_F(LearningTest, WaitsWhereItHasCostTooMuchUntilReplaysHaveSaved) {
  ASSERT_TRUE(Record(milliseconds(20)));
  learning_->Stop();
  EXPECT_FALSE(MayRecord());
  EXPECT_FALSE(Record());
  learning_->Earn(seconds(1));
  EXPECT_TRUE(MayRecord());
}

TEST_F(LearningTest, CostsAreNotBoundedWhereItAlwaysReplays) {
  Restart(base::Policy::kAlways);
  EXPECT_FALSE(learning_->bounded());
  ASSERT_TRUE(Record(seconds(20)));
  learning_->Stop();
  EXPECT_TRUE(MayRecord());
  entry_->seen = 1;
  EXPECT_TRUE(learning_->IsWorthIt(*entry_));
}

TEST_F(LearningTest, ATraceIsWorthItOnceSoManyOpsOfItWereSeen) {
  entry_->seen = 3;
  EXPECT_FALSE(learning_->IsWorthIt(*entry_));
  entry_->seen = 4;
  EXPECT_TRUE(learning_->IsWorthIt(*entry_));
}

// There is time for that alone because its passes have been counted.
TEST_F(LearningTest, PassesThatAPlanMaySaveGiveTime) {
  for (const bool counted : {false, true}) {
    Restart(base::Policy::kMeasured);
    Usually(milliseconds(6));
    ASSERT_TRUE(Record(milliseconds(60)));
    learning_->Stop();
    for (int pass = 0; pass < 250; ++pass) {
      clock_.Advance(milliseconds(6));
      if (counted) learning_->Passed(*entry_);
    }
    EXPECT_EQ(MayRecord(), counted);
  }
}

TEST_F(LearningTest, WhatWasRecordedForAnotherTraceRests) {
  ASSERT_TRUE(Record());
  learning_->Miss(entry_.get());
  EXPECT_FALSE(learning_->recording());
  EXPECT_TRUE(entry_->being_recorded.failed());
  EXPECT_FALSE(Record());
  EXPECT_TRUE(Record());
}

TEST_F(LearningTest, ARecordingThatEndsWithThePromisedTraceHasSucceeded) {
  TraceEntry other(Identity{Externals(&frontend_)});
  other.signature = {.lo = 2};
  other.ops = kOps;
  ASSERT_TRUE(Record());
  learning_->StopRecording(other, entry_.get(), /*kept=*/false);
  EXPECT_TRUE(entry_->being_recorded.failed());
  EXPECT_FALSE(Record());
  ASSERT_TRUE(Record());
  learning_->StopRecording(*entry_, entry_.get(), /*kept=*/true);
  EXPECT_FALSE(learning_->recording());
  EXPECT_FALSE(entry_->being_recorded.failed());
}

TEST_F(LearningTest, WatchedPassesTellTheUsualTime) {
  learning_->StartWatching();
  for (uint32_t op = 1; op <= kOps; ++op) {
    clock_.Advance(milliseconds(1));
    learning_->Watch(op);
  }
  clock_.Advance(seconds(1));  // until it is known that it has ended
  learning_->StopWatching(entry_.get());
  EXPECT_EQ(entry_->times.usual(), milliseconds(8));
}

}  // namespace
}  // namespace reprise::scheduler
