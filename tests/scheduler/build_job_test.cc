// Proves that what was built is in the cache once, for as long as somebody
// wants it, whenever the job is abandoned.

#include "scheduler/build_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "tests/sim/model_frontend.h"

namespace reprise::scheduler {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Builds plans without ops, as told.
class Backend final : public engine::Backend {
 public:
  base::Status StartRecording(Recording, uint64_t) override { return {}; }
  void StopRecording() override {}
  base::Status BeginOp(const engine::OpView&) override { return {}; }
  std::string EndOp(engine::TracedOp&) override { return {}; }
  bool wants_call() const override { return false; }
  bool Capturing() const override { return false; }
  Explained Explain(std::shared_ptr<const engine::Trace> first,
                    const engine::Trace&) override {
    ++explained;
    if (fails) {
      return tl::unexpected<engine::BuildFailure>(
          {base::Error(base::Code::kFailedPrecondition, "told to fail"), 7});
    }
    auto program = std::make_shared<engine::Program>(std::move(first));
    program->launches = launches;
    program->mechanism = "by nothing";
    program->host_bytes = program->trace->host_bytes + 5;
    return program;
  }
  base::Result<engine::InstanceParts> Instantiate(
      std::shared_ptr<const engine::Program>,
      std::shared_ptr<engine::Ledger> arena) override {
    ++instances;
    if (on_build) on_build();
    if (has_no_memory) {
      return base::Fail(base::Code::kResourceExhausted, "told to be short");
    }
    engine::InstanceParts parts;
    parts.bytes = 100;
    parts.shared = std::move(arena);
    return parts;
  }
  base::Result<engine::Ledger::Handle> MakeArena(uint64_t,
                                                 size_t values) override {
    ++arenas;
    return engine::Ledger::Create({}, values);
  }

  int explained = 0;
  int instances = 0;
  int arenas = 0;
  bool has_no_memory = false;
  bool fails = false;
  uint32_t launches = 2;
  std::function<void()> on_build;
};

class BuildJobTest : public testing::Test {
 protected:
  static constexpr size_t kBudget = 1000;

  std::shared_ptr<engine::Trace> MakeTrace(size_t host_bytes) {
    auto trace = std::make_shared<engine::Trace>(&frontend_);
    trace->host_bytes = host_bytes;
    return trace;
  }
  BuildJob::Parts Parts(uint64_t build) {
    BuildJob::Parts parts;
    parts.backend = &backend_;
    parts.plans = &plans_;
    parts.key = {build, this};
    return parts;
  }
  // Of a plan.
  std::shared_ptr<BuildJob> Job(uint64_t build = 1) {
    BuildJob::Parts parts = Parts(build);
    parts.first = MakeTrace(10);
    parts.second = MakeTrace(20);
    first_ = parts.first;
    second_ = parts.second;
    return std::make_shared<BuildJob>(std::move(parts));
  }
  // Of another instance of the plan of build 1.
  std::shared_ptr<BuildJob> NextJob() {
    BuildJob::Parts parts = Parts(2);
    parts.program = (*plans_.Lookup({1, this}))->program();
    return std::make_shared<BuildJob>(std::move(parts));
  }
  size_t charge() const { return plans_.stats().charge_bytes; }

