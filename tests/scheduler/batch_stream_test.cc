// Proves when a batch is launched by itself and when as a graph, which graphs
// are kept, and what is refused before anything runs, on the simulated driver.

#include "scheduler/batch_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bindings/native/device.h"
#include "engine/base/task.h"
#include "engine/batch/batch_event.h"
#include "engine/batch/compile_service.h"
#include "scheduler/patch_service.h"
#include "tests/engine/base/manual_task_runner.h"
#include "tests/engine/batch/patching_fixture.h"

namespace reprise::scheduler {
namespace {

using base::Code;
using engine::BatchRecord;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class BatchStreamTest : public engine::PatchingTest {
 protected:
  static constexpr uint64_t kBuildAfter = 3;
  static constexpr size_t kMostGraphs = 3;

  // Three launches, which are to give these sums.
  void Submit(float by, uint32_t grid = 1) {
    const base::Status submitted =
        batches_.Submit(Record(add_code_, by, 3, grid));
    ASSERT_TRUE(submitted) << submitted.error().message();
    ExpectSums(by);
  }
  void SubmitOften(uint64_t times, uint32_t grid = 1) {
    for (uint64_t i = 0; i < times; ++i) Submit(static_cast<float>(i), grid);
  }
  // One launch, which is never a graph.
  void SubmitOthers(int times) {
    for (int i = 0; i < times; ++i) {
      ASSERT_TRUE(batches_.Submit(Record(multiply_code_, 1, 1)));
    }
  }
  engine::StreamStats stats() const { return batches_.stats(); }
  // Why it is refused, before anything is launched.
  std::string Refusal(const BatchRecord& record, Code code) {
    const base::Status submitted = batches_.Submit(record);
    EXPECT_FALSE(submitted);
    EXPECT_EQ(stats().launches, 0u);
    if (submitted) return "";
    EXPECT_EQ(submitted.error().code(), code);
    return submitted.error().message();
  }

  const std::unique_ptr<native::Device> device_ =
      native::MakeCudaDevice(gpu_.driver, gpu_.context);
  engine::CompileService compiler_{*device_, ""};
  base::ManualTaskRunner queue_;
  PatchService patching_{device_.get(), &compiler_, &queue_,
                         base::Patching::kSetParams};
  BatchStream batches_{
      {device_.get(), &patching_, &queue_, gpu_.stream},
      {.build_after = kBuildAfter, .most_graphs = kMostGraphs}};
};

TEST_F(BatchStreamTest, ABatchThatHasComeOftenIsAGraphOnceThatIsBuilt) {
  SubmitOften(kBuildAfter - 1);
  EXPECT_EQ(queue_.pending(), 0u);
  Submit(7);
  EXPECT_EQ(queue_.pending(), 1u);
  Submit(8);  // while it is built
  EXPECT_EQ(stats().launches, 3 * (kBuildAfter + 1));
  queue_.RunAll();
  Submit(9);
  Submit(10);
  EXPECT_EQ(stats().launches, 3 * (kBuildAfter + 1));
  EXPECT_EQ(stats().built, 1u);
  EXPECT_EQ(stats().replayed, 2u);
  EXPECT_EQ(stats().patched, 6u);
  EXPECT_EQ(stats().plans, 1u);
  EXPECT_EQ(stats().batches, kBuildAfter + 3);
}

TEST_F(BatchStreamTest, OneLaunchIsNoGraph) {
  SubmitOthers(20);
  EXPECT_EQ(queue_.pending(), 0u);
  EXPECT_EQ(stats().launches, 20u);
}

TEST_F(BatchStreamTest, OtherLaunchesAreAnotherBatch) {
  SubmitOften(kBuildAfter);
  queue_.RunAll();
  SubmitOften(kBuildAfter, /*grid=*/2);
  EXPECT_EQ(stats().replayed, 0u);
  queue_.RunAll();
  Submit(1, 2);
  Submit(1, 1);
  EXPECT_EQ(stats().built, 2u);
  EXPECT_EQ(stats().replayed, 2u);
}

// The second launch reads what the first one has not written any more.
TEST_F(BatchStreamTest, LaunchesThatWaitForOthersAreAnotherBatch) {
  SubmitOften(kBuildAfter);
  queue_.RunAll();
  BatchRecord record;
  for (size_t i : {0, 2, 4}) {
    float* to = &memory_[i + 1];
    const float* from = &memory_[i];
    const float by = 1;
    std::byte* image = record.AddKernel(add_code_.get(), {}, kImageBytes);
    std::memcpy(image, &to, 8);
    std::memcpy(image + 8, &from, 8);
    std::memcpy(image + 16, &by, 4);
    record.AddAccess(to, 1, 4, true, 0);
    record.AddAccess(from, 1, 4, false, 1);
    record.EndLaunch();
  }
  ASSERT_TRUE(batches_.Submit(record));
  EXPECT_EQ(stats().replayed, 0u);
}

TEST_F(BatchStreamTest, TheGraphNotUsedForTheLongestTimeGoes) {
  for (const uint32_t grid : {1, 2, 3}) {
    SubmitOften(kBuildAfter, grid);
    queue_.RunAll();
    Submit(1, grid);
  }
  Submit(1, 1);
  SubmitOthers(1);
  EXPECT_EQ(stats().plans, 2u);
  EXPECT_THAT(gpu_.execs(), SizeIs(3)) << "its end is no work for this thread";
  queue_.RunAll();
  EXPECT_THAT(gpu_.execs(), SizeIs(2));
  const uint64_t replayed = stats().replayed;
  Submit(1, 1);
  Submit(1, 3);
  EXPECT_EQ(stats().replayed, replayed + 2);
}

TEST_F(BatchStreamTest, ARefusedBuildIsTriedAgainAfterTwiceAsManyBatches) {
  SubmitOften(kBuildAfter);
  gpu_.FailAfter(4);
  queue_.RunAll();
  gpu_.FailAfter(-1);
  ASSERT_NE(gpu_.failed, "");
  Submit(1);
  EXPECT_EQ(stats().refused, 1u);
  ASSERT_THAT(batches_.plans(), SizeIs(1));
  EXPECT_THAT(batches_.plans()[0].why_not, HasSubstr(gpu_.failed));
  SubmitOften(kBuildAfter - 2);
  EXPECT_EQ(queue_.pending(), 0u);
  Submit(1);
  EXPECT_EQ(queue_.pending(), 1u);
  queue_.RunAll();
  Submit(2);
  EXPECT_EQ(stats().replayed, 1u);
  EXPECT_EQ(batches_.plans()[0].why_not, "");
}

TEST_F(BatchStreamTest, ANewBatchTakesOverTheGraphOfOneThatIsIdle) {
  SubmitOften(kBuildAfter);
  queue_.RunAll();
  Submit(1);
  SubmitOthers(15);
  const uint64_t launches = stats().launches;
  Submit(5, /*grid=*/2);
  EXPECT_EQ(stats().taken_over, 1u);
  EXPECT_EQ(stats().launches, launches);
  EXPECT_EQ(stats().plans, 1u);
}

TEST_F(BatchStreamTest, AGraphInUseOrOfMoreLaunchesIsNotTakenOver) {
  SubmitOften(kBuildAfter);
  queue_.RunAll();
  Submit(1);
  SubmitOthers(14);
  Submit(5, /*grid=*/2);
  EXPECT_EQ(stats().taken_over, 0u);
  SubmitOthers(1);
  ASSERT_TRUE(batches_.Submit(Record(add_code_, 1, 2)));
  EXPECT_EQ(stats().taken_over, 0u);
}

TEST_F(BatchStreamTest, WhileTheProgramCapturesNothingIsReplayed) {
  SubmitOften(kBuildAfter);
  queue_.RunAll();
  gpu_.capturing = true;
  Submit(1);
  gpu_.capturing = false;
  EXPECT_EQ(stats().replayed, 0u);
  Submit(2);
  EXPECT_EQ(stats().replayed, 1u);
}

TEST_F(BatchStreamTest, WorkThatNobodyKnowsIsCalledEachTime) {
  int calls = 0;
  for (int i = 0; i < 10; ++i) {
    BatchRecord record = Record(add_code_, 1);
    record.AddCapture(nullptr, [&calls](CUstream) -> base::Status {
      ++calls;
      return {};
    });
    record.EndLaunch();
    ASSERT_TRUE(batches_.Submit(record));
    queue_.RunAll();
  }
  EXPECT_EQ(calls, 10);
  EXPECT_EQ(stats().built, 0u);
}

TEST_F(BatchStreamTest, MistakesAndKernelsThatFailedAreRefused) {
  BatchRecord mistaken = Record(add_code_, 1);
  mistaken.Refuse("is wrong");
  EXPECT_THAT(Refusal(mistaken, Code::kInvalidArgument), HasSubstr("is wrong"));
  EXPECT_EQ(stats().batches, 0u);
  auto failed = std::make_shared<engine::KernelCode>("broken", add_.params);
  failed->Fail(base::Error(Code::kUnavailable, "does not compile"));
  EXPECT_THAT(Refusal(Record(failed, 1), Code::kUnavailable),
              HasSubstr("launch 0 (kernel 'broken'): does not compile"));
}

TEST_F(BatchStreamTest, AWaitForWhatWasNotSubmittedIsRefused) {
  struct Event final : engine::BatchEvent {
    Event() : BatchEvent(nullptr, /*recorded=*/false) {}
  };
  const auto event = std::make_shared<Event>();
  BatchRecord record = Record(add_code_, 1);
  record.AddWait(event);
  EXPECT_THAT(Refusal(record, Code::kFailedPrecondition),
              HasSubstr("launch 3 (wait)"));
  event->set_recorded();
  EXPECT_TRUE(BatchChecks::CheckWaits(record));
}

TEST_F(BatchStreamTest, RecordsGoRoundAndComeEmpty) {
  std::unique_ptr<BatchRecord> record = batches_.TakeRecord();
  record->AddKernel(add_code_.get(), {}, kImageBytes);
  const BatchRecord* const same = record.get();
  batches_.ReturnRecord(std::move(record));
  record = batches_.TakeRecord();
  EXPECT_EQ(record.get(), same);
  EXPECT_THAT(record->nodes(), IsEmpty());
}

}  // namespace
}  // namespace reprise::scheduler
