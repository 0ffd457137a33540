// A result of NVRTC's becomes an error that says what the caller can do.

#include "kernels/nvrtc_entries.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/sim/simulated_nvrtc.h"

namespace reprise::kernels {
namespace {

using base::Code;

TEST(NvrtcEntriesTest, ErrorsSayWhoseFaultItIsAndNameTheCall) {
  const sim::SimulatedNvrtc library;
  EXPECT_TRUE(Check(library.entries, NVRTC_SUCCESS, "nvrtcVersion"));
  const auto code_of = [&](nvrtcResult result) {
    const base::Status status = Check(library.entries, result, "nvrtcVersion");
    EXPECT_THAT(status.error().message(),
                testing::StartsWith("nvrtcVersion failed with "));
    return status.error().code();
  };
  EXPECT_EQ(code_of(NVRTC_ERROR_COMPILATION), Code::kInvalidArgument);
  EXPECT_EQ(code_of(NVRTC_ERROR_INVALID_OPTION), Code::kInvalidArgument);
  EXPECT_EQ(code_of(NVRTC_ERROR_OUT_OF_MEMORY), Code::kResourceExhausted);
  EXPECT_EQ(code_of(NVRTC_ERROR_BUILTIN_OPERATION_FAILURE), Code::kUnavailable);
  EXPECT_EQ(code_of(NVRTC_ERROR_INTERNAL_ERROR), Code::kInternal);
}

}  // namespace
}  // namespace reprise::kernels