  sim::ModelFrontend frontend_;
  Backend backend_;
  std::function<void()> on_evict_;
  PlanCache plans_{kBudget, [this](const PlanKey&, auto&) {
                     if (on_evict_) on_evict_();
                   }};
  // Of the last job.
  std::weak_ptr<const engine::Trace> first_;
  std::weak_ptr<const engine::Trace> second_;
};

TEST_F(BuildJobTest, WhatWasBuiltIsInTheCacheBeforeAnybodyComesForIt) {
  const auto job = Job();
  EXPECT_FALSE(job->done());
  EXPECT_EQ(job->recording_bytes(), 10u + 20u);
  job->Run();
  ASSERT_TRUE(job->done());
  EXPECT_EQ(job->recording_bytes(), 0u);
  EXPECT_EQ(charge(), 100u + 15u);
  const BuildJob::Outcome outcome = job->TakeOutcome();
  ASSERT_TRUE(outcome.has_value());
  EXPECT_THAT(outcome->refusal, IsEmpty());
  EXPECT_EQ(outcome->bytes, 100u);
  EXPECT_EQ(outcome->summary.launches, 2u);
  const PlanCache::Pin pin = plans_.Lookup(job->key());
  ASSERT_TRUE(pin);
  EXPECT_EQ((*pin)->program()->trace, first_.lock());
}

TEST_F(BuildJobTest, TheRecordingGoesWithThePlan) {
  Job()->Run();
  EXPECT_FALSE(first_.expired());
  // The program says all that it told.
  EXPECT_TRUE(second_.expired());
  plans_.Trim(0);
  EXPECT_TRUE(first_.expired());
}

TEST_F(BuildJobTest, AnotherInstanceIsOfTheSameProgram) {
  Job()->Run();
  const auto next = NextJob();
  EXPECT_EQ(next->recording_bytes(), 0u);
  next->Run();
  EXPECT_EQ(charge(), 100u + 15u + 100u);
  EXPECT_EQ(backend_.explained, 1);
  EXPECT_EQ(backend_.instances, 2);
  EXPECT_EQ((*plans_.Lookup({2, this}))->program(),
            (*plans_.Lookup({1, this}))->program());
}

TEST_F(BuildJobTest, WhatNobodyComesForGivesWay) {
  for (uint64_t build = 1; build <= 100; ++build) {
    Job(build)->Run();
    EXPECT_LE(charge(), kBudget);
  }
  EXPECT_EQ(plans_.stats().entries, kBudget / 115);
  EXPECT_EQ(plans_.stats().evictions, 100u - kBudget / 115);
}

TEST_F(BuildJobTest, AbandonedInTheQueueItIsNotRun) {
  const auto job = Job();
  job->Abandon();
  // The queue still has the job, and it no recordings.
  EXPECT_TRUE(first_.expired());
  EXPECT_TRUE(second_.expired());
  job->Run();
  EXPECT_FALSE(job->done());
  EXPECT_EQ(backend_.explained, 0);
  EXPECT_EQ(plans_.stats().entries, 0u);
}

TEST_F(BuildJobTest, AbandonedInTheMiddleItLeavesNothing) {
  const auto job = Job();
  backend_.on_build = [&job] { job->Abandon(); };
  job->Run();
  EXPECT_FALSE(job->done());
  EXPECT_EQ(backend_.instances, 1);
  EXPECT_EQ(plans_.stats().entries, 0u);
  EXPECT_EQ(charge(), 0u);
  EXPECT_TRUE(first_.expired());
}

// While it evicts another plan, which is just before its own is there.
TEST_F(BuildJobTest, AbandonedWhileThePlanIsPutItLeavesNothing) {
  for (uint64_t build = 1; build <= kBudget / 115; ++build) Job(build)->Run();
  const size_t entries = plans_.stats().entries;
  const auto job = Job(99);
  on_evict_ = [&job] { job->Abandon(); };
  job->Run();
  EXPECT_FALSE(job->done());
  EXPECT_FALSE(plans_.Contains(job->key()));
  EXPECT_EQ(plans_.stats().entries, entries - 1);
}

TEST_F(BuildJobTest, AbandonedWhenItIsDoneItLeavesNothing) {
  const auto job = Job();
  job->Run();
  job->Abandon();
  EXPECT_EQ(plans_.stats().entries, 0u);
  EXPECT_EQ(plans_.stats().evictions, 0u);
}

// The next build of the same trace has another key.
TEST_F(BuildJobTest, AbandonedItTouchesNoOtherPlan) {
  const auto job = Job(1);
  Job(2)->Run();
  job->Run();
  job->Abandon();
  EXPECT_TRUE(plans_.Contains({2, this}));
  EXPECT_EQ(plans_.stats().entries, 1u);
}

TEST_F(BuildJobTest, WhatIsNotWorthKeepingIsRefused) {
  backend_.launches = 1;
  auto job = Job();
  job->Run();
  EXPECT_THAT(job->TakeOutcome()->refusal, HasSubstr("single launch"));
  EXPECT_EQ(plans_.stats().entries, 0u);
  EXPECT_EQ(backend_.instances, 0);
  // Whoever asks why finds the recording there.
  EXPECT_FALSE(first_.expired());
  EXPECT_TRUE(second_.expired());
  job.reset();
  EXPECT_TRUE(first_.expired());
}

TEST_F(BuildJobTest, WhatHasNoMemoryFails) {
  Job()->Run();
  backend_.has_no_memory = true;
  for (const auto& job : {Job(3), NextJob()}) {
    job->Run();
    const BuildJob::Outcome outcome = job->TakeOutcome();
    ASSERT_FALSE(outcome.has_value());
    EXPECT_EQ(outcome.error().error.code(), base::Code::kResourceExhausted);
  }
  EXPECT_EQ(plans_.stats().entries, 1u);
}

TEST_F(BuildJobTest, WhatDoesNotFitIsRefused) {
  Job(1)->Run();
  const PlanCache::Pin in_use = plans_.Lookup({1, this});
  ASSERT_TRUE(plans_.Recharge(in_use, kBudget - 50));
  const auto job = Job(2);
  job->Run();
  EXPECT_THAT(job->TakeOutcome()->refusal, HasSubstr("raise the budget"));
  EXPECT_EQ(plans_.stats().entries, 1u);
}

TEST_F(BuildJobTest, AFailureIsTold) {
  backend_.fails = true;
  const auto job = Job();
  job->Run();
  ASSERT_TRUE(job->done());
  const BuildJob::Outcome outcome = job->TakeOutcome();
  ASSERT_FALSE(outcome.has_value());
  EXPECT_EQ(outcome.error().op, 7u);
  EXPECT_EQ(plans_.stats().entries, 0u);
}

TEST_F(BuildJobTest, AbandonedFromAnotherThreadAtAnyMoment) {
  for (uint64_t build = 1; build <= 2000; ++build) {
    const auto job = Job(build);
    std::thread builder([&job] { job->Run(); });
    for (uint64_t spin = 0; spin < build % 97; ++spin) {
      std::this_thread::yield();
    }
    job->Abandon();
    builder.join();
    ASSERT_EQ(plans_.stats().entries, 0u) << build;
    ASSERT_EQ(charge(), 0u);
    ASSERT_TRUE(first_.expired());
  }
}

}  // namespace
}  // namespace reprise::scheduler
