// What makes two sources the same.

#include "kernels/compile_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <set>

#include "tests/kernels/temporary_folder.h"

namespace reprise::kernels {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

KernelSource Sample() {
  return {.source = "__global__ void f() {}",
          .name = "f.cu",
          .architecture = "sm_90",
          .options = {"-DA", "-DB"},
          .headers = {{"a.h", "int a;"}},
          .include_paths = {"/x"},
          .name_expressions = {"f"}};
}

class CompileRequestTest : public ::testing::Test {
 protected:
  static base::Result<CompileRequest> Make(
      KernelSource source, const std::string& nvrtc = "an NVRTC") {
    IncludedFiles files;
    return MakeCompileRequest(nvrtc, std::move(source), files);
  }
  static std::optional<cache::Signature> KeyOf(KernelSource source) {
    const auto request = Make(std::move(source));
    EXPECT_TRUE(request) << request.error().message();
    return request ? request->key : std::nullopt;
  }
  static std::string Fault(KernelSource source) {
    const auto request = Make(std::move(source));
    if (request) return "";
    EXPECT_EQ(request.error().code(), base::Code::kInvalidArgument);
    return request.error().message();
  }
};

TEST_F(CompileRequestTest, EveryFieldIsPartOfTheKey) {
  const std::function<void(KernelSource&)> changes[] = {
      [](KernelSource&) {},
      [](KernelSource& s) { s.source += " "; },
      [](KernelSource& s) { s.name = "g.cu"; },
      [](KernelSource& s) { s.architecture = "sm_80"; },
      [](KernelSource& s) { s.architecture = "compute_90"; },
      [](KernelSource& s) {
        s.options = {"-DB", "-DA"};
      },
      [](KernelSource& s) { s.options = {"-DA-DB"}; },
      [](KernelSource& s) { s.options = {"-DA"}; },
      [](KernelSource& s) { s.headers["a.h"] = "int b;"; },
      [](KernelSource& s) {
        s.headers = {{"b.h", "int a;"}};
      },
      [](KernelSource& s) { s.headers["b.h"] = ""; },
      [](KernelSource& s) { s.include_paths = {"/y"}; },
      [](KernelSource& s) {
        s.include_paths = {"/x", "/y"};
      },
      [](KernelSource& s) { s.name_expressions = {"g"}; },
      [](KernelSource& s) { s.name_expressions = {}; },
      // A text that wanders from one field to the next.
      [](KernelSource& s) {
        s.include_paths = {};
        s.name_expressions = {"/x", "f"};
      },
  };
  std::set<cache::Signature> keys;
  for (const auto& change : changes) {
    KernelSource source = Sample();
    change(source);
    const auto key = KeyOf(source);
    ASSERT_TRUE(key);
    EXPECT_EQ(KeyOf(source), key);
    EXPECT_TRUE(keys.insert(*key).second) << &change - changes;
  }
}

TEST_F(CompileRequestTest, AnotherNvrtcIsAnotherKey) {
  EXPECT_EQ(Make(Sample(), "one")->key, Make(Sample(), "one")->key);
  EXPECT_NE(Make(Sample(), "one")->key, Make(Sample(), "other")->key);
}

TEST_F(CompileRequestTest, OptionsMayNameIncludePaths) {
  KernelSource source = Sample();
  source.options = {"-I/a",  "-DA", "-I",   "/b", "--include-path=/c",
                    "-I=/d", "-DB", "-I e", "-w"};
  const auto request = Make(source);
  ASSERT_TRUE(request) << request.error().message();
  EXPECT_THAT(request->source.options, ElementsAre("-DA", "-DB", "-w"));
  EXPECT_THAT(request->source.include_paths,
              ElementsAre("/x", "/a", "/b", "/c", "/d",
                          std::filesystem::current_path().native() + "/e"));
  EXPECT_TRUE(request->key);
  source.options = {"-DA", "-I"};
  EXPECT_THAT(Fault(source), HasSubstr("'-I'"));
}

TEST_F(CompileRequestTest, ArchitectureIsNoOption) {
  for (const char* option :
       {"-arch=sm_80", "--gpu-architecture=sm_80", "-arch"}) {
    KernelSource source = Sample();
    source.options = {option};
    EXPECT_THAT(Fault(source), HasSubstr(option));
  }
}

TEST_F(CompileRequestTest, IncludedFilesArePartOfTheKey) {
  const TemporaryFolder folder;
  KernelSource source = Sample();
  source.source = "#include <a_file.h>";
  source.include_paths = {folder.path()};
  const auto without = KeyOf(source);
  folder.Write("a_file.h", "int a;");
  const auto with = KeyOf(source);
  EXPECT_NE(with, without);
  folder.Write("a_file.h", "int b;");
  EXPECT_NE(KeyOf(source), with);
  folder.Write("a_file.h", "int a;");
  EXPECT_EQ(KeyOf(source), with);
}

TEST_F(CompileRequestTest, HasNoKeyWhereTheTextDoesNotTell) {
  for (const char* option :
       {"-include=a.h", "--pre-include=a.h", "-include", "--use-pch=a",
        "--create-pch=a", "-pch", "--pch-dir=d", "-time=t.csv",
        "-fdevice-time-trace=t"}) {
    KernelSource source = Sample();
    source.options = {option};
    EXPECT_EQ(KeyOf(source), std::nullopt) << option;
  }
  KernelSource source = Sample();
  source.source = "#include SOMETHING";
  EXPECT_EQ(KeyOf(source), std::nullopt);
  setenv("NVRTC_APPEND_FLAGS", "-G", 1);
  EXPECT_EQ(KeyOf(Sample()), std::nullopt);
  unsetenv("NVRTC_APPEND_FLAGS");
  EXPECT_TRUE(KeyOf(Sample()));
}

}  // namespace
}  // namespace reprise::kernels
