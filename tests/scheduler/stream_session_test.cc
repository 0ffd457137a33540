// Proves that a stream through a session gives what the plain stream gives,
// that repetition ends in replay, and that leaving a replay anywhere is safe.

#include "scheduler/stream_session.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <random>
#include <stdexcept>
#include <vector>

#include "engine/backend/host_backend.h"
#include "engine/base/task.h"
#include "tests/engine/base/manual_task_runner.h"
#include "tests/sim/model_frontend.h"

namespace reprise::scheduler {
namespace {

using sim::ModelFrontend;
using sim::ModelOp;
using sim::ModelProgram;
using sim::ModelTensor;

constexpr size_t kMemoryBytes = size_t{1} << 30;

class StreamSessionTest : public testing::Test {
 protected:
  StreamSessionTest() { Restart(base::Options{}); }

  void Restart(base::Options options) {
    options = options.For(kMemoryBytes);
    options.validate_share = 0;
    StreamSession::Parts parts;
    auto frontend = std::make_unique<ModelFrontend>();
    frontend_ = frontend.get();
    parts.backend = std::make_unique<engine::HostBackend>(
        frontend.get(),
        engine::HostBackend::Options{.max_arena_bytes = options.max_arena_bytes,
                                     .segment_ops = 3});
    parts.frontend = std::move(frontend);
    parts.options = options;
    parts.plans = &plans_;
    parts.build = [this](std::shared_ptr<BuildJob> job) {
      builds_.Post([job] { job->Run(); });
    };
    session_ = std::make_unique<StreamSession>(std::move(parts));
    program_ = std::make_unique<ModelProgram>(frontend_, session_.get());
    plain_ = std::make_unique<ModelProgram>(&plain_frontend_, nullptr);
    weights_.clear();
    plain_weights_.clear();
    for (int i = 0; i < 4; ++i) {
      weights_.push_back(program_->Make(static_cast<float>(i)));
      plain_weights_.push_back(plain_->Make(static_cast<float>(i)));
    }
  }

  Stats stats() {
    Stats stats;
    session_->Inspect(
        [&stats](const Journal& journal, const std::vector<const TraceEntry*>&,
                 const engine::Frontend&) { stats = journal.stats; });
    return stats;
  }

  // Runs `step(program, weights, x)` until it is replayed.
  void Warm(const std::function<void(ModelProgram&, std::vector<ModelTensor>&,
                                     ModelTensor)>& step,
            int calls = 8) {
    for (int i = 0; i < calls; ++i) {
      step(*program_, weights_, program_->Make(static_cast<float>(i)));
      builds_.RunAll();
    }
  }

  base::ManualTaskRunner builds_;
  PlanCache plans_{size_t{1} << 20};
  ModelFrontend plain_frontend_;
  ModelFrontend* frontend_ = nullptr;
  std::unique_ptr<StreamSession> session_;
  std::unique_ptr<ModelProgram> program_;
  std::unique_ptr<ModelProgram> plain_;
  std::vector<ModelTensor> weights_;
  std::vector<ModelTensor> plain_weights_;
};

// Twelve ops with in-place writes between reads; before op `leave` it takes
// another way. Returns what a program could hold on to. Calls `before` with
// what there is of that and the number of the next op.
using Before = std::function<void(const std::vector<ModelTensor>&, int)>;
std::vector<ModelTensor> Step(ModelProgram& p, std::vector<ModelTensor>& w,
                              const ModelTensor& x, int leave = -1,
                              const Before& before = nullptr) {
  std::vector<ModelTensor> held;
  int at = 0;
  ModelTensor h = x;
  const auto left = [&] {
    if (before != nullptr) before(held, at);
    if (at++ != leave) return false;
    held.push_back(p.Scale(held.empty() ? x : held.back(), 7.0f));
    return true;
  };
  for (int layer = 0; layer < 3; ++layer) {
    if (left()) return held;
    ModelTensor sum = p.Add(h, w[layer]);
    held.push_back(sum);
    if (left()) return held;
    ModelTensor scaled = p.Scale(sum, 0.5f + static_cast<float>(layer));
    held.push_back(scaled);
    if (left()) return held;
    p.Negate(sum);
    if (left()) return held;
    p.Mix(scaled, sum);
    h = scaled;
  }
  return held;
}

void ExpectSame(const std::vector<ModelTensor>& a,
                const std::vector<ModelTensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].values(), b[i].values()) << "tensor " << i;
  }
}

