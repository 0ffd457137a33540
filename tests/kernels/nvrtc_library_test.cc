// The NVRTC of this process: where it is, what tells it from others, and the
// headers beside it.

#include "kernels/nvrtc_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "engine/device/shared_library.h"
#include "tests/kernels/nvrtc_fixture.h"

namespace reprise::kernels {
namespace {

using NvrtcLibraryTest = NvrtcFixture;

TEST_F(NvrtcLibraryTest, IsOpenedFromWhereItWasFound) {
  const auto library = OpenNvrtc();
  ASSERT_TRUE(library) << library.error().message();
  EXPECT_THAT(library->path, testing::HasSubstr("libnvrtc.so.13"));
  EXPECT_TRUE(std::filesystem::exists(library->path));
  EXPECT_NE(device::FindSymbol(library->handle, "nvrtcVersion"), nullptr);
  const auto again = OpenNvrtc();
  ASSERT_TRUE(again);
  EXPECT_EQ(again->path, library->path);
}

TEST_F(NvrtcLibraryTest, HasOneIdentity) {
  const auto identity = NvrtcIdentity();
  ASSERT_TRUE(identity) << identity.error().message();
  EXPECT_THAT(*identity, testing::Not(testing::IsEmpty()));
  EXPECT_EQ(*NvrtcIdentity(), *identity);
}

TEST_F(NvrtcLibraryTest, TheFirstFolderOfHeadersHasTheToolkitsOwn) {
  const std::vector<std::string>& paths = ToolkitIncludePaths();
  EXPECT_EQ(&paths, &ToolkitIncludePaths());
  if (paths.empty()) GTEST_SKIP() << "no headers beside NVRTC";
  const std::filesystem::path first(paths.front());
  EXPECT_TRUE(std::filesystem::exists(first / "cuda_fp16.h"));
  for (const std::string& path : paths) {
    EXPECT_TRUE(std::filesystem::is_directory(path)) << path;
  }
}

}  // namespace
}  // namespace reprise::kernels
