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

Dependencies Find(const KernelSource& source) {
  IncludedFiles files;
  return FindDependencies(source, files);
}

TEST(FindDependenciesTest, FollowsIncludesThroughFilesAndHeaders) {
  const TemporaryFolder folder;
  folder.Write("first/a/a.h", "#include \"sibling.h\"\n");
  folder.Write("first/a/sibling.h", "#include <deep.h>\n");
  folder.Write("second/deep.h", "");
  folder.Write("second/from_header.h", "");
  folder.Write("second/unused.h", "");
  const Dependencies found =
      Find({.source = "#include <a/a.h>\n#include \"mine.h\"",
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
  const Dependencies before = Find(source);
  EXPECT_EQ(before.files.size(), 1);
  EXPECT_EQ(Find(source), before);
  folder.Write("first/a.h", "int a;");
  EXPECT_EQ(Find(source).files.size(), 2);
}

TEST(FindDependenciesTest, ContentCounts) {
  const TemporaryFolder folder;
  const KernelSource source{.source = "#include <a.h>",
                            .include_paths = {folder.path()}};
  folder.Write("a.h", "int a;");
  const Dependencies before = Find(source);
  folder.Write("a.h", "int b;");
  const Dependencies after = Find(source);
  EXPECT_EQ(after.files[0].path, before.files[0].path);
  EXPECT_NE(after, before);
}

TEST(FindDependenciesTest, FindsAbsoluteNamesAndTheSourcesFolder) {
  const TemporaryFolder folder;
  folder.Write("a.h", "#include \"a.h\"\n#include \"b.h\"");
  folder.Write("b.h", "");
  const std::string include = "#include \"" + (folder / "a.h") + "\"";
  EXPECT_EQ(Find({.source = include}).files.size(), 2);
  EXPECT_EQ(Find({.source = "#include \"b.h\"", .name = folder / "kernel.cu"})
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
      Find({.source = "#include \"here.h\"\n#include <there.h>",
            .include_paths = {"include"}});
  ASSERT_EQ(chdir(before.c_str()), 0);
  ASSERT_EQ(found.files.size(), 2);
  EXPECT_EQ(found.files[0].path, folder / "here.h");
  EXPECT_EQ(found.files[1].path, folder / "include/there.h");
}

TEST(FindDependenciesTest, IncompletenessOfAnyFileCounts) {
  const TemporaryFolder folder;
  folder.Write("a.h", "#include MACRO");
  EXPECT_FALSE(
      Find({.source = "#include <a.h>", .include_paths = {folder.path()}})
          .complete);
  EXPECT_TRUE(
      Find({.source = "#include <b.h>", .include_paths = {folder.path()}})
          .complete);
}

// As thrust chooses its backends.
TEST(FindDependenciesTest, FollowsNamesThatMacrosMake) {
  const TemporaryFolder folder;
  folder.Write("config.h",
               "#if defined(CHOICE)\n#define SYSTEM one\n#else\n"
               "#define SYSTEM two\n#endif\n#define ROOT systems/SYSTEM\n");
  folder.Write("systems/one/copy.h", "");
  folder.Write("systems/two/copy.h", "#include LATER");
  folder.Write("later.h", "");
  folder.Write("systems/three/copy.h", "");
  KernelSource source{.source =
                          "#include <config.h>\n#define COPY <ROOT/copy.h>\n"
                          "#include COPY",
                      .options = {"-DLATER=<later.h>"},
                      .include_paths = {folder.path()}};
  const Dependencies found = Find(source);
  EXPECT_TRUE(found.complete);
  std::vector<std::string> paths;
  for (const auto& file : found.files) paths.push_back(file.path);
  EXPECT_THAT(paths, ElementsAre(folder / "config.h", folder / "later.h",
                                 folder / "systems/one/copy.h",
                                 folder / "systems/two/copy.h"));
  source.options = {"-D", "LATER=\"later.h\""};
  EXPECT_TRUE(Find(source).complete);
  source.options = {"--define-macro=LATER=<later.h>"};
  EXPECT_TRUE(Find(source).complete);
  source.options = {};
  EXPECT_FALSE(Find(source).complete);
}

}  // namespace
}  // namespace reprise::kernels
