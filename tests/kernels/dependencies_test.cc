// What a source may include, by its text.

#include "kernels/dependencies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "kernels/hash_bytes.h"
#include "tests/kernels/temporary_folder.h"

namespace reprise::kernels {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> Names(std::string_view text) {
  return FindIncludedNames(text).names;
}

bool Complete(std::string_view text) {
  return FindIncludedNames(text).complete;
}

TEST(FindIncludedNamesTest, FindsIncludesHoweverWritten) {
  EXPECT_THAT(Names("#include <a/b.h>\n#include \"c d.h\""),
              ElementsAre("a/b.h", "c d.h"));
  EXPECT_THAT(Names(" \t# /* x */ include /* y */ <a>"), ElementsAre("a"));
  EXPECT_THAT(Names("#include<a>\r\n#include\"b\"\r\n"), ElementsAre("a", "b"));
  EXPECT_THAT(Names("#include_next <a>"), ElementsAre("a"));
  EXPECT_THAT(Names("%:include <a>"), ElementsAre("a"));
  EXPECT_THAT(Names("#inc\\\nlude \\ \n <a>"), ElementsAre("a"));
  EXPECT_THAT(Names("/* the comment\nends */ #include <a>"), ElementsAre("a"));
  EXPECT_THAT(Names("#include <a> // and \"b\""), ElementsAre("a"));
}

TEST(FindIncludedNamesTest, HeedsNoConditionsOrComments) {
  EXPECT_THAT(Names("#if 0\n#include <a>\n#endif\n/*\n#include <b>\n*/"),
              ElementsAre("a", "b"));
}

TEST(FindIncludedNamesTest, FindsWhatIsAskedFor) {
  EXPECT_THAT(Names("#if __has_include(<a>) || __has_include(\"b\")"),
              ElementsAre("a", "b"));
  EXPECT_THAT(Names("#define HAS(x) __has_include(x)\n"
                    "#elif MY_HAS_INCLUDE( <c> )"),
              ElementsAre("c"));
}

TEST(FindIncludedNamesTest, OtherTextNamesNothing) {
  const char* text =
      "int include = 3; // include <a>\nconst char* s = \"include \";\n"
      "#define INCLUDED\n#ifdef INCLUDE_ALL\n#endif\nx = a # include;\n";
  EXPECT_THAT(Names(text), IsEmpty());
  EXPECT_TRUE(Complete(text));
}

TEST(FindIncludedNamesTest, SaysWhenTextDoesNotTell) {
  EXPECT_TRUE(Complete("#include <a>\n#if __has_include(<b>)\n#endif"));
  EXPECT_FALSE(Complete("#include HEADER"));
  EXPECT_FALSE(Complete("#include /* goes on\n */ <a>"));
  EXPECT_FALSE(Complete("# /* goes on\n */ include <a>"));
  EXPECT_FALSE(Complete("?\?=include <a>"));
  EXPECT_FALSE(Complete("#inc?\?/\nlude <a>"));
  EXPECT_FALSE(Complete("const char* made = __DATE__;"));
  EXPECT_FALSE(Complete("const char* made = __TIME__;"));
}

TEST(FindDependenciesTest, FollowsIncludesThroughFilesAndHeaders) {
  const TemporaryFolder folder;
  folder.Write("first/a/a.h", "#include \"sibling.h\"\n");
  folder.Write("first/a/sibling.h", "#include <deep.h>\n");
  folder.Write("second/deep.h", "");
  folder.Write("second/from_header.h", "");
  folder.Write("second/unused.h", "");
  const Dependencies found = FindDependencies(
      {.source = "#include <a/a.h>\n#include \"mine.h\"",
       .headers = {{"mine.h", "#include \"from_header.h\""}},
       .include_paths = {folder / "first", folder / "second"}});
  EXPECT_TRUE(found.complete);
  std::vector<std::string> paths;
  for (const auto& file : found.files) paths.push_back(file.path);
  EXPECT_THAT(
      paths,
      ElementsAre(folder / "first/a/a.h", folder / "first/a/sibling.h",
                  folder / "second/deep.h", folder / "second/from_header.h"));
  EXPECT_EQ(found.files[2].content, HashBytes({}));
}

// Which of them is included is not asked: one that appears before the one that
// was read changes the list.
TEST(FindDependenciesTest, CountsEveryFileOfTheName) {
  const TemporaryFolder folder;
  const KernelSource source{
      .source = "#include <a.h>",
      .include_paths = {folder / "first", folder / "second"}};
  folder.Write("second/a.h", "int a;");
  const Dependencies before = FindDependencies(source);
  EXPECT_EQ(before.files.size(), 1);
  EXPECT_EQ(FindDependencies(source), before);
  folder.Write("first/a.h", "int a;");
  EXPECT_EQ(FindDependencies(source).files.size(), 2);
}

TEST(FindDependenciesTest, ContentCounts) {
  const TemporaryFolder folder;
  const KernelSource source{.source = "#include <a.h>",
                            .include_paths = {folder.path()}};
  folder.Write("a.h", "int a;");
  const Dependencies before = FindDependencies(source);
  folder.Write("a.h", "int b;");
  const Dependencies after = FindDependencies(source);
  EXPECT_EQ(after.files[0].path, before.files[0].path);
  EXPECT_NE(after, before);
}

TEST(FindDependenciesTest, FindsAbsoluteNamesAndTheSourcesFolder) {
  const TemporaryFolder folder;
  folder.Write("a.h", "#include \"a.h\"\n#include \"b.h\"");
  folder.Write("b.h", "");
  const std::string include = "#include \"" + (folder / "a.h") + "\"";
  EXPECT_EQ(FindDependencies({.source = include}).files.size(), 2);
  EXPECT_EQ(FindDependencies(
                {.source = "#include \"b.h\"", .name = folder / "kernel.cu"})
                .files.size(),
            1);
}

TEST(FindDependenciesTest, SearchesRelativePathsFromTheWorkingDirectory) {
  const TemporaryFolder folder;
  folder.Write("here.h", "");
  folder.Write("include/there.h", "");
  const std::string before = std::filesystem::current_path();
  ASSERT_EQ(chdir(folder.path().c_str()), 0);
  const Dependencies found =
      FindDependencies({.source = "#include \"here.h\"\n#include <there.h>",
                        .include_paths = {"include"}});
  ASSERT_EQ(chdir(before.c_str()), 0);
  ASSERT_EQ(found.files.size(), 2);
  EXPECT_EQ(found.files[0].path, folder / "here.h");
  EXPECT_EQ(found.files[1].path, folder / "include/there.h");
}

TEST(FindDependenciesTest, IncompletenessOfAnyFileCounts) {
  const TemporaryFolder folder;
  folder.Write("a.h", "#include MACRO");
  EXPECT_FALSE(FindDependencies({.source = "#include <a.h>",
                                 .include_paths = {folder.path()}})
                   .complete);
  EXPECT_TRUE(FindDependencies({.source = "#include <b.h>",
                                .include_paths = {folder.path()}})
                  .complete);
}

}  // namespace
}  // namespace reprise::kernels
