// Compiling CUDA source at run time; needs NVRTC, but no device.

#include "kernels/nvrtc.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "kernels/compare_source.h"
#include "tests/kernels/nvrtc_fixture.h"

namespace reprise::kernels {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

class NvrtcTest : public NvrtcFixture {
 protected:
  // What is wrong with `source`, which is the caller's fault.
  std::string Fault(const KernelSource& source) {
    const auto code = nvrtc_->Compile(source);
    if (code) return "";
    EXPECT_EQ(code.error().code(), base::Code::kInvalidArgument);
    return code.error().message();
  }
};

constexpr char kTemplate[] =
    "template <typename T> __global__ void scale(T* p) { *p *= T(2); }\n"
    "namespace deep { __constant__ float table[4]; }\n";

TEST_F(NvrtcTest, CompilesTheCompareKernels) {
  for (const char* arch : {"sm_80", "sm_90", "sm_100"}) {
    const auto code = nvrtc_->CompileFor(
        arch, {.source = kCompareSource, .name = "compare.cu"});
    ASSERT_TRUE(code) << code.error().message();
    EXPECT_TRUE(IsElf(code->image));
    EXPECT_TRUE(Mentions(code->image, "compare_dense"));
    EXPECT_TRUE(Mentions(code->image, "compare_strided_16"));
  }
}

TEST_F(NvrtcTest, OptionsReachTheCompiler) {
  const auto code = nvrtc_->Compile(
      {.source = "extern \"C\" __global__ void NAME(int* p) { *p = 1; }",
       .architecture = "sm_90",
       .options = {"-DNAME=some_kernel"}});
  ASSERT_TRUE(code) << code.error().message();
  EXPECT_TRUE(IsElf(code->image));
  EXPECT_TRUE(Mentions(code->image, "some_kernel"));
  EXPECT_THAT(code->log, IsEmpty());
}

TEST_F(NvrtcTest, NameExpressionsInstantiateTemplates) {
  const auto code = nvrtc_->Compile(
      {.source = kTemplate,
       .architecture = "sm_90",
       .name_expressions = {"scale<float>", "scale<double>", "&deep::table"}});
  ASSERT_TRUE(code) << code.error().message();
  ASSERT_EQ(code->lowered_names.size(), 3);
  EXPECT_EQ(code->lowered_names.at("scale<float>"), "_Z5scaleIfEvPT_");
  for (const auto& [expression, name] : code->lowered_names) {
    EXPECT_TRUE(Mentions(code->image, name)) << expression;
  }
}

TEST_F(NvrtcTest, UnknownNameExpressionIsNamed) {
  EXPECT_THAT(Fault({.source = kTemplate,
                     .name = "mine.cu",
                     .architecture = "sm_90",
                     .name_expressions = {"scale<float>", "skale< float >",
                                          "scale<flote>"}}),
              AllOf(StartsWith("mine.cu has no kernel 'scale<flote>': it has "
                               "the template scale, named with arguments as "
                               "in scale<float> (of scale<flote>, skale< float "
                               ">)\n"),
                    HasSubstr("\"flote\" is undefined")));
  EXPECT_THAT(Fault({.source = kTemplate,
                     .name = "mine.cu",
                     .architecture = "sm_90",
                     .name_expressions = {"&deep::tabel"}}),
              StartsWith("mine.cu has no &deep::tabel\n"));
}

TEST_F(NvrtcTest, MessagesCountTheCallersLines) {
  EXPECT_THAT(
      Fault(
          {.source = "#include \"lib/half.h\"\n\n\n__global__ void f() {\n"
                     "  undeclared();\n}",
           .name = "mine.cu",
           .architecture = "sm_90",
           .headers = {{"lib/half.h", "\n__device__ int not_here = none;\n"}}}),
      AllOf(HasSubstr("mine.cu(5)"), HasSubstr("undeclared"),
            HasSubstr("lib/half.h(2)"), HasSubstr("none")));
}

TEST_F(NvrtcTest, WarningsAreKept) {
  const auto code =
      nvrtc_->Compile({.source = "\n__global__ void f() { int unused; }",
                       .name = "mine.cu",
                       .architecture = "sm_90"});
  ASSERT_TRUE(code) << code.error().message();
  EXPECT_THAT(code->log, AllOf(HasSubstr("mine.cu(2)"), HasSubstr("unused")));
}

TEST_F(NvrtcTest, UnknownOptionOrArchitectureIsTheCallersFault) {
  EXPECT_THAT(Fault({.architecture = "sm_90", .options = {"--no-such-option"}}),
              HasSubstr("--no-such-option"));
  EXPECT_THAT(Fault({.architecture = "sm_20"}), HasSubstr("sm_20"));
  EXPECT_THAT(Fault({.architecture = "hopper"}), HasSubstr("'hopper'"));
  EXPECT_THAT(Fault({.architecture = "sm_"}), HasSubstr("'sm_'"));
  EXPECT_THAT(Fault({.architecture = ""}), HasSubstr("''"));
  const auto code = nvrtc_->CompileFor("sm_12345", {});
  ASSERT_FALSE(code);
  EXPECT_EQ(code.error().code(), base::Code::kInvalidArgument);
}

TEST_F(NvrtcTest, OptionsForAnotherOutputAreTheCallersFault) {
  EXPECT_THAT(
      Fault(
          {.source = kTemplate, .architecture = "sm_90", .options = {"-dlto"}}),
      HasSubstr("no code"));
}

TEST_F(NvrtcTest, TextsWithZerosAreRefused) {
  const std::string zero("a\0b", 3);
  EXPECT_THAT(Fault({.source = zero, .architecture = "sm_90"}),
              HasSubstr("offset 1"));
  EXPECT_THAT(Fault({.architecture = "sm_90", .headers = {{"a.h", zero}}}),
              HasSubstr("header"));
  EXPECT_THAT(Fault({.architecture = "sm_90", .name_expressions = {zero}}),
              HasSubstr("expression"));
}

TEST_F(NvrtcTest, UnknownDeviceIsGivenPtxOfTheNewestArchitectureBelow) {
  const auto target = nvrtc_->TargetFor("sm_12345");
  ASSERT_TRUE(target) << target.error().message();
  EXPECT_THAT(*target, AllOf(HasSubstr("compute_"), Not(HasSubstr("12345"))));
  const auto code = nvrtc_->Compile({.source = kTemplate,
                                     .architecture = "sm_12345",
                                     .name_expressions = {"scale<int>"}});
  ASSERT_TRUE(code) << code.error().message();
  EXPECT_EQ(code->format, CodeFormat::kPtx);
  EXPECT_EQ(code->architecture, *target);
  EXPECT_TRUE(Mentions(code->image, ".entry _Z5scaleIiEvPT_"));
  EXPECT_EQ(code->image.back(), '\0');
}

TEST_F(NvrtcTest, KnownArchitecturesAreTakenAsTheyAre) {
  for (const char* arch : {"sm_90", "sm_90a", "compute_90", "sm_100f"}) {
    const auto target = nvrtc_->TargetFor(arch);
    ASSERT_TRUE(target) << target.error().message();
    EXPECT_EQ(*target, arch);
  }
}

// NVRTC would raise it for the whole process, after an error for good.
TEST_F(NvrtcTest, LeavesTheStackLimitAlone) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_STACK, &before), 0);
  EXPECT_NE(Fault({.source = "#include \"no/such/header.h\"",
                   .architecture = "sm_90"}),
            "");
  rlimit after{};
  ASSERT_EQ(getrlimit(RLIMIT_STACK, &after), 0);
  EXPECT_EQ(after.rlim_cur, before.rlim_cur);
}

}  // namespace
}  // namespace reprise::kernels
