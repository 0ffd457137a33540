// Files that are read once, and again when they change.

#include "kernels/included_files.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "kernels/hash_bytes.h"
#include "tests/kernels/temporary_folder.h"

namespace reprise::kernels {
namespace {

using ::testing::ElementsAre;

TEST(IncludedFilesTest, TellsWhatAFileIncludes) {
  const TemporaryFolder folder;
  folder.Write("a.h", "#include <b.h>");
  IncludedFiles files;
  const auto file = files.Find(folder / "a.h");
  ASSERT_NE(file, nullptr);
  EXPECT_TRUE(file->readable);
  EXPECT_THAT(file->directives.names, ElementsAre("b.h"));
  EXPECT_EQ(file->content, HashBytes(std::string("#include <b.h>")));
}

TEST(IncludedFilesTest, OnlyRegularFilesCount) {
  const TemporaryFolder folder;
  IncludedFiles files;
  EXPECT_EQ(files.Find(folder / "none.h"), nullptr);
  EXPECT_EQ(files.Find(folder.path()), nullptr);
  ASSERT_EQ(mkfifo((folder / "pipe.h").c_str(), 0600), 0);
  EXPECT_EQ(files.Find(folder / "pipe.h"), nullptr);
  folder.Write("a.h", "");
  std::filesystem::create_symlink("a.h", folder / "link.h");
  EXPECT_NE(files.Find(folder / "link.h"), nullptr);
}

// Written within one tick of the clock, with the size and time of before.
TEST(IncludedFilesTest, FreshFileIsReadAgainEachTime) {
  const TemporaryFolder folder;
  IncludedFiles files;
  for (const char* text : {"#include <a>", "#include <b>", "#include <c>"}) {
    folder.Write("a.h", text);
    const timespec times[] = {{1'000'000'000, 0}, {1'000'000'000, 0}};
    ASSERT_EQ(utimensat(AT_FDCWD, (folder / "a.h").c_str(), times, 0), 0);
    EXPECT_EQ(files.Find(folder / "a.h")->content,
              HashBytes(std::string(text)));
  }
}

// The system's shell was not written just now.
TEST(IncludedFilesTest, SettledFileIsReadOnce) {
  const std::string path = std::filesystem::canonical("/bin/sh");
  IncludedFiles files;
  const auto first = files.Find(path);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(files.Find(path), first);
}

}  // namespace
}  // namespace reprise::kernels
