// A program becomes machine code or PTX, or an error, and is always destroyed.

#include "kernels/nvrtc_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/sim/simulated_nvrtc.h"

namespace reprise::kernels {
namespace {

using sim::SimulatedNvrtc;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

class NvrtcProgramTest : public testing::Test {
 protected:
  SimulatedNvrtc library_;
  const KernelSource source_ = {
      .source = "template <int n> __global__ void f() {}",
      .name = "mine.cu",
      .name_expressions = {"f<1>"}};
};

TEST_F(NvrtcProgramTest, TheTargetSaysInWhichFormTheCodeIs) {
  for (const std::string target : {"sm_90", "compute_90"}) {
    NvrtcProgram program(library_.entries, source_);
    const auto code = program.Compile(target);
    ASSERT_TRUE(code) << code.error().message();
    EXPECT_EQ(code->format,
              target == "sm_90" ? CodeFormat::kCubin : CodeFormat::kPtx);
    EXPECT_EQ(code->architecture, target);
    EXPECT_EQ(std::string(code->image.data()),
              SimulatedNvrtc::CodeOf(target, source_.source));
    EXPECT_THAT(code->lowered_names, Contains(Pair("f<1>", "_Zf<1>")));
    EXPECT_EQ(code->log, "SIMULATED log");
    EXPECT_EQ(library_.programs(), 1u);
  }
  EXPECT_EQ(library_.programs(), 0u);
}

TEST_F(NvrtcProgramTest, ASourceThatDoesNotCompileIsNamedWithTheLog) {
  library_.compile_error = NVRTC_ERROR_COMPILATION;
  {
    NvrtcProgram program(library_.entries, source_);
    const auto code = program.Compile("sm_90");
    ASSERT_FALSE(code);
    EXPECT_EQ(code.error().code(), base::Code::kInvalidArgument);
    EXPECT_THAT(code.error().message(),
                HasSubstr(" for mine.cu\nSIMULATED log"));
    EXPECT_THAT(program.unknown(), IsEmpty());
    EXPECT_EQ(program.Log(), "SIMULATED log");
  }
  EXPECT_EQ(library_.programs(), 0u);
}

TEST_F(NvrtcProgramTest, AnOptionThatIsNoneIsToldAsOne) {
  library_.compile_error = NVRTC_ERROR_INVALID_OPTION;
  NvrtcProgram program(library_.entries, source_);
  const auto code = program.Compile("sm_90");
  ASSERT_FALSE(code);
  EXPECT_THAT(code.error().message(),
              HasSubstr("mine.cu has an option that NVRTC does not take "
                        "(SIMULATED log): give NVRTC's own"));
}

}  // namespace
}  // namespace reprise::kernels