TEST_F(StreamSessionTest, RepetitionEndsInReplayWithinSixCalls) {
  for (int call = 0; call < 6; ++call) {
    EXPECT_EQ(stats().replays, 0u) << "before call " << call;
    ModelTensor x = program_->Make(static_cast<float>(call));
    Step(*program_, weights_, x);
    builds_.RunAll();
  }
  EXPECT_EQ(stats().replays, 1u);
  EXPECT_EQ(stats().validated, 2u);
}

TEST_F(StreamSessionTest, WhatIsTooLargeForOnePlanIsSplit) {
  base::Options options;
  options.max_arena_bytes = 4 * 512;  // a pass makes six values
  Restart(options);
  Warm([](ModelProgram& p, std::vector<ModelTensor>& w,
          const ModelTensor& x) { Step(p, w, x); },
       20);
  const Stats before = stats();
  for (int call = 0; call < 5; ++call) {
    const auto x = static_cast<float>(100 + call);
    ExpectSame(Step(*program_, weights_, program_->Make(x)),
               Step(*plain_, plain_weights_, plain_->Make(x)));
    builds_.RunAll();
  }
  EXPECT_EQ(stats().followed - before.followed, 5u * 12u);
  EXPECT_EQ(stats().replays - before.replays, 5u * 2u);
}

TEST_F(StreamSessionTest, HeldOutputsKeepTheirValues) {
  std::vector<std::vector<ModelTensor>> held;
  std::vector<std::vector<ModelTensor>> expected;
  for (int call = 0; call < 50; ++call) {
    const float seed = 1.5f * static_cast<float>(call);
    held.push_back(Step(*program_, weights_, program_->Make(seed)));
    expected.push_back(Step(*plain_, plain_weights_, plain_->Make(seed)));
    builds_.RunAll();
  }
  for (size_t call = 0; call < held.size(); ++call) {
    ExpectSame(held[call], expected[call]);
  }
  EXPECT_GE(stats().replays, 40u);
  EXPECT_GT(stats().escapes, 0u);
  EXPECT_EQ(stats().rejected, 0u);
}

class SquashTest : public StreamSessionTest,
                   public testing::WithParamInterface<int> {};

TEST_P(SquashTest, LeavingBeforeAnyOpGivesPlainResults) {
  Warm([](ModelProgram& p, std::vector<ModelTensor>& w, ModelTensor x) {
    Step(p, w, x);
  });
  ASSERT_GT(stats().replays, 0u);
  const auto held = Step(*program_, weights_, program_->Make(31), GetParam());
  const auto expected =
      Step(*plain_, plain_weights_, plain_->Make(31), GetParam());
  EXPECT_EQ(stats().squashes, GetParam() == 0 ? 0u : 1u);
  ExpectSame(held, expected);
}

// Without an op the host looks at all that there is, and the program goes on.
TEST_P(SquashTest, InterruptBeforeAnyOpShowsPlainResults) {
  Warm([](ModelProgram& p, std::vector<ModelTensor>& w, ModelTensor x) {
    Step(p, w, x);
  });
  const uint64_t replays = stats().replays;
  ASSERT_GT(replays, 0u);
  std::vector<std::vector<float>> seen;
  std::vector<std::vector<float>> expected_seen;
  const auto look = [](std::vector<std::vector<float>>& into) {
    return [&into](const std::vector<ModelTensor>& held, int at) {
      if (at != GetParam()) return;
      for (const ModelTensor& tensor : held) into.push_back(tensor.values());
    };
  };
  const auto held = Step(*program_, weights_, program_->Make(31), -1,
                         [&](const std::vector<ModelTensor>& held, int at) {
                           if (at == GetParam()) {
                             EXPECT_EQ(session_->Interrupt("the test looks"),
                                       GetParam() != 0);
                           }
                           look(seen)(held, at);
                         });
  const auto expected =
      Step(*plain_, plain_weights_, plain_->Make(31), -1, look(expected_seen));
  ExpectSame(held, expected);
  EXPECT_EQ(seen, expected_seen);
  EXPECT_EQ(stats().ops, 9u * 12u);  // looking is none
}

// A program that does so in every pass has traces that end there.
TEST_P(SquashTest, InterruptInEveryPassIsReplayedAround) {
  for (int call = 0; call < 30; ++call) {
    const float seed = static_cast<float>(call);
    const auto held = Step(*program_, weights_, program_->Make(seed), -1,
                           [&](const std::vector<ModelTensor>&, int at) {
                             if (at == GetParam()) session_->Interrupt("look");
                           });
    ExpectSame(held, Step(*plain_, plain_weights_, plain_->Make(seed)));
    builds_.RunAll();
  }
  EXPECT_GT(stats().replays, 10u);
  EXPECT_LE(stats().squashes, 4u);
}

