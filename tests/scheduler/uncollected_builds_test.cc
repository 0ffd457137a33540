// Proves that builds which nobody comes for are charged, give way and go with
// their traces, whenever they end.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/scheduler/twin_programs.h"

namespace reprise::scheduler {
namespace {

using sim::ModelTensor;

class UncollectedBuildsTest : public TwinPrograms {
 protected:
  static Held Chain(Side& side, size_t elements) {
    sim::ModelProgram& p = *side.program;
    const ModelTensor x = p.Make(1, elements);
    const ModelTensor a = p.Scale(x, 2.0f);
    const ModelTensor b = p.Add(a, x);
    p.Negate(a);
    const ModelTensor c = p.Add(b, a);
    const ModelTensor d = p.Scale(c, 0.5f);
    p.Read(d);
    return {d};
  }
  // Seen, recorded, recorded again, and before that perhaps new (Novelty): a
  // build is queued.
  void Queue(size_t elements) {
    const size_t before = builds_.pending();
    for (int pass = 0; pass < 4 && builds_.pending() == before; ++pass) {
      Chain(watched_, elements);
    }
  }
  size_t charge() const { return plans_->stats().charge_bytes; }
};

TEST_F(UncollectedBuildsTest, AreChargedBeforeTheirHeadComes) {
  Queue(64);
  EXPECT_EQ(charge(), 0u);
  ASSERT_EQ(builds_.RunAll(), 1u);
  EXPECT_EQ(plans_->stats().entries, 1u);
  EXPECT_GT(charge(), 64u * sizeof(float));
  EXPECT_EQ(stats().builds, 0u);
  const size_t charged = charge();
  session_->Settle();
  EXPECT_EQ(stats().builds, 1u);
  EXPECT_EQ(charge(), charged);
}

TEST_F(UncollectedBuildsTest, GiveWayToEachOtherWithinTheBudget) {
  constexpr size_t kBudget = size_t{200} << 10;
  Restart(kBudget);
  for (size_t i = 0; i < 300; ++i) {
    Queue(5000 + i);
    builds_.RunAll();
    ASSERT_LE(charge(), kBudget);
    ASSERT_GE(plans_->stats().entries, 1u);
  }
  EXPECT_EQ(builds_run_, 300);
  EXPECT_EQ(stats().builds, 0u);
  EXPECT_EQ(plans_->stats().evictions + plans_->stats().entries, 300u);
}

TEST_F(UncollectedBuildsTest, EvictedTheTraceStartsOver) {
  Queue(64);
  builds_.RunAll();
  EXPECT_GT(session_->ReleasePlans(), 0u);
  EXPECT_EQ(charge(), 0u);
  for (int pass = 0; pass < 8; ++pass) {
    Both([&](Side& side) { return Chain(side, 64); });
  }
  EXPECT_EQ(builds_run_, 2);
  EXPECT_EQ(stats().recorded, 4u);
  EXPECT_GT(stats().replays, 0u) << Traces();
  EXPECT_EQ(stats().rejected, 0u);
}

TEST_F(UncollectedBuildsTest, EvictedTheyTakeTheRecordingsAlong) {
  Queue(64);
  builds_.RunAll();
  const auto has_recording = [this] {
    bool has = false;
    session_->Inspect([&has](const Journal&, const auto& entries, const auto&) {
      for (const TraceEntry* entry : entries) {
        has = has || entry->recording() != nullptr;
      }
    });
    return has;
  };
  EXPECT_TRUE(has_recording());
  const uint64_t with_recordings = stats().trace_bytes;
  session_->ReleasePlans();
  EXPECT_FALSE(has_recording());
  session_->Settle();
  EXPECT_LT(stats().trace_bytes, with_recordings / 2);
}

TEST_F(UncollectedBuildsTest, PushOutNoPlanThatIsFollowed) {
  static constexpr size_t kBudget = size_t{120} << 10;
  Restart(kBudget);
  for (int pass = 0; pass < 8; ++pass) {
    Both([&](Side& side) { return Chain(side, 64); });
  }
  ASSERT_GT(stats().replays, 0u);
  const Stats before = stats();
  on_build_ = [this] { EXPECT_LE(charge(), kBudget); };
  for (size_t i = 0; i < 50; ++i) {
    Queue(1000 + i);
    // The build ends in the middle of a pass.
    const ModelTensor x = watched_.program->Make(1, 64);
    const ModelTensor a = watched_.program->Scale(x, 2.0f);
    const ModelTensor b = watched_.program->Add(a, x);
    builds_.RunAll();
    watched_.program->Negate(a);
    const ModelTensor c = watched_.program->Add(b, a);
    watched_.program->Read(watched_.program->Scale(c, 0.5f));
  }
  EXPECT_EQ(stats().replays, before.replays + 50) << Traces();
  EXPECT_EQ(stats().squashes, 0u);
  EXPECT_GT(plans_->stats().evictions, 20u);
}

TEST_F(UncollectedBuildsTest, OfForgottenTracesAreNotRun) {
  constexpr size_t kTraceBudget = size_t{100} << 10;
  Restart(size_t{1} << 20, kTraceBudget);
  for (size_t i = 0; i < 200; ++i) Queue(100 + i);
  EXPECT_LE(stats().trace_bytes, kTraceBudget);
  EXPECT_EQ(builds_.pending(), 200u);
  builds_.RunAll();
  EXPECT_GT(builds_run_, 0);
  EXPECT_EQ(builds_run_ + static_cast<int>(stats().forgotten), 200);
  EXPECT_EQ(plans_->stats().entries, static_cast<size_t>(builds_run_));
}

TEST_F(UncollectedBuildsTest, GoWithTheirTraces) {
  Restart(size_t{64} << 20, size_t{100} << 10);
  for (size_t i = 0; i < 200; ++i) {
    Queue(100 + i);
    builds_.RunAll();
  }
  // Those whose entries have gone: nothing evicted them.
  EXPECT_EQ(plans_->stats().evictions, 0u);
  EXPECT_GT(stats().forgotten, 100u);
  EXPECT_EQ(plans_->stats().entries + stats().forgotten, 200u);
}

TEST_F(UncollectedBuildsTest, AreNotRunBehindAReset) {
  Queue(64);
  session_->Reset();
  builds_.RunAll();
  EXPECT_EQ(builds_run_, 0);
  EXPECT_EQ(plans_->stats().entries, 0u);
}

TEST_F(UncollectedBuildsTest, UnderWayAtAResetLeaveNothing) {
  Queue(64);
  on_build_ = [this] { session_->Reset(); };
  builds_.RunAll();
  EXPECT_EQ(builds_run_, 1);
  EXPECT_EQ(plans_->stats().entries, 0u);
  on_build_ = nullptr;
  for (int pass = 0; pass < 8; ++pass) {
    Both([&](Side& side) { return Chain(side, 64); });
  }
  EXPECT_GT(stats().replays, 0u) << Traces();
}

TEST_F(UncollectedBuildsTest, GoWithAReset) {
  Queue(64);
  builds_.RunAll();
  ASSERT_EQ(plans_->stats().entries, 1u);
  session_->Reset();
  EXPECT_EQ(plans_->stats().entries, 0u);
  EXPECT_EQ(charge(), 0u);
}

TEST_F(UncollectedBuildsTest, EndWithTheSession) {
  Queue(64);
  builds_.RunAll();
  Queue(65);
  session_.reset();
  EXPECT_EQ(plans_->stats().entries, 0u);
  builds_.RunAll();
  EXPECT_EQ(builds_run_, 1);
  EXPECT_EQ(plans_->stats().entries, 0u);
}

}  // namespace
}  // namespace reprise::scheduler
