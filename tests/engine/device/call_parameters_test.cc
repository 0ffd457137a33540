// The stream and the event of a call are found in its parameters.

#include "engine/device/call_parameters.h"

#include <gtest/gtest.h>

#include <bit>

namespace reprise::device {
namespace {

#define REPRISE_ID(name) CUPTI_DRIVER_TRACE_CBID_##name

CUstream Stream(uintptr_t value) { return std::bit_cast<CUstream>(value); }
CUevent Event(uintptr_t value) { return std::bit_cast<CUevent>(value); }

TEST(CallParametersTest, UnknownCallsActOnEveryStream) {
  const DriverCall& call =
      ClassifyDriverCall(CUpti_CallbackId{CUPTI_DRIVER_TRACE_CBID_INVALID});
  EXPECT_TRUE(TouchesStream(call, nullptr, Stream(0x100)));
}

TEST(CallParametersTest, StreamIsFoundInTheParameters) {
  cuMemsetD8Async_params params{};
  params.hStream = Stream(0x100);
  const DriverCall& call = ClassifyDriverCall(REPRISE_ID(cuMemsetD8Async));
  EXPECT_TRUE(TouchesStream(call, &params, Stream(0x100)));
  EXPECT_FALSE(TouchesStream(call, &params, Stream(0x200)));
  EXPECT_FALSE(TouchesStream(call, &params, nullptr));
}

TEST(CallParametersTest, StreamIsFoundInTheLaunchConfiguration) {
  CUlaunchConfig config{};
  config.hStream = Stream(0x100);
  cuLaunchKernelEx_params params{};
  params.config = &config;
  const DriverCall& call = ClassifyDriverCall(REPRISE_ID(cuLaunchKernelEx));
  EXPECT_TRUE(TouchesStream(call, &params, Stream(0x100)));
  EXPECT_FALSE(TouchesStream(call, &params, Stream(0x200)));
}

TEST(CallParametersTest, LegacyDefaultStreamHasTwoNames) {
  cuEventRecord_params params{};
  const DriverCall& call = ClassifyDriverCall(REPRISE_ID(cuEventRecord));
  for (const CUstream name : {CUstream{nullptr}, CU_STREAM_LEGACY}) {
    params.hStream = name;
    EXPECT_TRUE(TouchesStream(call, &params, nullptr));
    EXPECT_TRUE(TouchesStream(call, &params, CU_STREAM_LEGACY));
    EXPECT_FALSE(TouchesStream(call, &params, CU_STREAM_PER_THREAD));
  }
}

TEST(CallParametersTest, NullMeansTheThreadsOwnStreamInPerThreadEntries) {
  cuEventRecord_ptsz_params params{};
  const DriverCall& call = ClassifyDriverCall(REPRISE_ID(cuEventRecord_ptsz));
  EXPECT_TRUE(TouchesStream(call, &params, CU_STREAM_PER_THREAD));
  EXPECT_FALSE(TouchesStream(call, &params, nullptr));
  params.hStream = CU_STREAM_LEGACY;
  EXPECT_TRUE(TouchesStream(call, &params, nullptr));
}

TEST(CallParametersTest, EventsAreFoundIfTheyAreUsedWithoutFlags) {
  cuEventRecord_params record{};
  record.hEvent = Event(0x10);
  auto found = EventCallOf(REPRISE_ID(cuEventRecord), &record);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->event, Event(0x10));
  EXPECT_FALSE(found->wait);
  cuStreamWaitEvent_params wait{};
  wait.hEvent = Event(0x20);
  found = EventCallOf(REPRISE_ID(cuStreamWaitEvent_ptsz), &wait);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->event, Event(0x20));
  EXPECT_TRUE(found->wait);
  wait.Flags = CU_EVENT_WAIT_EXTERNAL;
  EXPECT_FALSE(EventCallOf(REPRISE_ID(cuStreamWaitEvent), &wait).has_value());
  cuEventRecordWithFlags_params flagged{};
  EXPECT_TRUE(
      EventCallOf(REPRISE_ID(cuEventRecordWithFlags), &flagged).has_value());
  flagged.flags = CU_EVENT_RECORD_EXTERNAL;
  EXPECT_FALSE(
      EventCallOf(REPRISE_ID(cuEventRecordWithFlags), &flagged).has_value());
  EXPECT_FALSE(EventCallOf(REPRISE_ID(cuLaunchKernel), &record).has_value());
}

}  // namespace
}  // namespace reprise::device
