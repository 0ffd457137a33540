// Where CUDA's libraries are looked for.

#include "engine/device/shared_library.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace reprise::device {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(SharedLibraryTest, FindsFolderOfMappedCudaLibrary) {
  EXPECT_THAT(
      CudaLibraryFolders("7f0000000000-7f0000001000 r-xp 00000000 00:1f 12   "
                         "/env/lib/python3.11/site-packages/nvidia/cu13/lib/"
                         "libcudart.so.13\n"),
      Contains("/env/lib/python3.11/site-packages/nvidia/cu13/lib"));
}

TEST(SharedLibraryTest, FindsWheelFolderNextToTorch) {
  EXPECT_THAT(
      CudaLibraryFolders("55d0-55d1 r--p 00000000 00:1f 3   /usr/bin/python3\n"
                         "7f00-7f01 rw-p 00000000 00:00 0\n"
                         "7f02-7f03 r-xp 00000000 00:1f 9   "
                         "/a b/site-packages/torch/lib/libtorch_cuda.so\n"),
      Contains("/a b/site-packages/nvidia/cu13/lib"));
}

TEST(SharedLibraryTest, OtherFilesInTorchsFolderSayNothing) {
  EXPECT_THAT(
      CudaLibraryFolders("7f02-7f03 r-xp 0 00:1f 9 /s/torch/lib/libgomp.so"),
      Not(Contains(HasSubstr("/s/"))));
}

TEST(SharedLibraryTest, EachFolderOnce) {
  const std::string line =
      "7f02-7f03 r-xp 0 00:1f 9 /s/torch/lib/libtorch.so\n";
  EXPECT_EQ(CudaLibraryFolders(line + line).size(),
            CudaLibraryFolders(line).size());
}

TEST(SharedLibraryTest, LoadedLibraryIsFoundWithItsSymbols) {
  const auto library = OpenSharedLibrary("libc.so.6");
  ASSERT_TRUE(library);
  EXPECT_NE(FindSymbol(*library, "malloc"), nullptr);
  EXPECT_EQ(FindSymbol(*library, "no_such_symbol"), nullptr);
}

TEST(SharedLibraryTest, LibrariesAreLocatedWithoutLoadingThem) {
  EXPECT_TRUE(OpenSharedLibrary(LocateSharedLibrary("libc.so.6")));
  // Of every system, and of no program of ours.
  constexpr char kUnused[] = "libBrokenLocale.so.1";
  ASSERT_EQ(dlopen(kUnused, RTLD_NOW | RTLD_NOLOAD), nullptr);
  const std::string path = LocateSharedLibrary(kUnused);
  EXPECT_THAT(path, HasSubstr(std::string("/") + kUnused));
  EXPECT_EQ(access(path.c_str(), R_OK), 0);
  EXPECT_EQ(dlopen(kUnused, RTLD_NOW | RTLD_NOLOAD), nullptr);
  EXPECT_EQ(LocateSharedLibrary("libreprise_missing.so.7"), "");
}

TEST(SharedLibraryTest, MissingLibraryIsUnavailableAndNamed) {
  const auto library = OpenSharedLibrary("libreprise_missing.so.7");
  ASSERT_FALSE(library);
  EXPECT_EQ(library.error().code(), base::Code::kUnavailable);
  EXPECT_THAT(library.error().message(), HasSubstr("libreprise_missing.so.7"));
}

// Where it was looked for is nobody's concern.
TEST(SharedLibraryTest, OfAMissingLibraryTheCallersSentenceIsTold) {
  const auto library =
      OpenSharedLibrary("libreprise_missing.so.7", "there is none: make one");
  ASSERT_FALSE(library);
  EXPECT_EQ(library.error().code(), base::Code::kUnavailable);
  EXPECT_EQ(library.error().message(), "there is none: make one");
}

TEST(SharedLibraryTest, OfABrokenLibraryTheLoadersReasonIsTold) {
  const std::string path =
      testing::TempDir() + "/libreprise_broken_" + std::to_string(getpid());
  std::ofstream(path) << "no library";
  const auto library = OpenSharedLibrary(path);
  std::filesystem::remove(path);
  ASSERT_FALSE(library);
  EXPECT_THAT(library.error().message(),
              AllOf(StartsWith("cannot load " + path), HasSubstr("too short")));
}

}  // namespace
}  // namespace reprise::device
