// What is said of a kernel's name that is wrong.

#include "kernels/kernel_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace reprise::kernels {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST(KernelNamesTest, AreAsInTheSource) {
  EXPECT_EQ(Demangle("_ZN5space5scaleEPf"), "space::scale(float*)");
  EXPECT_EQ(Demangle("_Z5scaleIfEvPT_"), "scale<float>(float*)");
  EXPECT_EQ(Demangle("axpy"), "axpy");
  EXPECT_TRUE(IsCalled("space::scale(float*)", "space::scale"));
  EXPECT_FALSE(IsCalled("space::scale(float*)", "space::sca"));
}

TEST(KernelNamesTest, KernelsOfPtxAreItsEntries) {
  EXPECT_THAT(KernelsOfPtx("//\n.visible .func f(\n)\n"
                           ".visible .entry _Z6negatePf(\n.param .u64 p\n)\n{}"
                           "\n.visible .entry axpy()\n{}\n.weak .entry last"),
              ElementsAre("negate(float*)", "axpy", "last"));
  EXPECT_THAT(KernelsOfPtx(""), IsEmpty());
}

TEST(KernelNamesTest, TemplatesAreFoundInTheText) {
  EXPECT_THAT(KernelTemplatesOf(R"(
// template <typename T> __global__ void in_comment(T*);
/* template <int n> __global__ void in_another() {} */
const char* text = "template <int n> __global__ void \" in_text() {}";
extern "C" __global__ void plain(float* p) { *p = 1; }
template <typename T> __device__ T twice(T x) { return 2 * x; }
namespace space {
template <typename T, int n>
__global__ void __launch_bounds__(128) scale (T* p) { *p *= twice(T(n)); }
template <> __global__ void scale<int, 1>(int* p) {}
}
template __global__ void space::scale<float, 2>(float*);
template <class T> static __global__ void map(T* p) {}
template <class T> __global__ void map(T* p, int) {})"),
              ElementsAre("scale", "map"));
  EXPECT_THAT(KernelTemplatesOf("template <int n> __global__ void"), IsEmpty());
  EXPECT_THAT(KernelTemplatesOf("/* never closed"), IsEmpty());
}

TEST(KernelNamesTest, ClosestNamesComeFirst) {
  EXPECT_EQ(WhyNoKernel("aximum", {"add", "space::maximum(float*)", "axpy"},
                        {"minimum", "maximum"}),
            "has no kernel 'aximum': it has space::maximum(float*), axpy, add, "
            "and the templates maximum, minimum, named with arguments as in "
            "maximum<float>");
  EXPECT_EQ(WhyNoKernel("scale<int>", {}, {"skale"}),
            "has no kernel 'scale<int>': it has the template skale, named with "
            "arguments as in skale<float>");
  EXPECT_EQ(WhyNoKernel("(void(*)(int*))sett", {"add", "set(float*)"}, {}),
            "has no kernel '(void(*)(int*))sett': it has set(float*), add");
}

TEST(KernelNamesTest, ANameOfTwoIsToldHowToChoose) {
  EXPECT_EQ(WhyNoKernel("set", {"set(int*)", "add", "set(float*)"}, {}),
            "has 2 kernels 'set' (set(int*), set(float*), add): declare one "
            "extern \"C\", or name it with its type, as in "
            "(void(*)(float*))set");
}

TEST(KernelNamesTest, ASourceWithoutKernelsIsTold) {
  EXPECT_EQ(WhyNoKernel("space::f", {}, {}),
            "has no kernel 'space::f': it has no kernel at all (__global__ "
            "void f(...))");
}

TEST(KernelNamesTest, LongListsAreCutShort) {
  std::vector<std::string> kernels;
  for (int i = 0; i < 20; ++i) kernels.push_back("f" + std::to_string(i));
  const std::string why = WhyNoKernel("f17", kernels, {});
  EXPECT_THAT(why, HasSubstr("it has f17, "));
  EXPECT_THAT(why, HasSubstr(" and 12 more"));
  EXPECT_THAT(why, Not(HasSubstr("f19")));
}

}  // namespace
}  // namespace reprise::kernels
