// Whatever call of CUPTI's fails, a recording is whole or says why there is
// none, and the next one finds CUPTI free.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>

#include "engine/device/launch_recorder.h"
#include "tests/sim/simulated_gpu.h"

namespace reprise::device {
namespace {

using sim::FailingCalls;
using sim::SimulatedGpu;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;

void Add(uint32_t* to, uint32_t number) { *to += number; }

class RecorderFailuresTest
    : public testing::TestWithParam<FailingCalls::Lasts> {
 protected:
  // One op, recorded. Eager runs whatever becomes of the recording.
  base::Status Record() {
    const base::Status started = recorder_->Start(gpu_->stream);
    EXPECT_EQ(recorder_->active(), started.has_value());
    const base::Status begun = recorder_->BeginOp();
    EXPECT_EQ(begun.has_value(), started.has_value());
    const uint32_t before = word_;
    gpu_->Launch(add_, &word_, 3u);
    gpu_->streams.Synchronize(gpu_->stream);
    EXPECT_EQ(word_, before + 3);
    const RecordedLaunches recorded = recorder_->EndOp();
    if (started) {
      EXPECT_EQ(recorded.refusal, "");
      EXPECT_THAT(recorded.launches, SizeIs(1));
    } else {
      EXPECT_NE(recorded.refusal, "");
    }
    recorder_->Stop();
    EXPECT_FALSE(recorder_->active());
    return started;
  }

  // All that a recorder does with CUPTI, and what went wrong first.
  base::Status RunAll() {
    base::Status status = recorder_->Attach();
    for (int i = 0; i < 3; ++i) {
      if (base::Status recorded = Record(); !recorded && status) {
        status = recorded;
      }
      if (i == 1) recorder_->Resting(1'000'000);  // enough to detach
    }
    recorder_->Resting(1'000'000);
    return status;
  }

  // Fails that call of CUPTI's, in a new world; false if there are fewer.
  bool FailAfter(int calls) {
    recorder_.reset();
    gpu_.reset();
    gpu_ = std::make_unique<SimulatedGpu>();
    recorder_ = LaunchRecorder::Create(gpu_->driver, gpu_->cupti);
    gpu_->cupti_calls.FailAfter(calls, GetParam());
    status_ = RunAll();
    return !gpu_->cupti_calls.failed().empty();
  }

  std::unique_ptr<SimulatedGpu> gpu_;
  std::unique_ptr<LaunchRecorder> recorder_;
  base::Status status_;
  SimulatedGpu::Kernel add_ = SimulatedGpu::MakeKernel(&Add);
  uint32_t word_ = 0;
};

TEST_P(RecorderFailuresTest, RecordingIsWholeOrNamesTheCall) {
  std::set<std::string> failed;
  std::set<std::string> told;
  for (int calls = 0; FailAfter(calls); ++calls) {
    SCOPED_TRACE(testing::Message() << "after " << calls << " calls");
    ASSERT_LT(calls, 100);
    failed.insert(gpu_->cupti_calls.failed());
    if (status_) continue;
    told.insert(gpu_->cupti_calls.failed());
    EXPECT_EQ(status_.error().code(), base::Code::kUnavailable);
    // A subscription that cannot be ended is in its own way.
    EXPECT_THAT(status_.error().message(),
                AnyOf(HasSubstr("cuptiSubscribe_v2 failed with"),
                      HasSubstr("cuptiEnableDomain failed with"),
                      HasSubstr("another tool holds CUPTI")));
  }
  EXPECT_TRUE(status_) << "that of the run in which nothing failed";
  EXPECT_EQ(gpu_->finalized, 2);
  EXPECT_THAT(failed, SizeIs(4));
  EXPECT_TRUE(told.contains("cuptiSubscribe_v2"));
  EXPECT_TRUE(told.contains("cuptiEnableDomain"));
}

TEST_P(RecorderFailuresTest, NothingIsInTheWayOfTheNextRecording) {
  for (int calls = 0; FailAfter(calls); ++calls) {
    SCOPED_TRACE(testing::Message() << "after " << calls << " calls");
    gpu_->cupti_calls.FailAfter(-1);  // whatever it was is over
    const base::Status next = Record();
    EXPECT_TRUE(next) << next.error().message();
    const int finalized = gpu_->finalized;
    recorder_->Resting(1'000'000);
    EXPECT_EQ(gpu_->finalized, finalized + 1);
    EXPECT_FALSE(gpu_->subscribed());
  }
}

TEST_P(RecorderFailuresTest, EndOfTheRecorderEndsTheSubscription) {
  for (int calls = 0; FailAfter(calls); ++calls) {
    SCOPED_TRACE(testing::Message() << "after " << calls << " calls");
    gpu_->cupti_calls.FailAfter(-1);
    recorder_.reset();
    EXPECT_FALSE(gpu_->subscribed());
    EXPECT_EQ(gpu_->objects(), 0u);
  }
}

// Detached in vain, CUPTI makes launches dearer: it is detached later.
TEST_P(RecorderFailuresTest, CuptiThatCouldNotBeDetachedIsDetachedLater) {
  ASSERT_FALSE(FailAfter(1000));
  ASSERT_TRUE(Record());
  const int finalized = gpu_->finalized;
  gpu_->cupti_calls.FailAfter(1, GetParam());  // unsubscribed
  recorder_->Resting(1'000'000);
  EXPECT_EQ(gpu_->cupti_calls.failed(), "cuptiFinalize");
  EXPECT_EQ(gpu_->finalized, finalized);
  gpu_->cupti_calls.FailAfter(-1);
  const int asked = gpu_->cupti_calls.count();
  recorder_->Resting(100);  // not at once
  EXPECT_EQ(gpu_->cupti_calls.count(), asked);
  recorder_->Resting(1'000'000);
  EXPECT_EQ(gpu_->finalized, finalized + 1);
}

INSTANTIATE_TEST_SUITE_P(Lasts, RecorderFailuresTest,
                         testing::Values(FailingCalls::Lasts::kOnce,
                                         FailingCalls::Lasts::kForGood),
                         [](const auto& info) {
                           return FailingCalls::NameOf(info.param);
                         });

}  // namespace
}  // namespace reprise::device
