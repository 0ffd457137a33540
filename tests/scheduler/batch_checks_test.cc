// What is wrong with a batch is found before it runs, and named.

#include "scheduler/batch_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "bindings/native/device.h"
#include "engine/batch/batch_event.h"
#include "tests/engine/batch/patching_fixture.h"

namespace reprise::scheduler {
namespace {

using base::Code;
using engine::BatchRecord;
using ::testing::HasSubstr;

std::string Told(const base::Status& status, Code code) {
  EXPECT_FALSE(status);
  if (status) return "";
  EXPECT_EQ(status.error().code(), code);
  return status.error().message();
}

class BatchChecksTest : public engine::PatchingTest {
 protected:
  const std::unique_ptr<native::Device> device_ =
      native::MakeCudaDevice(gpu_.driver, gpu_.context);
  const BatchChecks checks_{device_.get()};
};

TEST_F(BatchChecksTest, WhatIsRightIsNotRefused) {
  EXPECT_TRUE(checks_.Check(Record(add_code_, 1)));
  EXPECT_TRUE(BatchChecks::CheckWaits(Record(add_code_, 1)));
}

TEST_F(BatchChecksTest, AMistakeOfTheRecordIsRefused) {
  BatchRecord record = Record(add_code_, 1);
  record.Refuse("is wrong");
  EXPECT_THAT(Told(checks_.Check(record), Code::kInvalidArgument),
              HasSubstr("is wrong"));
}

TEST_F(BatchChecksTest, AKernelThatDoesNotCompileIsNamed) {
  auto failed = std::make_shared<engine::KernelCode>("broken", add_.params);
  failed->Fail(base::Error(Code::kUnavailable, "does not compile"));
  EXPECT_THAT(Told(checks_.Check(Record(failed, 1)), Code::kUnavailable),
              HasSubstr("launch 0 (kernel 'broken'): does not compile"));
}

TEST_F(BatchChecksTest, AWaitForWhatWasNotSubmittedIsRefused) {
  struct Event final : engine::BatchEvent {
    Event() : BatchEvent(nullptr, /*recorded=*/false) {}
  };
  const auto event = std::make_shared<Event>();
  BatchRecord record = Record(add_code_, 1);
  record.AddWait(event);
  EXPECT_THAT(Told(BatchChecks::CheckWaits(record), Code::kFailedPrecondition),
              HasSubstr("launch 3 (wait)"));
  event->set_recorded();
  EXPECT_TRUE(BatchChecks::CheckWaits(record));
}

// Nobody knows there which memory a launch may touch.
TEST_F(BatchChecksTest, OnAGpuNoMemoryIsRefused) {
  const BatchRecord record = Record(add_code_, 1);
  const std::vector<std::byte> nowhere(record.image().size());
  EXPECT_TRUE(checks_.CheckMemory(record.nodes(), record.accesses(), nowhere));
}

}  // namespace
}  // namespace reprise::scheduler
