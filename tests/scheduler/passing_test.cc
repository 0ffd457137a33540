// A trace that is known and not wanted now costs no more than a look at its
// words, and is there again when it is wanted.

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <random>
#include <vector>

#include "engine/backend/host_backend.h"
#include "engine/base/task.h"
#include "scheduler/stats.h"
#include "scheduler/stream_session.h"
#include "tests/engine/base/manual_task_runner.h"
#include "tests/sim/model_frontend.h"

namespace reprise::scheduler {
namespace {

using sim::ModelFrontend;
using sim::ModelProgram;
using sim::ModelTensor;

class PassingTest : public testing::Test {
 protected:
  static constexpr int kOps = 8;

  PassingTest() {
    StreamSession::Parts parts;
    auto frontend = std::make_unique<ModelFrontend>();
    frontend_ = frontend.get();
    parts.backend = std::make_unique<engine::HostBackend>(
        frontend_, engine::HostBackend::Options{.max_arena_bytes = 1 << 20});
    parts.frontend = std::move(frontend);
    parts.options.validate_share = 0;
    parts.plans = &plans_;
    parts.recording_forbidden = &forbidden_;
    parts.build = [this](std::shared_ptr<BuildJob> job) {
      builds_.Post([job] { job->Run(); });
    };
    session_ = std::make_unique<StreamSession>(std::move(parts));
    program_ = std::make_unique<ModelProgram>(frontend_, session_.get());
    for (int i = 0; i < kOps / 2; ++i) {
      weights_.push_back(program_->Make(static_cast<float>(i)));
      plain_weights_.push_back(plain_.Make(static_cast<float>(i)));
    }
  }
  ~PassingTest() override { builds_.RunAll(); }

  // kOps ops; before op `leave` the program takes another way.
  static std::vector<ModelTensor> Step(ModelProgram& p,
                                       const std::vector<ModelTensor>& w,
                                       ModelTensor x, int leave = -1) {
    std::vector<ModelTensor> held;
    for (int i = 0; i < kOps; ++i) {
      if (i == leave) {
        held.push_back(p.Scale(p.Scale(x, 11), 13));
        return held;
      }
      x = i % 2 == 0 ? p.Add(x, w[static_cast<size_t>(i) / 2])
                     : p.Scale(x, 0.5f + static_cast<float>(i));
      held.push_back(x);
    }
    return held;
  }

  void ExpectPlainResults(float seed, int leave = -1) {
    const auto got = Step(*program_, weights_, program_->Make(seed), leave);
    const auto want = Step(plain_, plain_weights_, plain_.Make(seed), leave);
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(got[i].values(), want[i].values());
    }
  }

  // Three traces in a row, of other lengths, that begin with one op and go
  // different ways from there; nothing cuts between them.
  static std::vector<ModelTensor> Parts(ModelProgram& p,
                                        const std::vector<ModelTensor>& w) {
    std::vector<ModelTensor> held;
    for (const int ops : {6, 10, 14}) {
      ModelTensor x = p.Add(w[0], w[1]);
      for (int i = 0; i < ops; ++i) {
        if ((i + ops) % 3 == 0) {
          x = p.Scale(x, 0.5f);
        } else {
          p.Mix(x, w[2]);
        }
      }
      held.push_back(x);
    }
    return held;
  }
  void ExpectPlainParts() {
    const auto got = Parts(*program_, weights_);
    const auto want = Parts(plain_, plain_weights_);
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(got[i].values(), want[i].values());
    }
  }

  Stats stats() {
    Stats stats;
    session_->Inspect([&stats](const Journal& journal, const auto&,
                               const auto&) { stats = journal.stats; });
    return stats;
  }
  uint64_t replays() { return stats().replays; }

  std::atomic<bool> forbidden_{true};
  base::ManualTaskRunner builds_;
  PlanCache plans_{size_t{1} << 20};
  ModelFrontend plain_frontend_;
  ModelProgram plain_{&plain_frontend_, nullptr};
  ModelFrontend* frontend_ = nullptr;
  std::unique_ptr<StreamSession> session_;
  std::unique_ptr<ModelProgram> program_;
  std::vector<ModelTensor> weights_;
  std::vector<ModelTensor> plain_weights_;
};

