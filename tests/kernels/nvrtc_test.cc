// Compiling CUDA source at run time; needs NVRTC, but no device.

#include "kernels/nvrtc.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/compare_source.h"
#include "tests/engine/device/cuda_libraries.h"

namespace reprise::kernels {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

class NvrtcTest : public ::testing::Test {
 protected:
  void SetUp() override {
    device::PreloadCudaLibraries();
    const auto probe = CompileToCubin("", "empty.cu", "sm_90", {});
    if (!probe && probe.error().code() == base::Code::kUnavailable) {
      GTEST_SKIP() << probe.error().message();
    }
  }
};

bool IsElf(const std::vector<char>& cubin) {
  return cubin.size() > 4 && std::string(cubin.data(), 4) ==
                                 "\x7f"
                                 "ELF";
}

bool Mentions(const std::vector<char>& cubin, const std::string& text) {
  return std::string(cubin.data(), cubin.size()).find(text) !=
         std::string::npos;
}

TEST_F(NvrtcTest, CompilesTheCompareKernels) {
  for (const char* arch : {"sm_80", "sm_90", "sm_100"}) {
    const auto cubin = CompileToCubin(kCompareSource, "compare.cu", arch, {});
    ASSERT_TRUE(cubin) << cubin.error().message();
    EXPECT_TRUE(IsElf(*cubin));
    EXPECT_TRUE(Mentions(*cubin, "compare_dense"));
    EXPECT_TRUE(Mentions(*cubin, "compare_strided_16"));
  }
}

TEST_F(NvrtcTest, OptionsReachTheCompiler) {
  const std::string source =
      "extern \"C\" __global__ void NAME(int* p) { *p = 1; }";
  const std::string options[] = {"-DNAME=some_kernel"};
  const auto cubin = CompileToCubin(source, "named.cu", "sm_90", options);
  ASSERT_TRUE(cubin) << cubin.error().message();
  EXPECT_TRUE(Mentions(*cubin, "some_kernel"));
}

TEST_F(NvrtcTest, ErrorCarriesTheCompilersLog) {
  const auto cubin = CompileToCubin("__global__ void f() { undeclared(); }",
                                    "broken.cu", "sm_90", {});
  ASSERT_FALSE(cubin);
  EXPECT_EQ(cubin.error().code(), base::Code::kInvalidArgument);
  EXPECT_THAT(cubin.error().message(),
              AllOf(HasSubstr("broken.cu"), HasSubstr("undeclared")));
}

TEST_F(NvrtcTest, UnknownOptionOrArchitectureIsTheCallersFault) {
  const std::string options[] = {"--no-such-option"};
  const auto option = CompileToCubin("", "empty.cu", "sm_90", options);
  ASSERT_FALSE(option);
  EXPECT_EQ(option.error().code(), base::Code::kInvalidArgument);
  const auto arch = CompileToCubin("", "empty.cu", "sm_12345", {});
  ASSERT_FALSE(arch);
  EXPECT_EQ(arch.error().code(), base::Code::kInvalidArgument);
}

}  // namespace
}  // namespace reprise::kernels
