// Twins compile, are found by name, and are refused where they would not be
// their kernels.

#include "kernels/twin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "engine/base/task.h"
#include "kernels/compiler.h"
#include "tests/engine/base/manual_task_runner.h"
#include "tests/kernels/nvrtc_fixture.h"

namespace reprise::kernels {
namespace {

using ::testing::HasSubstr;

class TwinTest : public NvrtcFixture {
 protected:
  static KernelSource Source(const std::string& text,
                             const std::string& architecture = "sm_90") {
    return {.source = text, .name = "user.cu", .architecture = architecture};
  }
  base::Result<Compilation::CodePtr> Compile(KernelSource source) {
    return compiler_.Compile(std::move(source))->Wait();
  }

  base::InPlaceTaskRunner tasks_;
  Compiler compiler_{tasks_};
};

constexpr char kAxpy[] = R"(
extern "C" __global__ void __launch_bounds__(128)
axpy(float a, const float* __restrict__ x, float* __restrict__ y, int n) {
  extern __shared__ float unused[];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] += a * x[i];
}
namespace many {
struct Three { double v[3]; };
template <typename T>
__global__ void Fill(char odd, Three three, T* to) { *to = T(three.v[2]) + odd; }
__global__ void Nothing() {}
}
)";

TEST_F(TwinTest, ReadsItsArgumentsWhereTheDriverWouldPutThem) {
  const Twin twin =
      TwinOf(Source(kAxpy, "compute_90"), "many::Fill<float>", 256);
  const auto code = Compile(twin.source);
  ASSERT_TRUE(code) << code.error().message();
  ASSERT_TRUE((*code)->lowered_names.contains(twin.name));
  const std::string ptx((*code)->image.data());
  EXPECT_THAT(ptx, HasSubstr((*code)->lowered_names.at(twin.name)));
  EXPECT_THAT(ptx, HasSubstr(".maxntid 256"));
  EXPECT_THAT(ptx, HasSubstr("+24]"));  // three.v[2]
  EXPECT_THAT(ptx, HasSubstr("+32]"));  // to
}

TEST_F(TwinTest, StandsForKernelsOfAnyName) {
  for (const char* name : {"axpy", "many::Fill<double>", "many::Nothing"}) {
    const Twin twin = TwinOf(Source(kAxpy), name, 1024);
    const auto code = Compile(twin.source);
    ASSERT_TRUE(code) << name << ": " << code.error().message();
    EXPECT_FALSE(HasVariables(**code)) << name;
  }
}

TEST_F(TwinTest, MessagesNameTheLinesOfTheSource) {
  const auto code = Compile(
      TwinOf(Source("\n\n__global__ void f() { return 1; }"), "f", 32).source);
  ASSERT_FALSE(code);
  EXPECT_THAT(code.error().message(), HasSubstr("user.cu(3)"));
}

TEST_F(TwinTest, VariablesAreSeen) {
  const char* const sources[] = {
      "__device__ int v; __global__ void f(int* p) { *p = ++v; }",
      "__device__ int v = 7; __global__ void f(int* p) { *p = ++v; }",
      "__constant__ int v; __global__ void f(int* p) { *p = v; }",
      "__global__ void f(int* p) { static int v; *p = ++v; }"};
  for (const char* source : sources) {
    for (const char* architecture : {"sm_90", "compute_90"}) {
      const auto code =
          Compile(TwinOf(Source(source, architecture), "f", 1024).source);
      ASSERT_TRUE(code) << code.error().message();
      EXPECT_TRUE(HasVariables(**code)) << architecture << ": " << source;
    }
  }
  // What nobody writes is none: the tables of sinf, strings.
  constexpr char kTables[] =
      "extern \"C\" int printf(const char*, ...);"
      "__global__ void f(float* p) { *p = sinf(*p); printf(\"%p\", p); }";
  for (const char* source : {kAxpy, kTables}) {
    for (const char* architecture : {"sm_90", "compute_90"}) {
      const auto none = Compile(TwinOf(Source(source, architecture),
                                       source == kAxpy ? "axpy" : "f", 1024)
                                    .source);
      ASSERT_TRUE(none) << none.error().message();
      EXPECT_FALSE(HasVariables(**none)) << architecture << ": " << source;
    }
  }
}

TEST_F(TwinTest, WhatIsNoCodeMayHaveVariables) {
  CompiledCode code;
  code.image = {'n', 'o'};
  EXPECT_TRUE(HasVariables(code));
}

}  // namespace
}  // namespace reprise::kernels
