// Proves that a program that keeps many outputs is replayed on several
// instances of a plan, that what it keeps stays right, and that where instances
// cannot be had outputs escape.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "engine/backend/host_backend.h"
#include "engine/base/task.h"
#include "scheduler/instance_policy.h"
#include "scheduler/stream_session.h"
#include "tests/engine/base/manual_task_runner.h"
#include "tests/sim/model_frontend.h"

namespace reprise::scheduler {
namespace {

using sim::ModelFrontend;
using sim::ModelProgram;
using sim::ModelTensor;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::SizeIs;

using Tensors = std::vector<ModelTensor>;
using Step =
    std::function<Tensors(ModelProgram&, const Tensors& weights, float seed)>;

// Twelve ops with in-place writes between reads; before op `leave` it takes
// another way. Returns all six values that it makes.
Tensors Layers(ModelProgram& p, const Tensors& w, const ModelTensor& x,
               int leave = -1) {
  Tensors made;
  int at = 0;
  ModelTensor h = x;
  const auto left = [&] {
    if (at++ != leave) return false;
    made.push_back(p.Scale(made.empty() ? x : made.back(), 7.0f));
    return true;
  };
  for (size_t layer = 0; layer < 3; ++layer) {
    if (left()) return made;
    const ModelTensor sum = p.Add(h, w[layer]);
    made.push_back(sum);
    if (left()) return made;
    const ModelTensor scaled = p.Scale(sum, 0.5f + static_cast<float>(layer));
    made.push_back(scaled);
    if (left()) return made;
    p.Negate(sum);
    if (left()) return made;
    p.Mix(scaled, sum);
    h = scaled;
  }
  return made;
}

Tensors Forward(ModelProgram& p, const Tensors& w, float seed) {
  return Layers(p, w, p.Make(seed));
}

Tensors LastOfForward(ModelProgram& p, const Tensors& w, float seed) {
  return {Forward(p, w, seed).back()};
}

// An executor whose comparisons differ if it is told so.
class DifferingExecutor final : public engine::Executor {
 public:
  explicit DifferingExecutor(std::unique_ptr<Executor> real)
      : real_(std::move(real)) {}
  void Bind(engine::ValueId value, uint64_t origin) override {
    real_->Bind(value, origin);
  }
  Fit SetScalars(uint32_t op, std::span<const uint64_t> bits) override {
    return real_->SetScalars(op, bits);
  }
  void SetGenerator(uint32_t op, const engine::GeneratorState& state) override {
    real_->SetGenerator(op, state);
  }
  Progress LaunchSegment(size_t segment, uint32_t first_op) override {
    return real_->LaunchSegment(segment, first_op);
  }
  base::Status LaunchOp(size_t op) override { return real_->LaunchOp(op); }
  bool Touches(size_t op, engine::ValueId value) const override {
    return real_->Touches(op, value);
  }
  base::Status Copy(uint64_t to, uint64_t from,
                    const kernels::Layout& layout) override {
    return real_->Copy(to, from, layout);
  }
  base::Status CopyAll(std::span<const kernels::RangeCopy> copies) override {
    return real_->CopyAll(copies);
  }
  base::Status WaitFor(CUevent event) override { return real_->WaitFor(event); }
  base::Status BeginComparing() override { return {}; }
  base::Status Compare(uint64_t, uint64_t, const kernels::Layout&, Alike,
                       uint32_t) override {
    return {};
  }
  base::Status EndComparing() override { return {}; }
  base::Result<std::optional<engine::Verdict>> Poll(Patience) override {
    return engine::Verdict{{0}};
  }

 private:
  std::unique_ptr<Executor> real_;
};

// The second thing that it builds is found to differ from eager.
class BackendWithABadSecondBuild final : public engine::HostBackend {
 public:
  using HostBackend::HostBackend;
  base::Result<engine::InstanceParts> Instantiate(
      std::shared_ptr<const engine::Program> program,
      std::shared_ptr<engine::Ledger> arena) override {
    auto parts = HostBackend::Instantiate(std::move(program), std::move(arena));
    if (++builds_ == 2) {
      parts->executor =
          std::make_unique<DifferingExecutor>(std::move(parts->executor));
    }
    return parts;
  }

