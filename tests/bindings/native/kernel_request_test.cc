// Proves what the compiler is asked for a source, and that one is checked where
// there is no device and no driver.

#include "bindings/native/kernel_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "bindings/native/reprise.h"
#include "kernels/nvrtc_library.h"
#include "tests/kernels/nvrtc_fixture.h"

namespace reprise {
namespace {

constexpr char kSource[] = R"(
extern "C" __global__ void add(float* p, float by) { *p += by; }
namespace space { __global__ void negate(float* p) { *p = -*p; } }
__global__ void set(float* p, float to) { *p = to; }
__global__ void set(float* p, int to) { *p = to; }
template <typename T> __global__ void scale(T* p) { *p *= T::kFactor; }
struct Two { static constexpr int kFactor = 2; };
)";

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> NamesOf(const std::string& name,
                                 std::vector<std::string> instances = {}) {
  return native::RequestOf({.source = kSource,
                            .name = name,
                            .instances = std::move(instances)})
      .name_expressions;
}

TEST(KernelRequestTest, AllOfASourceIsTheCompilers) {
  const kernels::KernelSource request =
      native::RequestOf({.source = "extern",
                         .options = {"--use_fast_math"},
                         .headers = {{"a.h", "text"}},
                         .include_paths = {"/own"},
                         .architecture = "sm_90a",
                         .file = "mine.cu"});
  EXPECT_EQ(request.source, "extern");
  EXPECT_EQ(request.name, "mine.cu");
  EXPECT_EQ(request.architecture, "sm_90a");
  EXPECT_THAT(request.options, ElementsAre("--use_fast_math"));
  EXPECT_EQ(request.headers.at("a.h"), "text");
  EXPECT_THAT(request.include_paths, ElementsAre("/own"));
}

// Others are found in the code, and such sources are compiled once.
TEST(KernelRequestTest, OnlyNamesThatAreExpressionsAreTheCompilersToFind) {
  EXPECT_THAT(NamesOf("add"), IsEmpty());
  EXPECT_THAT(NamesOf("space::negate"), IsEmpty());
  EXPECT_THAT(NamesOf("scale<Two>"), ElementsAre("scale<Two>"));
  EXPECT_THAT(NamesOf("(void(*)(float*, int))set"),
              ElementsAre("(void(*)(float*, int))set"));
}

TEST(KernelRequestTest, SourcesThatNameTheSameAreTheSame) {
  EXPECT_THAT(NamesOf("b<1>", {"c<1>", "a<1>", "b<1>"}),
              ElementsAre("a<1>", "b<1>", "c<1>"));
}

// A source without an include is found again wherever the toolkit lies.
TEST(KernelRequestTest, TheToolkitsFoldersComeBehindTheSourcesOwn) {
  std::vector<std::string> folders = {"/own"};
  const std::vector<std::string>& toolkit = kernels::ToolkitIncludePaths();
  folders.insert(folders.end(), toolkit.begin(), toolkit.end());
  EXPECT_EQ(native::RequestOf(
                {.source = "#include <cuda_fp16.h>", .include_paths = {"/own"}})
                .include_paths,
            folders);
  EXPECT_EQ(native::RequestOf({.source = "extern",
                               .options = {"-include", "cuda_fp16.h"},
                               .include_paths = {"/own"}})
                .include_paths,
            folders);
}

class CheckSourceTest : public kernels::NvrtcFixture {
 protected:
  static std::string Fault(const KernelSource& source) {
    const Result<std::string> checked = CheckSource(source);
    if (checked) return "none";
    EXPECT_EQ(checked.error().code(), Code::kInvalidArgument);
    return checked.error().message();
  }
};

TEST_F(CheckSourceTest, RightSourcesHaveNoLog) {
  for (const char* name : {"", "add", "space::negate", "_ZN5space6negateEPf",
                           "(void(*)(float*, int))set"}) {
    const auto log = CheckSource({.source = kSource, .name = name});
    ASSERT_TRUE(log) << name << ": " << log.error().message();
    EXPECT_EQ(*log, "") << name;
  }
  EXPECT_TRUE(CheckSource({.source = "#include <cuda_fp16.h>\n"
                                     "extern \"C\" __global__ void f() {}",
                           .name = "f"}));
}

TEST_F(CheckSourceTest, WarningsAreGiven) {
  const auto log = CheckSource(
      {.source = "extern \"C\" __global__ void f(int* p) {\n  int x;\n}",
       .name = "f",
       .file = "mine.cu"});
  ASSERT_TRUE(log) << log.error().message();
  EXPECT_NE(log->find("mine.cu(2): warning"), std::string::npos) << *log;
}

TEST_F(CheckSourceTest, MistakesAreTold) {
  EXPECT_NE(Fault({.source = "\n__global__ void f() { g(); }"})
                .find("kernel.cu(2): error: identifier \"g\" is undefined"),
            std::string::npos);
  EXPECT_EQ(Fault({.source = kSource, .name = "ad"}),
            "kernel.cu has no kernel 'ad': it has add, set(float*, float), "
            "set(float*, int), space::negate(float*), and the template scale, "
            "named with arguments as in scale<float>");
  EXPECT_EQ(Fault({.source = kSource, .name = "negat"})
                .find("kernel.cu has no kernel 'negat': it has space::negate("),
            0u);
  EXPECT_NE(Fault({.source = kSource, .name = "set"})
                .find("kernel.cu has 2 kernels 'set'"),
            std::string::npos);
  EXPECT_NE(Fault({.source = kSource, .name = "scale<float>"}).find("kFactor"),
            std::string::npos);
  EXPECT_NE(Fault({.source = kSource, .architecture = "ninety"}).find("ninety"),
            std::string::npos);
}

// What an architecture has not is a mistake for it alone.
TEST_F(CheckSourceTest, TheArchitectureIsTheSources) {
  KernelSource source{.source =
                          "extern \"C\" __global__ void f() {\n"
                          "#if __CUDA_ARCH__ < 900\n#error too old\n#endif\n}",
                      .name = "f"};
  EXPECT_TRUE(CheckSource(source));  // as for a host runtime: 9.0
  source.architecture = "sm_80";
  EXPECT_NE(Fault(source).find("too old"), std::string::npos);
}

}  // namespace
}  // namespace reprise