INSTANTIATE_TEST_SUITE_P(EveryOp, SquashTest, testing::Range(0, 12));

TEST_F(StreamSessionTest, RandomLeavesAndHoldsGivePlainResults) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    Restart(base::Options{});
    std::mt19937 random(seed);
    std::vector<std::vector<ModelTensor>> held;
    std::vector<std::vector<ModelTensor>> expected;
    for (int call = 0; call < 80; ++call) {
      const int leave =
          random() % 4 == 0 ? static_cast<int>(random() % 12) : -1;
      const float value = static_cast<float>(random() % 1000) / 8.0f;
      held.push_back(Step(*program_, weights_, program_->Make(value), leave));
      expected.push_back(
          Step(*plain_, plain_weights_, plain_->Make(value), leave));
      if (random() % 2 == 0) builds_.RunAll();
      if (random() % 3 == 0) {
        const size_t drop = random() % held.size();
        held.erase(held.begin() + static_cast<ptrdiff_t>(drop));
        expected.erase(expected.begin() + static_cast<ptrdiff_t>(drop));
      }
      for (size_t i = 0; i < held.size(); ++i) {
        ExpectSame(held[i], expected[i]);
        if (HasFailure()) {
          FAIL() << "seed " << seed << " call " << call << " held " << i;
        }
      }
    }
    EXPECT_GT(stats().replays, 0u) << "seed " << seed;
  }
}

TEST_F(StreamSessionTest, ProgramMayFeedItself) {
  ModelTensor x = program_->Make(1);
  ModelTensor y = plain_->Make(1);
  for (int call = 0; call < 30; ++call) {
    x = Step(*program_, weights_, x).back();
    y = Step(*plain_, plain_weights_, y).back();
    builds_.RunAll();
    ASSERT_EQ(x.values(), y.values()) << "call " << call;
  }
  EXPECT_GT(stats().replays, 5u);
}

TEST_F(StreamSessionTest, EditedWeightIsReadAndReplacedWeightIsRecordedAgain) {
  const auto both = [this](float seed) {
    ExpectSame(Step(*program_, weights_, program_->Make(seed)),
               Step(*plain_, plain_weights_, plain_->Make(seed)));
    builds_.RunAll();
  };
  for (int call = 0; call < 8; ++call) both(static_cast<float>(call));
  const uint64_t before = stats().replays;
  ASSERT_GT(before, 0u);
  weights_[1].storage()->data()[3] = 99;
  plain_weights_[1].storage()->data()[3] = 99;
  both(50);
  EXPECT_EQ(stats().replays, before + 1);
  weights_[1] = program_->Make(77);
  plain_weights_[1] = plain_->Make(77);
  for (int call = 0; call < 10; ++call) both(static_cast<float>(call));
  EXPECT_GT(stats().replays, before + 2);
}

// They run in their turn, and leave the generator where eager leaves it: when
// they are recorded, run beside eager, and replayed.
TEST_F(StreamSessionTest, OpsThatDrawRandomNumbersAreFollowed) {
  const auto step = [](ModelProgram& p, std::vector<ModelTensor>& w,
                       const ModelTensor& x) {
    ModelTensor a = p.Scale(p.Add(x, w[0]), 2);
    ModelTensor b = p.Random(a);
    return p.Scale(p.Add(b, w[1]), 3);
  };
  std::vector<ModelTensor> held;
  std::vector<ModelTensor> expected;
  for (int call = 0; call < 12; ++call) {
    held.push_back(step(*program_, weights_, program_->Make(3)));
    expected.push_back(step(*plain_, plain_weights_, plain_->Make(3)));
    EXPECT_EQ(frontend_->random_draws, plain_frontend_.random_draws) << call;
    builds_.RunAll();
  }
  ExpectSame(held, expected);
  EXPECT_GT(stats().replays, 4u);
  session_->Inspect([](const Journal& journal,
                       const std::vector<const TraceEntry*>&,
                       const engine::Frontend&) {
    const auto random = static_cast<engine::OpId>(ModelOp::kRandom);
    for (const auto& [cut, times] : journal.cuts) EXPECT_NE(cut.first, random);
  });
}