 private:
  int builds_ = 0;
};

class InstancesTest : public testing::Test {
 protected:
  static base::Options Defaults() {
    base::Options options = base::Options().For(size_t{1} << 30);
    options.validate_share = 0;
    return options;
  }

  InstancesTest() { Restart(Defaults()); }

  template <typename Backend = engine::HostBackend>
  void Restart(const base::Options& options) {
    held_.clear();
    expected_.clear();
    weights_.clear();
    builds_.RunAll();  // they borrow the session's frontend
    session_.reset();
    plans_ = std::make_unique<PlanCache>(options.plan_budget_bytes);
    StreamSession::Parts parts;
    auto frontend = std::make_unique<ModelFrontend>();
    frontend_ = frontend.get();
    parts.backend = std::make_unique<Backend>(
        frontend.get(),
        engine::HostBackend::Options{.max_arena_bytes = options.max_arena_bytes,
                                     .segment_ops = 3});
    parts.frontend = std::move(frontend);
    parts.options = options;
    parts.plans = plans_.get();
    parts.build = [this](std::shared_ptr<BuildJob> job) {
      builds_.Post([job] { job->Run(); });
    };
    session_ = std::make_unique<StreamSession>(std::move(parts));
    program_ = std::make_unique<ModelProgram>(frontend_, session_.get());
    plain_weights_.clear();
    for (int i = 0; i < 4; ++i) {
      weights_.push_back(program_->Make(static_cast<float>(i)));
      plain_weights_.push_back(plain_.Make(static_cast<float>(i)));
    }
  }

  ~InstancesTest() override {
    held_.clear();
    builds_.RunAll();
    session_.reset();
  }

  // One pass on both sides; the results of the last `keep` passes are kept, and
  // all that is kept is compared.
  void Pass(const Step& step, size_t keep) {
    const auto seed = static_cast<float>(passes_++);
    held_.push_back(step(*program_, weights_, seed));
    expected_.push_back(step(plain_, plain_weights_, seed));
    while (held_.size() > keep) {
      held_.pop_front();
      expected_.pop_front();
    }
    Compare();
  }
  void Passes(int count, const Step& step, size_t keep) {
    for (int i = 0; i < count; ++i) {
      ASSERT_NO_FATAL_FAILURE(Pass(step, keep)) << "pass " << i;
      builds_.RunAll();
    }
  }
  void Compare() {
    for (size_t k = 0; k < held_.size(); ++k) {
      ASSERT_EQ(held_[k].size(), expected_[k].size());
      for (size_t i = 0; i < held_[k].size(); ++i) {
        ASSERT_EQ(held_[k][i].values(), expected_[k][i].values())
            << "tensor " << i << " of kept result " << k;
      }
    }
  }

  Stats stats() {
    Stats stats;
    Inspect([&stats](const Journal& journal, const TraceEntry&) {
      stats = journal.stats;
    });
    return stats;
  }

  // The plan that was replayed most.
  std::vector<InstanceUse> instances() {
    std::vector<InstanceUse> instances;
    Inspect([&instances](const Journal&, const TraceEntry& entry) {
      instances.assign(entry.instances.begin(), entry.instances.end());
    });
    return instances;
  }

  std::vector<std::string> notes() {
    std::vector<std::string> notes;
    Inspect([&notes](const Journal&, const TraceEntry& entry) {
      notes = entry.summary.notes;
    });
    return notes;
  }

  void Inspect(
      const std::function<void(const Journal&, const TraceEntry&)>& read) {
    session_->Inspect([&read](const Journal& journal,
                              const std::vector<const TraceEntry*>& entries,
                              const engine::Frontend&) {
      const TraceEntry* most = nullptr;
      for (const TraceEntry* entry : entries) {
        if (most == nullptr || entry->replays > most->replays) most = entry;
      }
      ASSERT_NE(most, nullptr);
      read(journal, *most);
    });
  }