TEST_F(PassingTest, NoResultOfAKnownTraceIsLookedAt) {
  for (int call = 0; call < 4; ++call) ExpectPlainResults(1);
  const int before = program_->observed();
  EXPECT_GE(before, 2 * kOps);
  for (int call = 0; call < 8; ++call) ExpectPlainResults(2);
  EXPECT_EQ(program_->observed(), before);
  // Once in a while it is watched whole.
  for (int call = 0; call < 8; ++call) ExpectPlainResults(3);
  EXPECT_GE(program_->observed(), before + kOps - 1);
  EXPECT_LE(program_->observed(), before + 2 * kOps);
}

TEST_F(PassingTest, LeavingItGivesPlainResultsAndItIsPassedAgain) {
  std::mt19937 random(1);
  for (int call = 0; call < 200; ++call) {
    const int leave =
        random() % 3 == 0 ? static_cast<int>(random() % kOps) : -1;
    ExpectPlainResults(static_cast<float>(call), leave);
    if (HasFailure()) FAIL() << "call " << call << " left at " << leave;
  }
  // Where memory lies says how many ways of it are still to be learned.
  for (int call = 0; call < 32; ++call) ExpectPlainResults(5);
  const int before = program_->observed();
  for (int call = 0; call < 32; ++call) ExpectPlainResults(6);
  EXPECT_LE(program_->observed(), before + 4 * kOps);
}

// Another one of those that begin alike has come than the one that was
// foreseen: no trace begins in its middle.
TEST_F(PassingTest, GoesOnAsAnotherOneThatBeginsAlike) {
  for (int pass = 0; pass < 4; ++pass) ExpectPlainParts();
  const int before = program_->observed();
  for (int pass = 0; pass < 64; ++pass) ExpectPlainParts();
  EXPECT_EQ(stats().signatures, 3u);
  EXPECT_GE(stats().traces, 68u * 3 - 3);
  // Once in a while each is watched whole.
  EXPECT_LE(program_->observed() - before, 64 * 33 / 8);
}

// A way that was never met is no op that is another one each time.
TEST_F(PassingTest, AWayOfNewOpsIsNoCut) {
  const auto pass = [this](bool other) {
    ModelTensor x = program_->Add(weights_[0], weights_[1]);
    for (int i = 0; i < 8; ++i) x = program_->Scale(x, 0.5f);
    if (!other) return;
    for (size_t elements = 1; elements <= 12; ++elements) {
      program_->Negate(program_->Make(1, elements));
    }
  };
  for (int i = 0; i < 400; ++i) pass(i % 10 == 9);
  session_->Inspect([](const Journal& journal, const auto&, const auto&) {
    for (const auto& [cut, times] : journal.cuts) {
      ADD_FAILURE() << times << " times: " << cut.second;
    }
  });
}

// What comes seldom is watched when its beginning was taken for another's.
TEST_F(PassingTest, AWayThatComesSeldomIsSeen) {
  const auto pass = [this](int way) {
    ModelTensor x = program_->Add(weights_[0], weights_[1]);
    for (int i = 0; i < 4; ++i) x = program_->Scale(x, 0.5f);
    for (int i = 0; i < 6; ++i) {
      if (way == 0) {
        x = program_->Scale(x, 0.25f);
      } else if (way == 1 || i < 2) {
        program_->Mix(x, weights_[2]);
      } else {
        program_->Negate(x);
      }
    }
    program_->Read(x);
  };
  const auto way = [](int i) { return i % 16 == 15 ? 2 : i % 5 == 4 ? 1 : 0; };
  for (int i = 0; i < 320; ++i) pass(way(i));
  const Stats before = stats();
  EXPECT_EQ(before.signatures, 3u);
  for (int i = 320; i < 640; ++i) pass(way(i));
  EXPECT_EQ(stats().traces - before.traces, 320u);
}

TEST_F(PassingTest, IsRecordedAndReplayedOnceItMayBe) {
  for (int call = 0; call < 20; ++call) ExpectPlainResults(1);
  EXPECT_EQ(replays(), 0u);
  forbidden_ = false;
  for (int call = 0; call < 8; ++call) {
    ExpectPlainResults(static_cast<float>(call));
    builds_.RunAll();
  }
  EXPECT_GE(replays(), 3u);
}

}  // namespace
}  // namespace reprise::scheduler
