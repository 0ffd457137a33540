// CUPTI's table is whole, and one for the process.

#include "engine/device/cupti.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "tests/engine/device/cuda_libraries.h"

namespace reprise::device {
namespace {

using ::testing::HasSubstr;

TEST(CuptiTest, IsWholeOrNotThere) {
  PreloadCudaLibraries();
  const auto cupti = Cupti::Load();
  if (!cupti) {
    EXPECT_EQ(cupti.error().code(), base::Code::kUnavailable);
    EXPECT_THAT(cupti.error().message(), HasSubstr("libcupti.so.13"));
    return;
  }
  EXPECT_NE((*cupti)->cuptiSubscribe_v2, nullptr);
  EXPECT_NE((*cupti)->cuptiUnsubscribe, nullptr);
  EXPECT_NE((*cupti)->cuptiEnableDomain, nullptr);
  EXPECT_NE((*cupti)->cuptiFinalize, nullptr);
  // It names results without a device.
  const char* text = nullptr;
  ASSERT_EQ((*cupti)->cuptiGetResultString(CUPTI_SUCCESS, &text),
            CUPTI_SUCCESS);
  EXPECT_STREQ(text, "CUPTI_SUCCESS");
}

TEST(CuptiTest, IsLoadedOnceForAllThreads) {
  PreloadCudaLibraries();
  const auto first = Cupti::Load();
  std::thread([&first] {
    const auto second = Cupti::Load();
    ASSERT_EQ(second.has_value(), first.has_value());
    if (first) {
      EXPECT_EQ(*second, *first);
    }
  }).join();
}

}  // namespace
}  // namespace reprise::device