  // What the one plan is charged for beside its instances.
  uint64_t ProgramBytes() {
    uint64_t bytes = plans_->stats().charge_bytes;
    for (const InstanceUse& use : instances()) bytes -= use.bytes;
    return bytes;
  }

  // Passes until a plan of one instance is replayed, nothing kept.
  void Warm(const Step& step) {
    Passes(8, step, 0);
    ASSERT_GT(stats().replays, 0u);
    ASSERT_THAT(instances(), SizeIs(1));
  }

  base::ManualTaskRunner builds_;
  std::unique_ptr<PlanCache> plans_;
  ModelFrontend plain_frontend_;
  ModelFrontend* frontend_ = nullptr;
  std::unique_ptr<StreamSession> session_;
  std::unique_ptr<ModelProgram> program_;
  ModelProgram plain_{&plain_frontend_, nullptr};
  Tensors weights_;
  Tensors plain_weights_;
  std::deque<Tensors> held_;
  std::deque<Tensors> expected_;
  int passes_ = 0;
};

TEST_F(InstancesTest, OutputsOfTheLastPassTakeTurnsInTwoInstances) {
  Passes(40, Forward, 1);
  ASSERT_THAT(instances(), SizeIs(2));
  EXPECT_GE(instances()[0].replays, 10u);
  EXPECT_GE(instances()[1].replays, 10u);
  EXPECT_GE(stats().replays, 30u);
  EXPECT_EQ(stats().escapes, 0u);
  EXPECT_EQ(stats().squashes, 0u);
}

TEST_F(InstancesTest, APlanIsChargedForItsInstancesAndItsProgram) {
  Warm(Forward);
  const uint64_t program = ProgramBytes();
  // Ten ops at least.
  EXPECT_GT(program, 10u * sizeof(engine::TracedOp));
  EXPECT_EQ(stats().trace_bytes, 0u);
  Passes(30, Forward, 1);
  ASSERT_THAT(instances(), SizeIs(2));
  EXPECT_EQ(ProgramBytes(), program);
  EXPECT_EQ(plans_->stats().entries, 1u);
}

TEST_F(InstancesTest, OutputsOfTheLastTwoPassesNeedThree) {
  base::Options options = Defaults();
  options.max_instances = 3;
  Restart(options);
  Passes(60, Forward, 2);
  ASSERT_THAT(instances(), SizeIs(3));
  for (const InstanceUse& use : instances()) EXPECT_GE(use.replays, 10u);
  EXPECT_EQ(stats().escapes, 0u);
}

TEST_F(InstancesTest, BeyondTheLastInstanceOutputsEscape) {
  Passes(60, Forward, 2);
  EXPECT_THAT(instances(), SizeIs(2));
  EXPECT_GT(stats().escapes, 0u);
  EXPECT_GE(stats().replays, 45u);
}

TEST_F(InstancesTest, OutputsKeptForEverEscape) {
  Passes(60, Forward, 1000);
  EXPECT_EQ(stats().builds, 2u);
  EXPECT_GE(stats().replays, 45u);
  // Six a pass once both instances are full.
  EXPECT_GE(stats().escapes, 6u * 40u);
  EXPECT_EQ(stats().rejected, 0u);
}

TEST_F(InstancesTest, OneOutputThatIsAliveEscapesAndNothingIsBuilt) {
  Passes(40, LastOfForward, 1);
  EXPECT_THAT(instances(), SizeIs(1));
  EXPECT_EQ(stats().builds, 1u);
  EXPECT_GT(stats().escapes, 20u);
}

TEST_F(InstancesTest, WithOneInstanceAllowedOutputsEscapeAtOnce) {
  base::Options options = Defaults();
  options.max_instances = 1;
  Restart(options);
  Passes(6, Forward, 1);
  EXPECT_EQ(stats().replays, 1u);
  Passes(34, Forward, 1);
  EXPECT_EQ(stats().replays, 35u);
  EXPECT_EQ(stats().builds, 1u);
  EXPECT_EQ(stats().escapes, 6u * 34u);
}

TEST_F(InstancesTest, MicroBatchesInFlightAtOnce) {
  const Step step = [](ModelProgram& p, const Tensors& w, float seed) {
    const Tensors first = Forward(p, w, seed);
    const Tensors second = Forward(p, w, seed + 0.5f);
    // Backwards over both, as a pipeline does.
    ModelTensor sum = p.Scale(second.back(), 3);
    for (size_t i = first.size(); i-- > 0;) {
      sum = p.Add(p.Add(sum, second[i]), first[i]);
    }
    p.Read(sum);
    return Tensors{sum};
  };
  Passes(40, step, 0);
  ASSERT_THAT(instances(), SizeIs(2));
  EXPECT_GE(instances()[0].replays, 20u);
  EXPECT_GE(instances()[1].replays, 20u);
}

TEST_F(InstancesTest, WhileAnotherOneIsBuiltThePassIsEager) {
  Warm(Forward);
  ASSERT_NO_FATAL_FAILURE(Pass(Forward, 1));
  const uint64_t before = stats().replays;
  for (int i = 0; i < 5; ++i) {
    ASSERT_NO_FATAL_FAILURE(Pass(Forward, 1));
    EXPECT_EQ(stats().replays, before + static_cast<uint64_t>((i + 1) / 2));
  }
  EXPECT_EQ(stats().escapes, 0u);
  EXPECT_EQ(builds_.pending(), 1u);
}

TEST_F(InstancesTest, NewInstanceIsValidatedTwiceBeforeItReplacesEager) {
  Warm(Forward);
  const uint64_t validated = stats().validated;
  bool seen = false;
  for (int i = 0; i < 12; ++i) {
    Passes(1, Forward, 1);
    if (instances().size() < 2) continue;
    const InstanceUse use = instances()[1];
    if (use.replays == 0) continue;
    seen = true;
    EXPECT_EQ(use.validations, 2u);
  }
  EXPECT_TRUE(seen);
  EXPECT_EQ(stats().validated, validated + 2);
}

TEST_F(InstancesTest, InstanceThatDiffersFromEagerCondemnsThePlan) {
  Restart<BackendWithABadSecondBuild>(Defaults());
  Warm(Forward);
  Passes(6, Forward, 1);
  EXPECT_EQ(stats().rejected, 1u);
  // What is recorded anew is built well.
  Passes(30, Forward, 1);
  EXPECT_EQ(stats().rejected, 1u);
  ASSERT_THAT(instances(), SizeIs(2));
  EXPECT_GE(instances()[1].replays, 5u);
}

TEST_F(InstancesTest, EachInstanceIsValidatedAgainFromTimeToTime) {
  base::Options options = Defaults();
  options.validate_share = 0.2;
  Restart(options);
  Passes(80, Forward, 1);
  ASSERT_THAT(instances(), SizeIs(2));
  for (const InstanceUse& use : instances()) {
    EXPECT_GE(use.validations, 2 + use.replays / 5);
    EXPECT_LE(use.validations, 3 + use.replays / 5);
    EXPECT_GT(use.replays, 10u);
  }
}

TEST_F(InstancesTest, WithoutMemoryForAnotherOneOutputsEscape) {
  Warm(Forward);
  ASSERT_NO_FATAL_FAILURE(Pass(Forward, 1));
  ASSERT_NO_FATAL_FAILURE(Pass(Forward, 1));
  frontend_->fail_allocations = true;
  builds_.RunAll();
  frontend_->fail_allocations = false;
  Passes(20, Forward, 1);
  EXPECT_THAT(instances(), SizeIs(1));
  EXPECT_EQ(stats().builds, 1u);
  EXPECT_EQ(stats().rejected, 0u);
  // The pass before them was eager: its results are in no instance.
  EXPECT_EQ(stats().escapes, 6u * 19u);
  EXPECT_THAT(notes(), Contains(HasSubstr("no other instance: told to fail")));
}

TEST_F(InstancesTest, BudgetThatHoldsOneInstanceIsNotExceeded) {
  Warm(Forward);
  const uint64_t bytes = instances()[0].bytes;
  base::Options options = Defaults();
  const uint64_t program = ProgramBytes();
  options.plan_budget_bytes = program + 2 * bytes - 1;
  Restart(options);
  Passes(40, Forward, 1);
  EXPECT_THAT(instances(), SizeIs(1));
  EXPECT_EQ(plans_->stats().charge_bytes, bytes + program);
  EXPECT_GT(stats().escapes, 0u);
  EXPECT_GE(stats().replays, 25u);
  EXPECT_THAT(notes(), Contains(HasSubstr("raise the budget")));

  options.plan_budget_bytes = program + 2 * bytes;
  Restart(options);
  Passes(40, Forward, 1);
  EXPECT_THAT(instances(), SizeIs(2));
  EXPECT_EQ(plans_->stats().charge_bytes, program + 2 * bytes);
}

TEST_F(InstancesTest, ArenasOfAllInstancesTogetherStayBelowTheirMost) {
  Warm(Forward);
  const uint64_t bytes = instances()[0].bytes;
  for (const uint64_t missing : {1, 0}) {
    base::Options options = Defaults();
    options.max_instances = 3;
    options.max_arena_bytes = 2 * bytes - missing;
    Restart(options);
    Passes(40, Forward, 2);
    EXPECT_THAT(instances(), SizeIs(missing == 1 ? 1 : 2));
    EXPECT_GT(stats().escapes, 0u);
  }
}

TEST_F(InstancesTest, EvictionTakesAllInstancesAndWhatIsKeptStays) {
  Passes(30, Forward, 1);
  ASSERT_THAT(instances(), SizeIs(2));
  const uint64_t bytes = plans_->stats().charge_bytes;
  // In use, the plan is pinned.
  plans_->Trim(0);
  EXPECT_EQ(plans_->stats().charge_bytes, bytes);
  const Step other = [](ModelProgram& p, const Tensors& w, float seed) {
    const ModelTensor a = p.Scale(p.Make(seed), 0.125f);
    return Tensors{p.Add(p.Scale(p.Add(a, w[3]), 2), w[3])};
  };
  for (int i = 0; i < 8; ++i) {
    program_->Read(weights_[0]);
    ASSERT_NO_FATAL_FAILURE(Pass(other, 10));
    builds_.RunAll();
  }
  ASSERT_GT(held_.size(), 8u);  // with the last result of Forward
  const uint64_t both = plans_->stats().charge_bytes;
  ASSERT_GT(both, bytes);
  plans_->Trim(0);
  EXPECT_EQ(plans_->stats().charge_bytes, both - bytes);
  EXPECT_EQ(plans_->stats().evictions, 1u);
  Compare();
  // Recorded, built and doubled again.
  program_->Read(weights_[0]);
  const uint64_t before = stats().replays;
  Passes(30, Forward, 1);
  EXPECT_GE(stats().replays, before + 15);
  EXPECT_THAT(instances(), SizeIs(2));
}

TEST_F(InstancesTest, InstanceThatIsNotNeededForLongIsDropped) {
  Passes(30, Forward, 1);
  ASSERT_THAT(instances(), SizeIs(2));
  const uint64_t program = ProgramBytes();
  const uint64_t bytes = instances()[0].bytes;
  Passes(static_cast<int>(kReplaysWithoutInstance) + 10, Forward, 0);
  EXPECT_THAT(instances(), SizeIs(1));
  EXPECT_EQ(plans_->stats().charge_bytes, program + bytes);
  const uint64_t before = stats().replays;
  Passes(30, Forward, 1);
  EXPECT_THAT(instances(), SizeIs(2));
  EXPECT_GE(stats().replays, before + 20);
  EXPECT_EQ(stats().escapes, 0u);
}

TEST_F(InstancesTest, LateExternalIsBoundInTheInstanceUnderWay) {
  const Step step = [](ModelProgram& p, const Tensors& w, float seed) {
    const ModelTensor x = p.Make(seed);
    const ModelTensor late = p.Make(seed + 100);
    const ModelTensor a = p.Add(x, w[0]);
    const ModelTensor b = p.Scale(a, 2);
    const ModelTensor c = p.Add(late, w[1]);
    const ModelTensor d = p.Scale(c, 3);
    return Tensors{a, b, c, d, p.Add(b, d)};
  };
  Passes(40, step, 1);
  ASSERT_THAT(instances(), SizeIs(2));
  EXPECT_GE(instances()[1].replays, 10u);
  EXPECT_EQ(stats().escapes, 0u);
}

TEST_F(InstancesTest, ProgramMayFeedItselfFromInstanceToInstance) {
  Tensors made = Forward(*program_, weights_, 1);
  Tensors expected = Forward(plain_, plain_weights_, 1);
  for (int pass = 0; pass < 40; ++pass) {
    made = Layers(*program_, weights_, program_->Scale(made.back(), 0.25f));
    expected =
        Layers(plain_, plain_weights_, plain_.Scale(expected.back(), 0.25f));
    builds_.RunAll();
    for (size_t i = 0; i < made.size(); ++i) {
      ASSERT_EQ(made[i].values(), expected[i].values()) << "pass " << pass;
    }
  }
  EXPECT_THAT(instances(), SizeIs(2));
  EXPECT_GT(stats().replays, 20u);
}

// Before each op of a pass on either instance, results of the other one kept.
class InstancesSquashTest : public InstancesTest,
                            public testing::WithParamInterface<int> {};

TEST_P(InstancesSquashTest, LeavingOneInstanceLeavesTheOthersResults) {
  const Step leaves = [](ModelProgram& p, const Tensors& w, float seed) {
    return Layers(p, w, p.Make(seed), GetParam());
  };
  for (const int passes : {30, 31}) {
    Restart(Defaults());
    Passes(passes, Forward, 1);
    ASSERT_THAT(instances(), SizeIs(2));
    const uint64_t before = stats().squashes;
    const std::vector<InstanceUse> uses = instances();
    Passes(1, leaves, 2);
    EXPECT_EQ(stats().squashes, before + (GetParam() == 0 ? 0 : 1));
    if (GetParam() != 0) {
      // The passes of even number run on one instance, the others on the other.
      const size_t index = uses[0].last_replay < uses[1].last_replay ? 0 : 1;
      EXPECT_EQ(instances()[index].replays, uses[index].replays + 1);
    }
    Passes(10, Forward, 2);
    EXPECT_GT(stats().replays, 20u);
  }
}

INSTANTIATE_TEST_SUITE_P(EveryOp, InstancesSquashTest, testing::Range(0, 12));

TEST_F(InstancesTest, RandomLeavesAndHoldsGivePlainResults) {
  uint64_t further_replays = 0;
  for (uint32_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    base::Options options = Defaults();
    options.max_instances = 1 + seed % 3;
    options.validate_share = seed % 2 == 0 ? 0.0 : 0.2;
    Restart(options);
    const size_t keep = random() % 4;
    for (int pass = 0; pass < 120; ++pass) {
      const int leave =
          random() % 24 == 0 ? static_cast<int>(random() % 12) : -1;
      const Step step = [leave](ModelProgram& p, const Tensors& w,
                                float value) {
        return Layers(p, w, p.Make(value), leave);
      };
      ASSERT_NO_FATAL_FAILURE(Pass(step, keep)) << "pass " << pass;
      if (random() % 2 == 0) builds_.RunAll();
      if (random() % 64 == 0) plans_->Trim(0);
    }
    EXPECT_GT(stats().replays, 0u);
    for (size_t i = 1; i < instances().size(); ++i) {
      further_replays += instances()[i].replays;
    }
    held_.clear();
    expected_.clear();
  }
  EXPECT_GT(further_replays, 100u);
}

}  // namespace
}  // namespace reprise::scheduler
