// Proves that a tool sees each range once, whoever ends it, and that without
// one nothing happens. A process finds its tool once: each test is one of its
// own.

#include "engine/device/nvtx_range.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <utility>

#include "tests/engine/device/nvtx_tool.h"

namespace reprise::device {
namespace {

using testing::ElementsAre;

// Ends the process: 0 if nothing has failed in it.
[[noreturn]] void End() { std::_Exit(testing::Test::HasFailure() ? 1 : 0); }

void WithTool() {
  AttachNvtxTool();
  EXPECT_TRUE(NvtxRange::Attached());
  {
    NvtxRange first("first");
    NvtxRange second("second");
    EXPECT_EQ(TakeNvtxRanges().open, 2u);
    first = NvtxRange();
    EXPECT_THAT(TakeNvtxRanges().ended, ElementsAre("reprise: first"));
    NvtxRange moved(std::move(second));
    second = NvtxRange("third");
    std::thread([range = std::move(moved)] {}).join();
    EXPECT_THAT(TakeNvtxRanges().ended, ElementsAre("reprise: second"));
  }
  const NvtxRanges last = TakeNvtxRanges();
  EXPECT_THAT(last.ended, ElementsAre("reprise: third"));
  EXPECT_EQ(last.open, 0u);
  End();
}

void WithoutTool() {
  unsetenv("NVTX_INJECTION64_PATH");
  EXPECT_FALSE(NvtxRange::Attached());
  { const NvtxRange range("nobody sees it"); }
  const NvtxRanges none = TakeNvtxRanges();
  EXPECT_TRUE(none.ended.empty());
  EXPECT_EQ(none.open, 0u);
  End();
}

void WithAToolThatIsNotThere() {
  setenv("NVTX_INJECTION64_PATH", "/no/such/tool.so", /*overwrite=*/1);
  EXPECT_FALSE(NvtxRange::Attached());
  { const NvtxRange range("nobody sees it"); }
  End();
}

TEST(NvtxRangeDeathTest, AToolSeesEachRangeOnce) {
  EXPECT_EXIT(WithTool(), testing::ExitedWithCode(0), "");
}

TEST(NvtxRangeDeathTest, WithoutAToolThereIsNone) {
  EXPECT_EXIT(WithoutTool(), testing::ExitedWithCode(0), "");
}

TEST(NvtxRangeDeathTest, AToolThatIsNotThereIsNone) {
  EXPECT_EXIT(WithAToolThatIsNotThere(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace reprise::device
