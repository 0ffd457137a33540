// Proves that plans can be taken away at any moment, from any thread, and that
// the program neither sees it nor waits for it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "scheduler/renewal.h"
#include "scheduler/runtime.h"
#include "tests/scheduler/twin_programs.h"

namespace reprise::scheduler {
namespace {

using sim::ModelTensor;
using ::testing::Contains;
using ::testing::HasSubstr;

class ReleasePlansTest : public TwinPrograms {
 protected:
  // Six ops, and what of their values the program keeps.
  static Held Chain(Side& side, float seed) {
    const ModelTensor x = side.program->Make(seed);
    const ModelTensor h = side.program->Add(x, side.weights[0]);
    const ModelTensor scaled = side.program->Scale(h, 2.0f);
    side.program->Negate(h);
    const ModelTensor sum = side.program->Add(scaled, h);
    side.program->Mix(sum, x);
    const ModelTensor last = side.program->Add(sum, side.weights[1]);
    side.program->Read(last);
    return {scaled, last};
  }
  void Call(int calls) {
    for (int i = 0; i < calls; ++i) {
      Both([&](Side& side) {
        return Chain(side, 1.0f + static_cast<float>(i));
      });
    }
  }
  // Another trace, of two ops.
  void CallOther(int calls) {
    for (int i = 0; i < calls; ++i) {
      Both([](Side& side) {
        const ModelTensor x = side.program->Make(1.0f);
        const ModelTensor sum = side.program->Add(x, side.weights[2]);
        const ModelTensor scaled = side.program->Scale(sum, 2.0f);
        side.program->Read(scaled);
        return Held{scaled};
      });
    }
  }
  // Calls until a plan is replayed.
  void Warm() {
    Call(8);
    ASSERT_GT(stats().replays, 0u) << Traces();
    ASSERT_EQ(plans_->stats().entries, 1u);
  }
  uint64_t ReleaseElsewhere() {
    uint64_t bytes = 0;
    std::thread([&] { bytes = session_->ReleasePlans(); }).join();
    return bytes;
  }
};

TEST_F(ReleasePlansTest, BetweenPassesAllGoAndComeBack) {
  Warm();
  const size_t charged = plans_->stats().charge_bytes;
  EXPECT_EQ(ReleaseElsewhere(), charged);
  EXPECT_EQ(plans_->stats().entries, 0u);
  EXPECT_EQ(plans_->stats().charge_bytes, 0u);
  EXPECT_EQ(ReleaseElsewhere(), 0u);
  EXPECT_THAT(notes(), Contains(::testing::Pair(HasSubstr("ran short"), 1u)));
  const Stats before = stats();
  Call(8);
  EXPECT_EQ(stats().recorded, before.recorded + 2) << Traces();
  EXPECT_GT(stats().replays, before.replays) << Traces();
  EXPECT_EQ(stats().squashes, 0u);
  EXPECT_EQ(plans_->stats().charge_bytes, charged);
}

// Built, and then its trace never came again: it holds memory for nothing.
TEST_F(ReleasePlansTest, APlanThatWasNeverReplayedGoesWhereItsTraceStaysAway) {
  Restart(size_t{32} << 10);
  for (int i = 0; i < 8 && stats().validated == 0; ++i) Call(1);
  ASSERT_EQ(stats().validated, 1u) << Traces();
  ASSERT_EQ(stats().replays, 0u) << Traces();
  const size_t charged = plans_->stats().charge_bytes;
  ASSERT_GT(charged, 0u);
  CallOther(64);
  EXPECT_EQ(plans_->stats().entries, 2u) << Traces();
  EXPECT_GT(stats().replays, 0u) << Traces();
  CallOther(64 * 32);
  EXPECT_EQ(plans_->stats().entries, 1u) << Traces();
  EXPECT_EQ(stats().rejected, 0u) << Traces();
  // One recording is still there.
  const Stats before = stats();
  Call(8);
  EXPECT_EQ(stats().recorded, before.recorded + 1) << Traces();
  EXPECT_GT(stats().replays, before.replays + 2) << Traces();
  // What was proved may stay away for longer.
  CallOther(64 * 32);
  EXPECT_EQ(plans_->stats().entries, 2u) << Traces();
}

// It may come as seldom as that: then its plan stays, the second time.
TEST_F(ReleasePlansTest, ATraceThatComesSeldomIsReplayedInTheEnd) {
  Restart(size_t{32} << 10);
  for (int round = 0; round < 12; ++round) {
    Call(1);
    CallOther(64 * 16);
  }
  const Stats before = stats();
  Call(1);
  EXPECT_EQ(stats().replays, before.replays + 1) << Traces();
}

TEST_F(ReleasePlansTest, ThePlanThatIsFollowedStays) {
  Warm();
  const Stats before = stats();
  // At each op of a pass in turn, in its middle and from another thread.
  for (int at = 0; at < 6; ++at) {
    Both([&](Side& side) {
      const ModelTensor x = side.program->Make(static_cast<float>(at));
      const bool watched = &side == &watched_;
      const auto maybe = [&](int op) {
        if (watched && op == at) {
          EXPECT_EQ(ReleaseElsewhere(), 0u);
        }
      };
      const ModelTensor h = side.program->Add(x, side.weights[0]);
      maybe(0);
      const ModelTensor scaled = side.program->Scale(h, 2.0f);
      maybe(1);
      side.program->Negate(h);
      maybe(2);
      const ModelTensor sum = side.program->Add(scaled, h);
      maybe(3);
      side.program->Mix(sum, x);
      maybe(4);
      if (watched && at == 5) {  // an allocation between two ops
        EXPECT_EQ(session_->ReleasePlans(), 0u);
      }
      const ModelTensor last = side.program->Add(sum, side.weights[1]);
      side.program->Read(last);
      return Held{scaled, last};
    });
  }
  EXPECT_EQ(stats().replays, before.replays + 6) << Traces();
  EXPECT_EQ(stats().squashes, 0u);
  EXPECT_EQ(plans_->stats().entries, 1u);
}

TEST_F(ReleasePlansTest, InsideAnOpItNeitherWaitsNorTakesTheLastPlan) {
  Warm();
  session_->Lock();
  EXPECT_EQ(session_->ReleasePlans(), 0u);
  EXPECT_EQ(ReleaseElsewhere(), 0u);
  session_->Unlock();
  EXPECT_EQ(plans_->stats().entries, 1u);
  EXPECT_GT(session_->ReleasePlans(), 0u);
}

TEST_F(ReleasePlansTest, WhatAValidationUsesStays) {
  // The first passes are seen and recorded twice, the next one is compared.
  Call(3);
  ASSERT_EQ(stats().builds, 0u);
  const ModelTensor x = watched_.program->Make(3);
  const ModelTensor h = watched_.program->Add(x, watched_.weights[0]);
  ASSERT_EQ(stats().builds, 1u);
  EXPECT_EQ(ReleaseElsewhere(), 0u);
  EXPECT_EQ(plans_->stats().entries, 1u);
  watched_.program->Scale(h, 2.0f);
}

TEST_F(ReleasePlansTest, WhatTheProgramHoldsOutlivesThePlan) {
  Warm();
  std::vector<Held> kept;
  std::vector<Held> expected;
  const auto pass = [&](int i) {
    kept.push_back(Chain(watched_, 0.5f * static_cast<float>(i)));
    expected.push_back(Chain(plain_, 0.5f * static_cast<float>(i)));
    builds_.RunAll();
  };
  const Stats before = stats();
  pass(0);
  ASSERT_EQ(stats().replays, before.replays + 1);
  EXPECT_GT(ReleaseElsewhere(), 0u);
  for (int i = 1; i < 30; ++i) {
    pass(i);
    if (i % 11 == 0) {
      EXPECT_GT(ReleaseElsewhere(), 0u);
    }
  }
  EXPECT_GT(stats().replays, before.replays + 4) << Traces();
  for (size_t k = 0; k < kept.size(); ++k) {
    for (size_t i = 0; i < kept[k].size(); ++i) {
      ASSERT_EQ(kept[k][i].values(), expected[k][i].values())
          << "tensor " << i << " of pass " << k;
    }
  }
}

TEST_F(ReleasePlansTest, APendingVerdictOfAPlanThatWentIsForgotten) {
  Call(4);
  ASSERT_EQ(stats().builds, 1u);
  ASSERT_EQ(stats().validated, 0u);
  EXPECT_GT(ReleaseElsewhere(), 0u);
  Call(10);
  EXPECT_EQ(stats().builds, 2u) << Traces();
  EXPECT_EQ(stats().rejected, 0u) << Traces();
  EXPECT_GT(stats().replays, 0u) << Traces();
}

TEST_F(ReleasePlansTest, OfOneSessionOnly) {
  Warm();
  const PlanKey others{.build = 1, .session = this};
  ASSERT_TRUE(plans_->Insert(others, nullptr, 100).has_value());
  EXPECT_GT(ReleaseElsewhere(), 0u);
  EXPECT_EQ(plans_->stats().entries, 1u);
  EXPECT_TRUE(plans_->Lookup(others));
  plans_->Erase(others);
}

TEST_F(ReleasePlansTest, AllTheTimeBesideTheProgram) {
  std::atomic<bool> done{false};
  std::atomic<uint64_t> releases{0};
  std::thread thief([&] {
    while (!done) {
      if (session_->ReleasePlans() > 0) ++releases;
      std::this_thread::yield();
    }
  });
  for (int i = 0; i < 2000 && !HasFatalFailure(); ++i) Call(1);
  // It may never have run while there was a plan.
  while (releases == 0 && !HasFatalFailure()) Call(1);
  done = true;
  thief.join();
  // It has been recorded ever more rarely.
  const Stats before = stats();
  Call(Renewal::kLongestWait + 10);
  EXPECT_GT(stats().replays, before.replays) << Traces();
}

// The whole runtime, which finds the sessions of a device.
TEST(RuntimeReleaseMemoryTest, GivesThePlansOfThatDevice) {
  std::vector<sim::ModelFrontend*> frontends;
  base::Options options;
  options.validate_share = 0;
  auto runtime = Runtime::Create(
      {DeviceKind::kHost}, options,
      [&frontends](const StreamKey&) -> std::unique_ptr<engine::Frontend> {
        auto frontend = std::make_unique<sim::ModelFrontend>();
        frontends.push_back(frontend.get());
        return frontend;
      });
  ASSERT_TRUE(runtime.has_value());
  Runtime& all = **runtime;
  for (int device = 0; device < 2; ++device) {
    Session* session = all.SessionFor({.device = device});
    sim::ModelProgram program(frontends.back(), session);
    const ModelTensor weight = program.Make(2);
    for (int i = 0; i < 8; ++i) {
      ModelTensor h = program.Add(program.Make(static_cast<float>(i)), weight);
      h = program.Scale(h, 3);
      program.Read(program.Add(h, weight));
      ASSERT_TRUE(all.Wait(std::nullopt));
    }
  }
  ASSERT_EQ(all.stats().plans, 2u);
  const uint64_t bytes = all.stats().plan_bytes;
  EXPECT_EQ(all.ReleaseMemory(2, Shortage::kCertain), 0u);
  const uint64_t released = all.ReleaseMemory(1, Shortage::kCertain);
  EXPECT_GT(released, 0u);
  EXPECT_EQ(all.stats().plans, 1u);
  EXPECT_EQ(all.stats().plan_bytes, bytes - released);
  EXPECT_EQ(all.stats().evictions, 1u);
  EXPECT_EQ(all.ReleaseMemory(0, Shortage::kCertain), bytes - released);
  EXPECT_EQ(all.ReleaseMemory(0, Shortage::kCertain), 0u);
}

}  // namespace
}  // namespace reprise::scheduler