TEST_F(StreamSessionTest, ErrorsOfOpsPassThroughAndNothingIsLost) {
  const auto step = [](ModelProgram& p, std::vector<ModelTensor>& w,
                       const ModelTensor& x, bool raise) {
    ModelTensor a = p.Add(x, w[0]);
    p.Negate(a);
    p.MayRaise(a, raise);
    return p.Scale(a, 2);
  };
  for (int call = 0; call < 8; ++call) {
    step(*program_, weights_, program_->Make(3), false);
    builds_.RunAll();
  }
  ASSERT_GT(stats().replays, 0u);
  ModelTensor x = program_->Make(5);
  EXPECT_THROW(step(*program_, weights_, x, true), std::runtime_error);
  for (int call = 0; call < 8; ++call) {
    EXPECT_EQ(step(*program_, weights_, x, false).values(),
              step(*plain_, plain_weights_, plain_->Make(5), false).values());
    builds_.RunAll();
  }
}

TEST_F(StreamSessionTest, WithoutMemoryTheProgramRunsEagerly) {
  Warm([](ModelProgram& p, std::vector<ModelTensor>& w, ModelTensor x) {
    Step(p, w, x);
  });
  ASSERT_GT(stats().replays, 0u);
  base::Options small;
  small.max_arena_bytes = 64;
  Restart(small);
  Warm([](ModelProgram& p, std::vector<ModelTensor>& w,
          ModelTensor x) { Step(p, w, x); },
       12);
  EXPECT_EQ(stats().replays, 0u);
  EXPECT_GT(stats().rejected, 0u);
}

TEST_F(StreamSessionTest, ValueOfAnEarlierTraceIsTakenWhenItsOpComes) {
  // After the cut, `b` is read late and is another storage at every call.
  const auto step = [](ModelProgram& p, std::vector<ModelTensor>& w,
                       const ModelTensor& x) {
    ModelTensor a = p.Add(x, w[0]);
    ModelTensor b = p.Scale(a, 2);
    p.Read(b);
    ModelTensor c = p.Add(a, w[1]);
    ModelTensor d = p.Scale(c, 3);
    return p.Add(d, b);
  };
  std::vector<ModelTensor> inputs;
  std::vector<ModelTensor> held;
  std::vector<ModelTensor> expected;
  for (int call = 0; call < 16; ++call) {
    const float seed = static_cast<float>(call);
    // Kept, so that none has the memory of one before.
    inputs.push_back(program_->Make(seed));
    held.push_back(step(*program_, weights_, inputs.back()));
    expected.push_back(step(*plain_, plain_weights_, plain_->Make(seed)));
    builds_.RunAll();
  }
  ExpectSame(held, expected);
  EXPECT_GE(stats().replays, 10u);
}

TEST_F(StreamSessionTest, LoopBehindAPreambleIsFound) {
  // No cut, and the first op never comes again.
  ModelTensor scaled = program_->Scale(weights_[0], 2);
  ModelTensor expected = plain_->Scale(plain_weights_[0], 2);
  for (int call = 0; call < 30; ++call) {
    const float seed = static_cast<float>(call);
    ExpectSame(Step(*program_, weights_, program_->Make(seed)),
               Step(*plain_, plain_weights_, plain_->Make(seed)));
    builds_.RunAll();
  }
  EXPECT_EQ(scaled.values(), expected.values());
  EXPECT_GT(stats().replays, 10u);
}

TEST_F(StreamSessionTest, EvictedPlanIsRecordedAgain) {
  const auto step = [](ModelProgram& p, std::vector<ModelTensor>& w,
                       const ModelTensor& x) { Step(p, w, x); };
  Warm(step);
  const uint64_t before = stats().replays;
  ASSERT_GT(before, 0u);
  // The plan in use is pinned until another one is tried.
  plans_.Trim(0);
  EXPECT_EQ(plans_.stats().entries, 1u);
  session_->Reset();
  EXPECT_EQ(plans_.stats().entries, 0u);
  Warm(step);
  EXPECT_GT(stats().replays, 0u);
}

TEST_F(StreamSessionTest, SecondInputMayComeLate) {
  const auto step = [](ModelProgram& p, std::vector<ModelTensor>& w,
                       const ModelTensor& x, const ModelTensor& late) {
    ModelTensor a = p.Scale(p.Add(x, w[0]), 2);
    ModelTensor b = p.Scale(p.Add(late, w[1]), 3);
    return p.Scale(b, 4);
  };
  std::vector<ModelTensor> held;
  std::vector<ModelTensor> expected;
  for (int call = 0; call < 16; ++call) {
    const float seed = static_cast<float>(call);
    held.push_back(step(*program_, weights_, program_->Make(seed),
                        program_->Make(seed + 100)));
    expected.push_back(step(*plain_, plain_weights_, plain_->Make(seed),
                            plain_->Make(seed + 100)));
    builds_.RunAll();
  }
  ExpectSame(held, expected);
  EXPECT_GT(stats().replays, 4u);
}

}  // namespace
}  // namespace reprise::scheduler
